"""Programs that are found on this machine, or built for it."""
