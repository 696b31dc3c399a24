"""Command lines of engines, parsed once, and what is wrong with them."""
