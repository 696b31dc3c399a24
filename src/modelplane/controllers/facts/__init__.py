"""Facts of an owner that the controllers know, and that no object has."""
