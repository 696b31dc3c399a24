"""Composition of a ModelCache: volumes, and the Jobs that fill them."""
