"""A device in the form that selectors read: maps from domain to name to value.

An unknown domain is an empty map, an unknown name an error; both are Kubernetes' rules (`cel/compile.go`,
`newStringInterfaceMapWithDefault`). Reads are recorded, so that a refusal can show the values behind it.
Values are those that the library holds: quantities and versions are packed.

Keys and values stay as published; a key without a domain belongs to the device's own driver.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from modelplane.api.listing import listing
from modelplane.api.values import quantity, semver
from modelplane.api.values.quantity import Quantity
from modelplane.cel.errors import EvaluationError, find_nearest
from modelplane.cel.functions import pack


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


Value: TypeAlias = str | bool | int | bytearray


class ObservedValue(msgspec.Struct, frozen=True):
    """A value that a selector read. `text` is the value as the device publishes it."""

    name: str
    text: str
    quantity: Quantity | None = None

    def __str__(self) -> str:
        return f"{self.name} is {self.text}"


class Domains:
    """All attributes or all capacities of a device, by domain and name. `kind` is the word for one."""

    __slots__ = ("_observed", "_reads", "kind", "values")

    def __init__(self, kind: str, reads: dict[tuple[str, str, str], ObservedValue]) -> None:
        self.kind = kind
        self.values: dict[str, dict[str, Value]] = {}
        self._observed: dict[tuple[str, str, str], ObservedValue] = {}
        self._reads = reads

    def read(self, domain: str, name: str) -> Value:
        """Return a value, and record it. Raises UnknownName."""
        place = (self.kind, domain, name)
        observed = self._observed.get(place)
        if observed is None:
            raise UnknownName(self, domain, name)
        self._reads[place] = observed
        return self.values[domain][name]

    def add(self, domain: str, name: str, value: Value, observed: ObservedValue) -> None:
        """Add a published value."""
        self.values.setdefault(domain, {})[name] = value
        self._observed[self.kind, domain, name] = observed


class UnknownName(EvaluationError):
    """A name that the device does not publish. The message is composed late: most are absorbed."""

    def __init__(self, domains: Domains, domain: str, name: str) -> None:
        super().__init__(name)
        self._place = (domains, domain, name)

    def __str__(self) -> str:
        domains, domain, name = self._place
        if names := domains.values.get(domain):
            missing = f'it has no {domains.kind} "{name}" in domain "{domain}"'
            return f"{missing}, {_list_alternatives(name, names, 'only ')}"
        if domains.values:
            missing = f'it has no {domains.kind} in domain "{domain}"'
            return f"{missing}, {_list_alternatives(domain, domains.values, 'only in ')}"
        return f'it has no {domains.kind} "{name}" in domain "{domain}", and none at all'


def _list_alternatives(name: str, published: Iterable[str], only: str) -> str:
    near = find_nearest(name, published, 0.8)  # a slip of the hand, not another name
    return f"did you mean {near}?" if near else f"{only}{listing(published, 5)}"


class Bindings(msgspec.Struct):
    """Values of `device.driver`, `device.attributes` and `device.capacity`."""

    driver: str
    attributes: Domains
    capacity: Domains
    reads: dict[tuple[str, str, str], ObservedValue]
    errors: list[BaseException] = []
    """Errors of the present evaluation."""
    activation: Any = None
    """The values in the library's form, once a selector was evaluated."""
    spent: int = 0
    """Cost of what was evaluated with the activation, which keeps the memory of it."""


def bind(device: PublishedDevice) -> Bindings:
    """Return the device's values. Raises EvaluationError if one of them is malformed.

    As in Kubernetes, a malformed value spoils the device for every selector, even one that does not read it.
    A name without a domain belongs to the driver's.
    """
    # The library does not read other texts, or only up to a null character.
    values = (value for value in device.attributes.values() if isinstance(value, str))
    text = "".join((device.driver, *device.attributes, *values, *device.capacity))
    if "\0" in text or not (text.isascii() or text == text.encode(errors="ignore").decode()):
        raise EvaluationError("it publishes a text that is not Unicode, or has a null character")
    reads: dict[tuple[str, str, str], ObservedValue] = {}
    bindings = Bindings(device.driver, Domains("attribute", reads), Domains("capacity", reads), reads)
    for qualified, attribute in device.attributes.items():
        domain, name = _split(device.driver, qualified)
        quoted = f'"{attribute}"' if isinstance(attribute, str) else str(attribute).lower()
        text = attribute.text if isinstance(attribute, Version) else quoted
        value = _parse(qualified, attribute)
        bindings.attributes.add(domain, name, value, ObservedValue(name, text))
    for qualified, text in device.capacity.items():
        domain, name = _split(device.driver, qualified)
        try:
            amount = quantity.parse_device_capacity(text)
        except quantity.QuantityError as error:
            raise EvaluationError(f'its capacity "{qualified}" is malformed: {error}') from error
        bindings.capacity.add(domain, name, pack(amount), ObservedValue(name, text, amount))
    return bindings


def _split(driver: str, qualified: str) -> tuple[str, str]:
    domain, slash, name = qualified.partition("/")
    return (domain, name) if slash else (driver, qualified)


def _parse(name: str, attribute: AttributeValue) -> Value:
    if not isinstance(attribute, Version):
        if isinstance(attribute, int) and not -(2**63) <= attribute < 2**63:
            raise EvaluationError(f'its attribute "{name}" is malformed: it exceeds 64 bits')
        return attribute
    try:
        return pack(semver.parse(attribute.text))
    except semver.SemverError as error:
        raise EvaluationError(f'its attribute "{name}" is malformed: {error}') from error
