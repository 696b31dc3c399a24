"""Deciders: pure, and each with a memory of what it has seen. They know nothing of each other."""
