"""Helm releases on inference clusters, carried out by the helm program."""
