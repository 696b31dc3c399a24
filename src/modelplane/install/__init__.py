"""Modelplane on any Kubernetes cluster: its manifests, and putting them there."""
