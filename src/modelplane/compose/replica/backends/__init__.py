"""Backends: the workloads of a replica on its cluster, and the routes to them."""
