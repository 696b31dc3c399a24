"""Composition of each kind: one module per kind."""
