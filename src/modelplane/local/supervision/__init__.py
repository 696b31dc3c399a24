"""Supervision: the processes of a fleet, started, watched and recorded."""
