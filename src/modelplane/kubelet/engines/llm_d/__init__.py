"""Stand-ins of llm-d's programs for a machine without containers: endpoint picker and routing sidecar.

They speak the protocols of the programs that they stand in for, and choose more simply.
"""
