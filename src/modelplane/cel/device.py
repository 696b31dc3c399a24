"""A device as a DRA ResourceSlice publishes it, and as a selector reads it.

Keys and values stay as published; a key without a domain belongs to the device's own driver.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec


class Version(msgspec.Struct, frozen=True):
    """An attribute value of kind version, as text; a selector that reads it requires semver 2.0.0."""

    text: str


AttributeValue: TypeAlias = str | bool | int | Version


class PublishedDevice(Protocol):
    """The part of a device that selectors see (KEP-4381: driver, attributes, capacity)."""

    @property
    def driver(self) -> str:
        """The DRA driver's name, the domain of every bare key."""

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Values by `name` or `domain/name`."""

    @property
    def capacity(self) -> Mapping[str, str]:
        """Quantities, as text, by `name` or `domain/name`."""
