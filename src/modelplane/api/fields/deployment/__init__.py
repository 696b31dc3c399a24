"""Fields of a deployment: where its replicas are placed, and how they are replaced."""
