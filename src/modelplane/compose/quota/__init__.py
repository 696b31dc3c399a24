"""Composition of a DeviceQuota, and what the scheduler gets of it."""
