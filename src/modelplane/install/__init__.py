"""Modelplane on any Kubernetes cluster: its manifests, and their installation."""
