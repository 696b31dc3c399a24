"""What composes a ModelReplica: its workloads, its endpoint, its status."""
