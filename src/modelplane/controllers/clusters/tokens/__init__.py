"""Tokens of clusters: from clouds, and renewed before they expire."""
