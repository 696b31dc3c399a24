"""Composition of a ModelDeployment: its replicas, and the fleet as the scheduler sees it."""
