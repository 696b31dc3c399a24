"""MCP server: the documentation and a fleet as read-only tools of AI assistants.

The tools of the documentation read the pages that come with Modelplane. Those of a fleet read the control
plane with the caller's kubeconfig, once for each call, and have no way to write.
"""
