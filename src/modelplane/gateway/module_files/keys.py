"""API keys as the gateway module reads them: the content of ``keys.json``.

A value of ModelKeys and grants: the same objects give the same content, in any order. The contract is in
``gateway-module/README.md``. The module compares the end of a key's life with the time of each request
(``gateway-module/src/front.rs``).
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from modelplane.api.fields.requests.key_limits import RateLimitType
from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.inference_gateway import KeyGrant
from modelplane.api.listing import count_noun
from modelplane.api.meta import Object
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.api.schema.untyped import get_map
from modelplane.gateway.module_files.key_rights import (
    Claim,
    Holders,
    find_holders,
    grant_finder,
    is_counted_by_service,
    list_services,
    must_count_by_service,
)


class _LimitsEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Limits, of a key or of a namespace."""

    services: tuple[str, ...]
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    streams: int | None = None
    global_limits: bool = False
    """True if the rate limit service counts requests and tokens."""


class KeyEntry(_LimitsEntry, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One key."""

    sha256: str
    id: str
    """NAMESPACE/NAME of its ModelKey: keys with one id share their limits."""
    namespace: str
    max_body_bytes: int | None = None
    expires: int | None = None
    """Seconds since 1970."""
    blocked: Literal["Key", "Budget"] | None = None
    regions: tuple[str, ...] | None = None
    """Regions to which its requests may go; None for all."""


class NamespaceEntry(_LimitsEntry, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Limits of all keys of a namespace together."""


class KeyFile(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Content of ``keys.json``."""

    keys: tuple[KeyEntry, ...] = ()
    namespaces: dict[str, NamespaceEntry] = {}

    def encode(self) -> bytes:
        """Return the content as the module reads it."""
        return self._text

    @cached_property
    def _text(self) -> bytes:
        # In pieces, so that other threads have their turns.
        pieces = (self.keys[at : at + _PIECE] for at in range(0, len(self.keys), _PIECE))
        keys = b",".join(msgspec.json.encode(piece)[1:-1] for piece in pieces)
        return b'{"keys":[%b],"namespaces":%b}' % (keys, msgspec.json.encode(self.namespaces))

    @cached_property
    def bound_services(self) -> frozenset[str]:
        """The services, as in ``services`` of a key, that keys with a region rule may use."""
        return frozenset(service for key in self.keys if key.regions is not None for service in key.services)

    @classmethod
    def parse(cls, text: bytes) -> "KeyFile":
        """Return the content that was written. Raises ``msgspec.DecodeError``."""
        return msgspec.json.decode(text, type=cls)


_PIECE = 1000

Problems: TypeAlias = Mapping[str, str]
"""The ModelKeys that are not, or not wholly, in force, as NAMESPACE/NAME, and why."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Entries and problems of one namespace, before those of others are compared with them."""

    objects: tuple[Object, ...]
    grant: KeyGrant | None
    entries: tuple[KeyEntry, ...] = ()
    claims: tuple[Claim, ...] = ()
    """Hashes of all ModelKeys, also of those that are not in force."""
    problems: Problems = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    """Of each ModelKey, by its name."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """Of the ModelKeys that have one, by NAMESPACE/NAME."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The keys in force, and the problems of the others."""

    file: KeyFile = field(default_factory=KeyFile)
    problems: Problems = field(default_factory=dict)
    parts: Mapping[str, KeyPart] = field(default_factory=dict)
    """Its parts by namespace, so that the next table looks only at what changed."""
    holders: Holders = field(default_factory=Holders)

    @classmethod
    def build_from_file(cls, file: KeyFile) -> "KeyTable":
        """Return a table of which only the file is known."""
        return cls(file, holders=Holders({key.sha256: key.id for key in file.keys}))

    def list_refused(self, id_: str) -> frozenset[str]:
        """Return the hashes of a ModelKey, NAMESPACE/NAME, that belong to another namespace."""
        return frozenset(sha256 for named, sha256 in self.holders.refused if named == id_)

    def is_known(self, namespace: str, name: str, generation: int) -> bool:
        """Return True if it was made of this generation of a ModelKey."""
        part = self.parts.get(namespace)
        return part is not None and part.generations.get(name) == generation

    def list_differing(self, former: "KeyTable") -> set[str]:
        """Return the ModelKeys, as NAMESPACE/NAME, whose generation or problem is another one."""
        keys = {id_ for id_, _ in self.problems.items() ^ former.problems.items()}
        none = KeyPart((), None)
        for namespace in self.parts.keys() | former.parts.keys():
            now, then = self.parts.get(namespace, none), former.parts.get(namespace, none)
            if now is not then:
                changed = now.generations.items() ^ then.generations.items()
                keys |= {f"{namespace}/{name}" for name, _ in changed}
        return keys


def build_key_table(objects: Iterable[Object], grants: Iterable[KeyGrant], former: KeyTable) -> KeyTable:
    """Return the keys in force.

    A ModelKey that cannot be read keeps its entries of ``former``, within the grant of now: it gets no
    further right, and its clients are not cut off. One that was never read opens nothing. One that is being
    deleted, and one without a grant, is not in force. Of several ModelKeys with one hash, one has it
    (``key_rights.find_holders``).
    """
    find = grant_finder(grants)
    by_namespace: defaultdict[str, list[Object]] = defaultdict(list)
    for item in objects:
        by_namespace[item["metadata"]["namespace"]].append(item)
    parts: dict[str, KeyPart] = {}
    for namespace, items in sorted(by_namespace.items()):
        key_part = KeyPart(tuple(items), find(namespace))
        known = former.parts.get(namespace)
        # Objects that are the same ones are equal at once.
        if known is None or (known.objects, known.grant) != (key_part.objects, key_part.grant):
            known = _build_part(key_part, namespace, former)
        parts[namespace] = known
    if parts and [*map(id, parts.values())] == [*map(id, former.parts.values())]:
        return former
    return _join_parts(parts, former.holders)


def _build_part(found: KeyPart, namespace: str, former: KeyTable) -> KeyPart:
    """Return the entries of a namespace, in the order of the file, and the problems."""
    entries: list[KeyEntry] = []
    claims: set[Claim] = set()
    problems: dict[str, str] = {}
    budgets: dict[str, Budget] = {}
    grant = found.grant
    by_age = sorted(
        (item for item in found.objects if "deletionTimestamp" not in item["metadata"]),
        key=lambda item: (str(item["metadata"].get("creationTimestamp", "")), item["metadata"]["name"]),
    )
    for number, item in enumerate(by_age, start=1):
        id_ = f"{namespace}/{item['metadata']['name']}"
        claims |= _list_claims(item, id_)
        if grant is None:
            problems[id_] = f'namespace "{namespace}" has no grant'
            continue
        if number > grant.max_keys:
            problems[id_] = f'namespace "{namespace}" has more than {count_noun(grant.max_keys, "key")}'
            continue
        try:
            key = decode_as(ModelKey, item)
            read, budget = _build_entries(key), key.spec.budget
        except InvalidObject as error:
            part = former.parts.get(namespace)
            read = [entry for entry in (part.entries if part else former.file.keys) if entry.id == id_]
            budget = part.budgets.get(id_) if part else None
            claims |= {Claim(entry.sha256, id_) for entry in read}
            problems[id_] = (
                f"{error}: {('the previous state remains active' if read else 'it is not active')}"
            )
        entries += (_limit_by_grant(grant, entry) for entry in read)
        if budget is not None:
            budgets[id_] = budget
    entries.sort(key=lambda entry: (entry.id, entry.sha256))
    return replace(
        found,
        entries=tuple(entries),
        claims=tuple(claims),
        problems=problems,
        generations={
            item["metadata"]["name"]: item["metadata"].get("generation", 0) for item in found.objects
        },
        budgets=budgets,
    )


def _join_parts(parts: Mapping[str, KeyPart], former: Holders) -> KeyTable:
    """Return the table of all namespaces, where one of several keys with one hash has it."""
    holders = find_holders((claim for part in parts.values() for claim in part.claims), former)
    problems = {id_: problem for part in parts.values() for id_, problem in part.problems.items()}
    used: dict[str, NamespaceEntry] = {}
    keys: list[KeyEntry] = []
    for namespace, part in parts.items():
        entries = [entry for entry in part.entries if holders.ids.get(entry.sha256) == entry.id]
        if len(entries) < len(part.entries):
            others = (entry for entry in part.entries if holders.ids.get(entry.sha256) != entry.id)
            problems |= {entry.id: _explain_conflict(entry, holders) for entry in others}
        keys += entries
        if entries and part.grant:
            grant = part.grant
            used[namespace] = NamespaceEntry(
                services=list_services(grant.services, namespace),
                requests_per_minute=grant.requests_per_minute,
                tokens_per_minute=grant.tokens_per_minute,
                streams=grant.streams,
                global_limits=must_count_by_service(grant),
            )
    return KeyTable(KeyFile(keys=tuple(keys), namespaces=used), problems, parts, holders)


def _explain_conflict(entry: KeyEntry, found: Holders) -> str:
    """Return why a ModelKey does not have a hash; it names no object of another namespace."""
    named = f"hash {entry.sha256[:8]}"
    if (entry.id, entry.sha256) in found.refused:
        return f"{named} belongs to a ModelKey of another namespace: remove it, and create a key of your own"
    return f"{named} belongs to ModelKey {found.ids.get(entry.sha256)}: remove it from one of them"


def _list_claims(item: Object, id_: str) -> set[Claim]:
    """Return the hashes that a ModelKey names, whether or not it can be read."""
    metadata, status = item["metadata"], get_map(item, "status")
    seen = {entry["sha256"]: entry for entry in _list_with_hash(status.get("hashes"))}
    is_edited, created = metadata.get("generation", 0) > 1, str(metadata.get("creationTimestamp", ""))
    found = set()
    for sha256 in (entry["sha256"] for entry in _list_with_hash(get_map(item, "spec").get("hashes"))):
        told = seen.get(sha256, {})
        first_seen, is_refused = str(told.get("firstSeen", "")), bool(told.get("refused"))
        found.add(Claim(sha256, id_, first_seen, is_refused, is_edited, created))
    return found


def _list_with_hash(entries: object) -> Iterator[dict[str, Any]]:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("sha256"), str):
            yield entry


def _build_entries(key: ModelKey) -> list[KeyEntry]:
    metadata, spec = key.metadata, key.spec
    return [
        KeyEntry(
            sha256=digest.sha256,
            id=f"{metadata.namespace}/{metadata.name}",
            namespace=metadata.namespace,
            services=list_services(spec.services, metadata.namespace),
            requests_per_minute=spec.requests_per_minute,
            tokens_per_minute=spec.tokens_per_minute,
            streams=spec.streams,
            max_body_bytes=spec.max_body_bytes,
            global_limits=spec.rate_limit_type is RateLimitType.GLOBAL,
            regions=tuple(sorted(spec.regions)) or None,
            expires=parse_seconds(digest.expires),
            blocked="Key" if spec.blocked else None,
        )
        for digest in spec.hashes
    ]


def _limit_by_grant(grant: KeyGrant, entry: KeyEntry) -> KeyEntry:
    """Return a key with the grant's limits of each request, which no sum over keys can bound."""
    limits = [limit for limit in (entry.max_body_bytes, grant.max_body_bytes) if limit is not None]
    least = min(limits, default=None)
    regions = entry.regions
    if grant.regions:
        regions = tuple(sorted(grant.regions if regions is None else {*regions} & {*grant.regions}))
    by_service = is_counted_by_service(grant, entry.global_limits)
    if (least, regions, by_service) == (entry.max_body_bytes, entry.regions, entry.global_limits):
        return entry
    return msgspec.structs.replace(entry, max_body_bytes=least, regions=regions, global_limits=by_service)


def parse_seconds(moment: dt.datetime | None) -> int | None:
    """Return a time in seconds since 1970; the API server also stores a time without a zone, as UTC."""
    if moment is None:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return max(0, int(aware.timestamp()))
