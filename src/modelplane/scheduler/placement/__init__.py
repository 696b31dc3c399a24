"""Placement of new replicas: the places of each, and the choice between them."""
