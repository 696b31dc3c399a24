"""Conditions as a composition states them.

A condition is for the user: the state of the object, and the remedy. The same facts give the same text, so
that nothing is written when nothing changed.
"""

from dataclasses import dataclass
from enum import StrEnum

READY = "Ready"
SYNCED = "Synced"


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement about an object (Kubernetes API conventions, "Typical status properties")."""

    type: str
    holds: bool
    reason: str
    message: str = ""

    @property
    def status(self) -> str:
        """The wire form of ``holds``."""
        return "True" if self.holds else "False"


def true(type_: StrEnum | str, reason: StrEnum | str, message: str = "") -> Condition:
    """State that something holds."""
    return Condition(str(type_), True, str(reason), message)


def false(type_: StrEnum | str, reason: StrEnum | str, message: str) -> Condition:
    """State that something does not hold; the message has the cause."""
    return Condition(str(type_), False, str(reason), message)
