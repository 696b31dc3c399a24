"""Values of Kubernetes that are written as text: quantities and versions."""
