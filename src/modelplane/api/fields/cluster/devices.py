"""Devices of nodes, their prices and health, and device requests of pods, as in DRA.

A class publishes devices, a cluster's status repeats them for each of its pools, a deployment requests some
by CEL, and a replica carries the resolved requests. Attribute and capacity names follow DRA (KEP-4381): a
name without a domain belongs to the device's driver, ``domain/name`` to another domain.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import field

from modelplane.api import money
from modelplane.api.fields.requests.pricing import AMOUNT, MAX_AMOUNT
from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, DRIVER_NAME, QUANTITY, SEMVER, Rule, about

Currency = Annotated[
    str, about("ISO 4217 code of the currency, such as USD.", max_length=3, pattern="^[A-Z]{3}$")
]


class DevicePrice(Model):
    """The price of one device of an entry of the class."""

    name: Annotated[str, about("Name of the entry under devices.", min_length=1, max_length=63)]
    per_hour: Annotated[
        str,
        about('Price of one device per hour, such as "2.49".', max_length=MAX_AMOUNT, pattern=AMOUNT),
    ]
    spot_per_hour: (
        Annotated[
            str,
            about(
                "Price of one device per hour in a pool with spot. Default: perHour.",
                max_length=MAX_AMOUNT,
                pattern=AMOUNT,
            ),
        ]
        | None
    ) = None


class DevicePricing(Model):
    """Prices of the devices of a node. A device without a price costs nothing."""

    currency: Currency
    devices: Annotated[
        tuple[DevicePrice, ...],
        about("Prices of devices.", min_length=1, max_length=16, keys=("name",)),
    ]

    def find_price_per_hour(self, device: str, *, spot: bool = False) -> int | None:
        """Return the price of a device for an hour, in billionths; None if it has none."""
        for priced in self.devices:
            if priced.name == device:
                return money.parse_amount((priced.spot_per_hour if spot else None) or priced.per_hour)
        return None


MAX_UNHEALTHY = 32
"""Devices of a replica that its status lists."""


class Health(StrEnum):
    """Health of a device in the status of a pod."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class UnhealthyDevice(Model):
    """A device of a pod that its driver reports as unhealthy."""

    pod: Annotated[str, about("Name of the pod on the cluster.", max_length=253)]
    device: Annotated[
        str,
        about(
            "ID of the device in the status of the pod: driver, pool and name, or an ID of the Container "
            "Device Interface.",
            max_length=512,
        ),
    ]


class Claim(StrEnum):
    """Ways in which pods get a device."""

    DRA = "DRA"
    SYNTHETIC = "Synthetic"


class DeviceAttribute(Model):
    """A typed value: exactly one of the fields is set."""

    __rules__ = (
        Rule(
            "[has(self.string), has(self.version), has(self.bool), has(self.int)]"
            ".filter(given, given).size() == 1",
            "set exactly one of string, version, bool and int",
        ),
    )

    string: Annotated[str, about("A string, such as an architecture.", max_length=253)] | None = None
    version: (
        Annotated[
            str,
            about("A semantic version with all three parts, such as 9.0.0.", max_length=32, pattern=SEMVER),
        ]
        | None
    ) = None
    boolean: Annotated[bool, about("A boolean.")] | None = field(default=None, name="bool")
    integer: Annotated[int, about("A 64-bit integer.")] | None = field(default=None, name="int")


class DeviceCapacity(Model):
    """An amount."""

    value: Annotated[
        str,
        about(
            "Amount as a Kubernetes quantity, such as 81559Mi. Use the amount that the driver "
            "reports, not the nominal size.",
            min_length=1,
            max_length=32,
            pattern=QUANTITY,
        ),
    ]


_ATTRIBUTE_NAMES = Rule(
    "self.all(key, key.matches('^([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}$'))",
    "a name is a C identifier of at most 32 characters, such as memory, after an optional domain and a slash",
)


class Device(Model):
    """A type of device. Every node of the class has ``count`` of them."""

    __rules__ = (
        Rule(
            "self.claim != 'DRA' || has(self.deviceClassName)",
            "deviceClassName is required when claim is DRA: name the DeviceClass that pods claim through, "
            "or set claim to Synthetic",
        ),
    )

    name: Annotated[
        str,
        about(
            "Name of the device in the class, such as gpu or nic. Requests can use another name.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ]
    claim: Annotated[
        Claim,
        about(
            "How pods get the device. DRA: through a ResourceClaim. Synthetic: pods don't claim "
            "the device; it only affects placement."
        ),
    ] = Claim.DRA
    driver: Annotated[
        str,
        about(
            "DRA driver of the device. Also the domain of attributes and capacities without a domain.",
            min_length=1,
            max_length=253,
            pattern=DRIVER_NAME,
        ),
    ]
    device_class_name: (
        Annotated[
            str,
            about(
                "DRA DeviceClass that pods claim the device through. Ignored for a Synthetic device.",
                min_length=1,
                max_length=253,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None
    count: Annotated[int, about("Number of these devices on each node.", ge=1, le=64)] = 1
    attributes: Annotated[
        Mapping[str, DeviceAttribute],
        about(
            "Attributes of the device, by name or domain/name. Selectors read them as device.attributes.",
            max_length=32,
            rules=(_ATTRIBUTE_NAMES,),
        ),
    ] = {}
    capacity: Annotated[
        Mapping[str, DeviceCapacity],
        about(
            "Capacities of the device, by name or domain/name. Selectors read them as device.capacity.",
            max_length=32,
            rules=(_ATTRIBUTE_NAMES,),
        ),
    ] = {}


class DeviceSelector(Model):
    """A condition that a device must match."""

    cel: Annotated[
        str,
        about(
            "CEL expression over one device, as in a DRA device request. The expression can read "
            "device.driver, device.attributes, and device.capacity, and returns true or false.",
            min_length=1,
            max_length=10240,
        ),
    ]


class DeviceRequest(Model):
    """A number of identical devices on the node that each pod needs."""

    name: Annotated[
        str,
        about(
            "Name of the request, also used in the ResourceClaim.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ]
    count: Annotated[int, about("Number of matching devices that each pod needs.", ge=1, le=64)] = 1
    selectors: Annotated[
        tuple[DeviceSelector, ...],
        about("Conditions. A device must match all of them.", min_length=1, max_length=8, atomic=True),
    ]


class NodeSelector(Model):
    """Requirements of a pod for the node."""

    devices: Annotated[
        tuple[DeviceRequest, ...],
        about(
            "Devices that each pod needs. One node pool must provide all of them.",
            min_length=1,
            max_length=16,
            keys=("name",),
        ),
    ]
