"""Engines that run without a container: a program for each image."""
