"""Autoscaling: how many replicas a deployment needs, from what the gateways have counted. Pure."""
