"""Comparing wanted labels with those that there are (Kubernetes' matchLabels)."""

from collections.abc import Mapping


def differing(wanted: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Return the first wanted label, by key, that is not there, with what is; empty when all match."""
    for key in sorted(wanted):
        if labels.get(key) != wanted[key]:
            found = f'"{labels[key]}"' if key in labels else "not set"
            return f'label {key} is {found}, not "{wanted[key]}"'
    return ""
