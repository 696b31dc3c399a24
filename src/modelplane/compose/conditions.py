"""Conditions as a composition states them.

A condition is for the user: the state of the object, and the remedy. The same facts give the same text, so
that nothing is written when nothing changed.
"""

from collections.abc import Container, Iterable
from enum import StrEnum

import msgspec

from modelplane.api.meta import Status

READY = "Ready"
SYNCED = "Synced"


class Condition(msgspec.Struct, frozen=True):
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


def join_same_type(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return one condition of each type: the first that does not hold, with the messages of the others."""
    by_type: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_type.setdefault(condition.type, []).append(condition)
    return tuple(_join(of_type) for of_type in by_type.values())


def _join(of_type: list[Condition]) -> Condition:
    refused = [condition for condition in of_type if not condition.holds]
    if len(refused) < 2:
        return refused[0] if refused else of_type[0]
    messages = dict.fromkeys(condition.message for condition in refused)
    return msgspec.structs.replace(refused[0], message="; ".join(messages))


def state_unless_new(condition: Condition, status: Status) -> tuple[Condition, ...]:
    """Return a condition, unless it holds and was never stated: Crossplane keeps conditions that are gone."""
    was_stated = any(known.type == condition.type for known in status.conditions)
    return (condition,) if was_stated or not condition.holds else ()


def list_written(status: Status, types: Container[str]) -> tuple[Condition, ...]:
    """Return the conditions of these types as they were last written."""
    return tuple(
        Condition(condition.type, condition.status == "True", condition.reason, condition.message)
        for condition in status.conditions
        if condition.type in types
    )
