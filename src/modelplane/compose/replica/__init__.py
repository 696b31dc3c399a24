"""Composition of a ModelReplica: its workloads, its endpoint, its status."""
