"""Containers run by Docker, Podman or nerdctl."""
