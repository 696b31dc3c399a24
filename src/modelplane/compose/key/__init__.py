"""What composes a ModelKey: the conditions about what it may use."""
