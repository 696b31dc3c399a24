"""Clouds: the kinds of their clusters, the settings of each, and the stack that serves on one."""
