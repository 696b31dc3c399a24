"""The life of a pod on this machine: worker, status, probes, restarts."""
