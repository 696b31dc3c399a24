"""Composition of an InferenceCluster, and the InferenceClass of its nodes."""
