"""Comparing wanted labels with those that there are (Kubernetes' matchLabels)."""

from collections.abc import Mapping

import msgspec


class Difference(msgspec.Struct, frozen=True):
    """A wanted label, as key=value, that the cluster does not have, and the difference in words."""

    wanted: str
    text: str


def differing(wanted: Mapping[str, str], labels: Mapping[str, str]) -> Difference | None:
    """Return the first wanted label, by key, that does not match; None if all match."""
    for key in sorted(wanted):
        if labels.get(key) != wanted[key]:
            found = f'"{labels[key]}"' if key in labels else "not set"
            return Difference(f"{key}={wanted[key]}", f'label {key} is {found}, not "{wanted[key]}"')
    return None
