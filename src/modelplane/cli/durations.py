"""Durations as kubectl takes them, such as 30s, 1h30m or 7d."""

import math
import re

import click

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Units of Go's durations, and days."""
_PART = rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS_S)})"

LONGEST_D = 36_500
"""The longest accepted duration, in days."""


def parse_seconds(text: str, remedy: str) -> int:
    """Return a duration in seconds, rounded up: API servers take whole seconds, and at least one.

    Raises ``click.BadParameter``; ``remedy`` is for a duration that is too long.
    """
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise click.BadParameter(f'"{text}" is not a duration: write it like 30s, 10m, 1h30m, 1.5h or 7d')
    total = sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text))
    if total > LONGEST_D * _UNITS_S["d"]:
        raise click.BadParameter(f'"{text}" is longer than {LONGEST_D}d: {remedy}')
    return math.ceil(total)
