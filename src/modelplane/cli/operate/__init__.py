"""Commands for platform teams and operators of a fleet."""
