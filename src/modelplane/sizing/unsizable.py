"""The error of a model that cannot be sized."""


class Unsizable(Exception):
    """A model that cannot be sized; the message says what is missing or wrong, and the remedy."""
