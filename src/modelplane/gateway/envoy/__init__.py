"""Envoy resources of a table of routes (Envoy, "xDS protocol")."""
