"""Modelplane as Crossplane packages: a Configuration, and the function that composes."""
