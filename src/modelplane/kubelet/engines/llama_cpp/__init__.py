"""`llama-server` from a Python package."""
