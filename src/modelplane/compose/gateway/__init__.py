"""What composes the InferenceGateway."""
