"""Connections to the inference clusters: clients, watches, and whether each cluster answers."""
