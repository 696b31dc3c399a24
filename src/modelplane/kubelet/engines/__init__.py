"""Engines that run without a container: which program stands in for which image."""
