"""Fields of a cluster: its pools, its devices, and what takes them away."""
