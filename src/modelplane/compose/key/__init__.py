"""Composition of a ModelKey: the conditions about what it may use."""
