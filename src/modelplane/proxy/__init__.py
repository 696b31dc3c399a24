"""The Envoy process: its start, and the delivery of its configuration."""
