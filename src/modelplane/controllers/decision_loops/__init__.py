"""Control loops of what decides with memory: autoscaling, canaries, failover."""
