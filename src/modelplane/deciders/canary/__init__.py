"""Canary: whether a new revision goes on, waits or is aborted, from the answers of both revisions. Pure."""
