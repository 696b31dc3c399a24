"""Modelplane under Crossplane: its packages and its composition function."""
