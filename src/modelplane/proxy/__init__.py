"""The Envoy process: how it starts, and how its configuration reaches it."""
