"""Nebius Managed Kubernetes."""
