"""Errors of building and reading a package, as one sentence.

One class, because nobody branches on the cause: it says what failed, on what, why, and what to do.
"""


class PackageError(Exception):
    """A package cannot be built or read."""
