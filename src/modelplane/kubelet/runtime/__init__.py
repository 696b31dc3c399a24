"""Container runtimes of the node agent: host processes or containers."""
