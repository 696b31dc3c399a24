"""What each kind composes: one module per kind."""
