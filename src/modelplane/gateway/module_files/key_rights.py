"""Rights of API keys: what the platform lets those of a namespace use, and the ModelKey that has a hash.

A hash may be in several ModelKeys. It belongs to the namespace that had it first, and a ModelKey keeps the
hashes that it has. The age of an object decides nothing, because its hashes can be edited. A ModelKey of
another namespace never gets the hash, also once its holder is gone: who has copied a hash must not receive
the requests of the clients that use it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from modelplane.api.fields.requests.key_limits import RateLimitType
from modelplane.api.inference_gateway import EVERY_NAMESPACE, KeyGrant
from modelplane.api.names import check_reserved

MOST_LEFT = 10_000
"""Hashes whose last namespace is remembered although no ModelKey has them."""

_Rank = tuple[str, bool, str, str]


class Claim(NamedTuple):
    """A hash in a ModelKey."""

    sha256: str
    id: str
    """NAMESPACE/NAME of the ModelKey."""
    first_seen: str = ""
    """Time from the status of the ModelKey; empty if it has none."""
    is_refused: bool = False
    """True if the status says that the hash is that of another namespace."""
    is_edited: bool = False
    """True if the hash may be younger than the ModelKey."""
    created: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the ModelKey."""
        return self.id.partition("/")[0]

    @property
    def rank(self) -> _Rank:
        """The order of claims of a hash that nobody has."""
        return self.first_seen or "~", self.is_edited, self.created, self.id


@dataclass(frozen=True, slots=True)
class Holders:
    """Holders of all hashes."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """NAMESPACE/NAME of the ModelKey that has each hash."""
    refused: frozenset[tuple[str, str]] = frozenset()
    """NAMESPACE/NAME of the ModelKeys, with the hashes, that belong to another namespace."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Namespace that had each hash that no ModelKey has."""


def find_holders(claims: Iterable[Claim], former: Holders) -> Holders:
    """Return the holder of each hash; the same for claims in any order."""
    by_hash: defaultdict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_hash[claim.sha256].append(claim)
    ids: dict[str, str] = {}
    refused: set[tuple[str, str]] = set()
    for sha256, named in by_hash.items():
        before = former.ids.get(sha256)
        owner = before.partition("/")[0] if before else former.left.get(sha256)
        free = [
            candidate
            for candidate in named
            if not (candidate.is_refused or (candidate.id, sha256) in former.refused)
        ]
        if owner is None and free:
            owner = min(free, key=attrgetter("rank")).namespace
        of_owner = [candidate for candidate in free if candidate.namespace == owner]
        if of_owner:
            ids[sha256] = next(
                (candidate.id for candidate in of_owner if candidate.id == before),
                min(of_owner, key=attrgetter("rank")).id,
            )
        if len(of_owner) < len(named):
            refused.update((candidate.id, sha256) for candidate in named if candidate not in of_owner)
    # The hashes that no ModelKey has: the latest ones.
    gone = {sha256: id_.partition("/")[0] for sha256, id_ in former.ids.items() if sha256 not in ids}
    left = {sha256: namespace for sha256, namespace in former.left.items() if sha256 not in ids} | gone
    return Holders(ids, frozenset(refused), dict([*left.items()][-MOST_LEFT:]))


def grant_of(grants: Iterable[KeyGrant], namespace: str) -> KeyGrant | None:
    """Return the grant of a namespace: its own, or that of every namespace; a reserved one has none."""
    return grant_finder(grants)(namespace)


def grant_finder(grants: Iterable[KeyGrant]) -> Callable[[str], KeyGrant | None]:
    """Return ``grant_of`` for many namespaces of the same grants."""
    by_namespace = {grant.namespace: grant for grant in grants}

    def find(namespace: str) -> KeyGrant | None:
        if check_reserved(namespace):
            return None
        return by_namespace.get(namespace) or by_namespace.get(EVERY_NAMESPACE)

    return find


def list_services(patterns: tuple[str, ...], namespace: str) -> tuple[str, ...]:
    """Return the services of a key or a grant: those that it names, else those of its namespace."""
    return tuple(sorted(patterns)) or (f"{namespace}/*",)


def must_count_by_service(grant: KeyGrant) -> bool:
    """Return True if the rate limit service counts the limits of all keys of a grant."""
    return grant.rate_limit_types == (RateLimitType.GLOBAL,)


def is_counted_by_service(grant: KeyGrant, asked: bool) -> bool:
    """Return True if the rate limit service counts the limits of a key; ``asked`` is what the key says."""
    allowed = grant.rate_limit_types
    return must_count_by_service(grant) or (asked and (not allowed or RateLimitType.GLOBAL in allowed))


def list_not_granted(asked: Iterable[str], granted: Iterable[str]) -> list[str]:
    """Return the patterns of a key of which a grant has nothing."""
    known = frozenset(granted)
    named = {pattern.partition("/")[0] for pattern in known}
    return [
        pattern
        for pattern in asked
        if pattern not in known
        and f"{pattern.partition('/')[0]}/*" not in known
        # NAMESPACE/* has those of the namespace's services that the grant names.
        and not (pattern.endswith("/*") and pattern.partition("/")[0] in named)
    ]
