"""Schemas of the kinds: from types to definitions, and from objects to types."""
