"""Composition of the InferenceGateway."""
