"""Capacity of pools: what is free, and what pods ask for."""
