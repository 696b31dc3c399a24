"""Replicas that exist: which are kept, which leave, and why."""
