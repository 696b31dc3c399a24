"""What composes an InferenceCluster, and the InferenceClass of its nodes."""
