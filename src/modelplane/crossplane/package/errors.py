"""Errors of building and reading a package, as one sentence.

One class, because no caller branches on the cause: the message has the failure, its cause and the remedy.
"""

from modelplane.user_error import UserError


class PackageError(UserError):
    """A package cannot be built or read."""
