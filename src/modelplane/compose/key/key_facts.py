"""Facts of an API key: what the gateway has of it, and what it has spent."""

from typing import TypeAlias

import msgspec

from modelplane.api.model_key import ModelKey
from modelplane.compose.composition import Request
from modelplane.gateway.usage.spent_budgets import KeyBudgets


class KeyFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelKey reads beside objects."""

    problem: str | None = None
    """The reason for which the key is not, or not wholly, in force; None if unknown."""
    is_reported: bool = True
    """False if the caller cannot know which ModelKeys the gateway has: Crossplane."""
    refused: frozenset[str] = frozenset()
    """Its hashes that belong to a key of another namespace."""
    budgets: KeyBudgets | None = None
    """The state of its budgets; None where nothing counts what keys use."""


KeyRequest: TypeAlias = Request[ModelKey, KeyFacts]
