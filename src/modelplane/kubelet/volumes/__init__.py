"""Volumes of pods: files and folders of this machine."""
