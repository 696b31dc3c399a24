"""Metrics about the objects of a fleet."""
