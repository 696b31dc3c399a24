"""What the controllers know of an owner, and no object tells."""
