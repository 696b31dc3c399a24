"""Explanations of objects, and of where requests go."""
