"""Fields of a ModelCache."""
