"""Capacity of an InferenceCluster: declared, observed, and usable."""
