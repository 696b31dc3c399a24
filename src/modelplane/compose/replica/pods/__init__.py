"""Pods of a replica's engines, and what they name."""
