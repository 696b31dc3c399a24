"""Preemption: which deployment comes first, and which replicas leave for it."""
