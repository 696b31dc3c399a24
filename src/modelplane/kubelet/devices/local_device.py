"""One device in the words of Dynamic Resource Allocation (KEP-4381).

A device has the attributes that its DRA driver would publish, so a selector written for a real cluster means
the same here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

Attribute = Mapping[str, str | int | bool]
"""One typed value in its wire form: ``{"string": "Hopper"}``, ``{"version": "9.0.0"}``, ``{"int": 8}``."""

NVIDIA_DRIVER = "gpu.nvidia.com"
CPU_DRIVER = "cpu.modelplane.ai"

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DiscoveredDevice:
    """One device of this machine."""

    driver: str
    name: str
    """Its name within the pool of its node, such as ``gpu-0``."""
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, str]
    """Kubernetes quantities by bare name."""

    @property
    def uuid(self) -> str:
        """Its identifier in the vendor's tools; empty if it has none."""
        return str(self.attributes.get("uuid", {}).get("string", ""))

    def drop_identity(self) -> "DiscoveredDevice":
        """Return the device without its name and uuid, as equal devices have it."""
        shared = {key: value for key, value in self.attributes.items() if key != "uuid"}
        return replace(self, name="", attributes=shared)


def format_mebibytes(size: int) -> str:
    """Return a number of bytes as a quantity, rounded down."""
    return f"{size // _MEBIBYTE}Mi"
