"""The node agent: a small kubelet for one machine."""
