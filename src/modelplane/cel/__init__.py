"""Device selectors as Dynamic Resource Allocation understands them."""
