"""Errors of this machine that its owner can correct.

One class, because nobody branches on the cause: the message is one sentence
that says what failed, why, and what to do.
"""


class LocalError(Exception):
    """Something about this machine keeps Modelplane from running here."""
