"""Container images: made, stored, read and verified."""
