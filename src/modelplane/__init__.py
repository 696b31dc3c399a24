"""Modelplane: a control plane for AI inference across a fleet of GPU clusters."""

__version__ = "0.13.0"
