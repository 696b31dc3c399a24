"""Rendering: the objects that one composition makes."""
