"""How configuration reaches an Envoy, and how that Envoy runs."""
