"""Backup: save the objects of a fleet's control plane in one file, and restore them into an empty one."""
