"""Fields of engines and of their pods."""
