"""Shared parts of the processes of one machine: addresses, private files, sockets, signals."""
