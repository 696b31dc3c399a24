"""Address ranges: are they networks, do they overlap, and where is room for further ones."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from itertools import combinations


def problems(ranges: Mapping[str, str], *, within: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield what is wrong with ranges, by the fields that hold them.

    ``within`` has fields whose ranges may contain the others, and one of which contains each of them.
    """
    outer = within or {}
    read: dict[str, IPv4Network] = {}
    for field, text in (*outer.items(), *ranges.items()):
        try:
            read[field] = IPv4Network(text)
        except (AddressValueError, NetmaskValueError):
            yield f"{field} {text} is not a range of IPv4 addresses"
        except ValueError:
            yield f"{field} {text} has bits set after the prefix: use {IPv4Network(text, strict=False)}"
    inner = [field for field in ranges if field in read]
    for one, other in combinations(inner, 2):
        if read[one].overlaps(read[other]):
            yield f"{one} {read[one]} and {other} {read[other]} overlap: use separate ranges"
    around = [read[field] for field in outer if field in read]
    for field in inner:
        if around and not any(read[field].subnet_of(network) for network in around):
            yield f"{field} {read[field]} is not inside {', '.join(outer)} {', '.join(map(str, around))}"


def free_ranges(whole: str, taken: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return a range as large as each wanted one, in the first place of the whole that is free.

    Returns fewer ranges than wanted if the whole is too small. All are valid networks.
    """
    used = [IPv4Network(block) for block in taken]
    found = []
    for length in (IPv4Network(block).prefixlen for block in wanted):
        room = _room(IPv4Network(whole), length, used)
        if room is None:
            break
        used.append(room)
        found.append(str(room))
    return tuple(found)


def _room(whole: IPv4Network, length: int, used: list[IPv4Network]) -> IPv4Network | None:
    """Return the first network of a length inside the whole that overlaps no used one."""
    if length < whole.prefixlen:
        return None
    size = 1 << (32 - length)
    start, end = int(whole.network_address), int(whole.broadcast_address)
    while start + size - 1 <= end:
        candidate = IPv4Network((start, length))
        blocking = [network for network in used if network.overlaps(candidate)]
        if not blocking:
            return candidate
        # The next multiple of the size beyond every network in the way.
        past = max(int(network.broadcast_address) for network in blocking) + 1
        start = -(-past // size) * size
    return None
