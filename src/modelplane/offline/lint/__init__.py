"""Warnings about manifests that an API server accepts: one rule in each module."""
