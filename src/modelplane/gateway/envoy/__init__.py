"""A table of routes as the resources that Envoy reads (Envoy, "xDS protocol")."""
