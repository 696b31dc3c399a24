"""Admission policies of an inference cluster."""
