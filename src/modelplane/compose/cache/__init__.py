"""What composes a ModelCache: volumes, and the Jobs that fill them."""
