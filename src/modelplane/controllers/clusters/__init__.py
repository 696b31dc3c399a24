"""Connections to the inference clusters: clients, watches and health."""
