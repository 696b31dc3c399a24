"""Devices of this machine, published for Dynamic Resource Allocation."""
