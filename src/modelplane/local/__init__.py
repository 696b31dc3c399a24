"""A whole fleet on one machine: control plane, node agent, front door."""
