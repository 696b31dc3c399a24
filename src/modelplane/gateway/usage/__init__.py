"""Usage: what was counted of requests, what it costs, and what is spent."""
