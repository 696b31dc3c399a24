"""Containers run as processes of this machine."""
