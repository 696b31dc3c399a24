"""Commands for the fleet on this machine."""
