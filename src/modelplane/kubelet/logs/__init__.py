"""Container logs: written by the shim, served to `kubectl logs`."""
