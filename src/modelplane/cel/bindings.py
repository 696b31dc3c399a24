"""A device in the form that selectors read: maps from domain to name to value.

An unknown domain is an empty map, an unknown name an error; both are Kubernetes' rules (`cel/compile.go`,
`newStringInterfaceMapWithDefault`). Reads are recorded, so that a refusal can show the values behind it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from modelplane.api.listing import listing
from modelplane.cel.device import AttributeValue, PublishedDevice, Version
from modelplane.cel.errors import EvaluationError, nearest
from modelplane.cel.value_types import quantity, semver
from modelplane.cel.value_types.quantity import Quantity
from modelplane.cel.value_types.semver import Semver

Value: TypeAlias = str | bool | int | Semver | Quantity


class ObservedValue(msgspec.Struct, frozen=True):
    """A value that a selector read. `text` is the value as the device publishes it."""

    name: str
    text: str
    quantity: Quantity | None = None

    def __str__(self) -> str:
        return f"{self.name} is {self.text}"


class Domain:
    """The attributes or capacities that a device publishes in one domain."""

    __slots__ = ("_known", "_reads", "kind", "name", "texts", "values")

    def __init__(
        self, kind: str, name: str, known: Mapping[str, "Domain"], reads: dict[str, ObservedValue]
    ) -> None:
        self.kind = kind
        self.name = name
        self.values: dict[str, Value] = {}
        self.texts: dict[str, str] = {}
        self._known = known
        self._reads = reads

    def read(self, key: str) -> Value:
        """Return a value. Raises EvaluationError with the names there are."""
        if key not in self.values:
            raise UnknownName(self, key)
        value = self.values[key]
        amount = value if isinstance(value, Quantity) else None
        self._reads[f"{self.kind}/{self.name}/{key}"] = ObservedValue(key, self.texts[key], amount)
        return value

    def unknown(self, key: str) -> str:
        """Return the message for an unknown name: the nearest one, and the known ones."""
        if self.values:
            missing = f'it has no {self.kind} "{key}" in domain "{self.name}"'
            return f"{missing}, {_alternatives(key, self.values, 'only ')}"
        if self._known:
            missing = f'it has no {self.kind} in domain "{self.name}"'
            return f"{missing}, {_alternatives(self.name, self._known, 'only in ')}"
        return f'it has no {self.kind} "{key}" in domain "{self.name}", and none at all'


class UnknownName(EvaluationError):
    """A name that the device does not publish. The message is composed late: most are absorbed."""

    def __init__(self, domain: Domain, key: str) -> None:
        super().__init__(key)
        self.domain = domain
        self.key = key

    def __str__(self) -> str:
        return self.domain.unknown(self.key)


class Domains:
    """All attributes or all capacities of a device, by domain."""

    __slots__ = ("domains", "kind", "reads")

    def __init__(self, kind: str, reads: dict[str, ObservedValue]) -> None:
        self.kind = kind
        self.domains: dict[str, Domain] = {}
        self.reads = reads

    def read(self, name: str) -> Domain:
        """Return a domain; one that the device does not have is empty."""
        found = self.domains.get(name)
        return found if found is not None else Domain(self.kind, name, self.domains, self.reads)

    def add(self, qualified: str, driver: str, value: Value, text: str) -> None:
        """Add a published value; a name without a domain belongs to the driver's."""
        domain, slash, key = qualified.partition("/")
        if not slash:
            domain, key = driver, qualified
        target = self.domains.setdefault(domain, Domain(self.kind, domain, self.domains, self.reads))
        target.values[key] = value
        target.texts[key] = text


class Bindings(msgspec.Struct, frozen=True):
    """Values of `device.driver`, `device.attributes` and `device.capacity`."""

    driver: str
    attributes: Domains
    capacity: Domains
    reads: dict[str, ObservedValue]


def bind(device: PublishedDevice) -> Bindings:
    """Return the device's values. Raises EvaluationError if one of them is malformed.

    As in Kubernetes, a malformed value spoils the device for every selector, even one that does not read it.
    """
    reads: dict[str, ObservedValue] = {}
    attributes = Domains("attribute", reads)
    capacity = Domains("capacity", reads)
    for name, attribute in device.attributes.items():
        attributes.add(name, device.driver, _parsed(name, attribute), _text(attribute))
    for name, amount in device.capacity.items():
        try:
            capacity.add(name, device.driver, quantity.as_device_capacity(quantity.parse(amount)), amount)
        except quantity.QuantityError as error:
            raise EvaluationError(f'its capacity "{name}" is malformed: {error}') from error
    return Bindings(device.driver, attributes, capacity, reads)


def _parsed(name: str, attribute: AttributeValue) -> Value:
    if not isinstance(attribute, Version):
        return attribute
    try:
        return semver.parse(attribute.text)
    except semver.SemverError as error:
        raise EvaluationError(f'its attribute "{name}" is malformed: {error}') from error


def _text(attribute: AttributeValue) -> str:
    match attribute:
        case Version(text):
            return text
        case bool():
            return "true" if attribute else "false"
        case str():
            return f'"{attribute}"'
        case int():
            return str(attribute)


_SHOWN: Final = 5
_ALIKE: Final = 0.8  # of 1: a slip of the hand, not another name


def _alternatives(name: str, known: Iterable[str], only: str) -> str:
    near = nearest(name, known, _ALIKE)
    return f"did you mean {near}?" if near else f"{only}{listing(known, _SHOWN)}"
