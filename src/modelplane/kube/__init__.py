"""Kubernetes: one client per API server, informers, server-side apply."""
