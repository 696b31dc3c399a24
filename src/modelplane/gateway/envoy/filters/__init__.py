"""Envoy's filters of a request: the gateway's module, limits, tokens, addresses."""
