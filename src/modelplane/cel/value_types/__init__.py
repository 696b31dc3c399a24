"""Values of selectors: their types, and what Kubernetes adds to them."""
