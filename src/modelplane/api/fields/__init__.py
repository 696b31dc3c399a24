"""Fields of the kinds: the types that more than one kind has, or that are long."""
