"""Errors of this machine that its owner can correct.

One class, because no caller branches on the cause: the message is one sentence
with the failure, the cause and the remedy.
"""

from modelplane.user_error import UserError


class LocalError(UserError):
    """Something about this machine keeps Modelplane from running here."""
