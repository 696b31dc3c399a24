"""Files: what commands read, as objects with positions, and what they print."""
