"""Search for places that fit together, within a budget."""
