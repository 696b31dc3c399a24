"""Models: their size, and the manifests that deploy one."""
