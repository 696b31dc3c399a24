"""Vultr Kubernetes Engine."""
