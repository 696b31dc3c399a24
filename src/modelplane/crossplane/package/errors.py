"""What keeps a package from being built or read, as one sentence.

One class, because nobody branches on the cause: it says what failed, on what, why, and what to do.
"""


class PackageError(Exception):
    """A package cannot be built or read."""
