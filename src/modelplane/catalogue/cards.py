"""Cards: the memory that each GPU publishes, which is less than its name says.

An H100 of 80 GB publishes 81559Mi, so a selector of 80Gi matches no H100, even if a class declares 80Gi.
The rows are generated from the catalogue, which has the sources.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from modelplane.api.fields.cluster.devices import Claim, Device
from modelplane.catalogue.card_rows import ROWS

_DRIVERS: Final = {"NVIDIA": "gpu.nvidia.com", "AMD": "gpu.amd.com"}
_WHOLE: Final = {"NVIDIA": "gpu", "AMD": "amdgpu"}
"""The attribute ``type`` of a whole GPU."""
MI_PER_GI: Final = 2**10
_NANO_PER_MI: Final = 2**20 * 10**9
_NANO_PER_GI: Final = 2**30 * 10**9


class Card(NamedTuple):
    """A GPU as its driver publishes it."""

    vendor: str
    product: str | None
    architecture: str
    capability: str | None
    memory_mi: int
    nominal_gi: tuple[int, ...]
    is_verified: bool
    """True if the memory was seen on a real card."""

    @property
    def driver(self) -> str:
        """The DRA driver."""
        return _DRIVERS[self.vendor]

    @property
    def type(self) -> str:
        """The attribute ``type``."""
        return _WHOLE[self.vendor]

    @property
    def floor_gi(self) -> int:
        """The largest whole number of Gi that a selector may ask for."""
        return self.memory_mi // MI_PER_GI


CARDS: Final = tuple(Card(*row) for row in ROWS)
"""Every card of the catalogue."""


class Overstatement(NamedTuple):
    """A device that declares more memory than its card publishes.

    It matches selectors that the card does not, and pods wait for a device that no node has.
    """

    device: str
    key: str
    """Name of the capacity, as declared."""
    declared: str
    card: Card

    @property
    def published(self) -> str:
        """The memory that the card publishes."""
        return f"{self.card.memory_mi}Mi"

    def __str__(self) -> str:
        return (
            f'device "{self.device}" declares {self.declared} of memory, but {self.card.product} publishes '
            f"{self.published}, so pods that ask for more remain Pending: declare {self.published}"
        )


def find_overstatements(devices: Iterable[Device]) -> Iterator[Overstatement]:
    """Yield the devices that declare more memory than their card publishes."""
    for device in devices:
        type_ = device.attributes.get("type")
        if device.claim is not Claim.DRA or device.device_class_name != device.driver:
            continue
        if type_ is not None and type_.string not in _WHOLE.values():
            continue  # a partition, which has less memory
        for key in ("memory", f"{device.driver}/memory"):
            if key not in device.capacity:
                continue
            declared = device.capacity[key].value
            if card := _overstated(device, declared):
                yield Overstatement(device.name, key, declared, card)


def _overstated(device: Device, declared: str) -> Card | None:
    """Return the card that publishes less than a device declares; None if that is not known."""
    text = {name: value.string for name, value in device.attributes.items()}
    cards = [card for card in CARDS if card.driver == device.driver and card.product is not None]
    if "productName" in text:
        candidates = [card for card in cards if card.product == text["productName"]]
    else:
        candidates = [card for card in cards if card.architecture == text.get("architecture")]
    if not candidates or declared in {f"{card.memory_mi}Mi" for card in candidates}:
        return None
    nano = _nano(declared)
    if "productName" not in text:
        candidates = [card for card in candidates if nano in {gi * _NANO_PER_GI for gi in card.nominal_gi}]
    sizes = {card.memory_mi for card in candidates}
    verified = [card for card in candidates if card.is_verified]
    if len(sizes) != 1 or not verified or nano <= sizes.pop() * _NANO_PER_MI:
        return None
    return verified[0]


def _nano(text: str) -> int:
    """Return a quantity in billionths; 0 for a text that is none."""
    # Most classes declare what a card publishes, and need no comparison.
    from modelplane.api.values import quantity  # noqa: PLC0415  a hundredth of a second is saved

    try:
        return quantity.parse(text).nano
    except quantity.QuantityError:
        return 0
