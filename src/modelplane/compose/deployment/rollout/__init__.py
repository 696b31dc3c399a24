"""Rollout of an edit to a deployment's replicas, with or without a canary."""
