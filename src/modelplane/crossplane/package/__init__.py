"""Modelplane as Crossplane packages: a Configuration, and the composition function."""
