"""Refusal: an error that the caller can correct, as a sentence with its remedy."""


class Refused(Exception):
    """A tool cannot answer; the message is for the caller."""
