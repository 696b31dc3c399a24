"""Composition of a ModelService: its routes, its budgets, its held requests."""
