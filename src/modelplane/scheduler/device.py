"""A device entry of a node pool: what each node of the pool offers, and how many.

One rule: a device is declared per node; `count` is the number on one node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelplane.api.devices import Claim
from modelplane.cel.device import AttributeValue


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of an InferenceClass's devices, as the pool publishes it.

    Attribute keys are `name` (of the driver's domain) or `domain/name`; capacities are quantities as text.
    """

    name: str
    driver: str
    count: int
    claim: Claim = Claim.DRA
    device_class_name: str = ""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
