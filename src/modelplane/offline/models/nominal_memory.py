"""Selectors that ask for the nominal memory of a card, which publishes less."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from modelplane import cel
from modelplane.api.listing import in_order
from modelplane.catalogue.cards import CARDS, MI_PER_GI, Card
from modelplane.cel import AttributeValue, Match, PublishedDevice, SelectorError, Version


class _Device(msgspec.Struct, frozen=True):
    """A card with a size of memory."""

    driver: str
    attributes: Mapping[str, AttributeValue]
    capacity: Mapping[str, str]


def describe_missed_cards(selectors: Sequence[str]) -> str | None:
    """Return a sentence about the cards that selectors would match at their nominal size only, or nothing."""
    missed = [card for card in CARDS if card.is_verified and _is_missed(card, selectors)]
    if not missed:
        return None
    sentences = [
        f"{card.product or card.vendor} (publishes {card.memory_mi}Mi, so ask for at most {card.floor_gi}Gi)"
        for card in missed
    ]
    return f"does not match {in_order(sentences)}: cards publish less memory than the nominal size"


def _is_missed(card: Card, selectors: Sequence[str]) -> bool:
    """Return True if selectors match a card from a nominal size on, which is more than it publishes."""
    sizes = (gi * MI_PER_GI for gi in card.nominal_gi)
    return any(
        mi > card.memory_mi
        and not is_selected(_of_size(card, mi - 1), selectors)
        and is_selected(_of_size(card, mi), selectors)
        for mi in sizes
    )


def _of_size(card: Card, memory_mi: int) -> _Device:
    """Return a card as its driver would publish it with another size of memory."""
    attributes: dict[str, AttributeValue] = {"type": card.type}
    if card.product is not None:
        attributes["productName"] = card.product
    if card.capability is not None:
        attributes |= {"architecture": card.architecture, "cudaComputeCapability": Version(card.capability)}
    return _Device(card.driver, attributes, {"memory": f"{memory_mi}Mi"})


def is_selected(device: PublishedDevice, selectors: Iterable[str]) -> bool:
    """Return True if all selectors match a device; one that does not compile is reported elsewhere."""
    try:
        return all(isinstance(cel.compile(selector).evaluate(device), Match) for selector in selectors)
    except SelectorError:
        return False
