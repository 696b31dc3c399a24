"""Permissions of each identity (Kubernetes RBAC)."""
