"""Reconciling: a work queue, a loop, and the writing of what the core composed."""
