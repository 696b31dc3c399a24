"""The check of manifests, as an API server makes it."""
