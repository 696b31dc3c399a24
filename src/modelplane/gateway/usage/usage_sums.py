"""Usage records, and their sums by key, service, model, backend or namespace.

A record is a line of the gateway's access log (``gateway/envoy/access_log.py``). Clients choose some of its
values, so a reader bounds what it keeps: the length of a line, the number of groups, the size of a group.
"""

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import msgspec

MOST_LINE_BYTES = 64 * 1024
"""A longer line is damaged: Envoy's records have less than a quarter of it."""

MOST_GROUPS = 10_000
"""Maximum of groups; the records of all further ones have one sum."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class UsageRecord(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Usage of one request; a text that is empty and a number that is None are unknown."""

    time: Annotated[dt.datetime, msgspec.Meta(tz=True)]
    status: Count
    request_id: str = ""
    client_address: str = ""
    method: str = ""
    path: str = ""
    key: str = ""
    namespace: str = ""
    service: str = ""
    model: str = ""
    backend: str = ""
    host: str = ""
    backend_model: str = ""
    attempts: Count = 0
    flags: str = ""
    details: str = ""
    error: str = ""
    stream: bool = False
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    estimated: bool = False
    first_token_ms: Count | None = None
    held_ms: Count | None = None
    duration_ms: Count | None = None
    bytes_received: Count = 0
    bytes_sent: Count = 0

    @property
    def failed(self) -> bool:
        """True if the client got an error, or no answer."""
        return self.status == 0 or self.status >= 400


_decoder = msgspec.json.Decoder(UsageRecord)


def record_of(line: bytes) -> UsageRecord | None:
    """Return the record that a line is; None if it is none, or damaged."""
    if len(line) > MOST_LINE_BYTES:
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class By(StrEnum):
    """Fields to sum by."""

    KEY = "key"
    SERVICE = "service"
    MODEL = "model"
    BACKEND = "backend"
    NAMESPACE = "namespace"


class Times:
    """Distribution of times, in buckets that are 2 % wide: a percentile is off by 1 % at most."""

    _WIDTH = math.log(1.02)

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()

    def add(self, milliseconds: int) -> None:
        """Add a time."""
        self._buckets[round(math.log(milliseconds) / self._WIDTH) if milliseconds else -1] += 1

    def find_percentile(self, share: float) -> int | None:
        """Return the time that a share of all times does not exceed; None without any."""
        left = share * self._buckets.total()
        for bucket, count in sorted(self._buckets.items()):
            left -= count
            if left <= 0:
                return round(math.exp(bucket * self._WIDTH)) if bucket >= 0 else 0
        return None


class Group:
    """Sum of the records with one value of a field."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.estimated_tokens = 0
        """The part of both that is estimated."""
        self.cost = 0
        """By the prices of now, in units of ``costs.UNIT``."""
        self.unpriced_tokens = 0
        """The part of both that no price is for."""
        self.first_token = Times()
        self.duration = Times()

    def add(self, record: UsageRecord, cost: int | None = None) -> None:
        """Add a record, and what it costs."""
        self.requests += 1
        self.errors += record.failed
        prompt, completion = record.prompt_tokens or 0, record.completion_tokens or 0
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        self.estimated_tokens += prompt + completion if record.estimated else 0
        self.cost += cost or 0
        self.unpriced_tokens += prompt + completion if cost is None else 0
        if record.first_token_ms is not None:
            self.first_token.add(record.first_token_ms)
        if record.duration_ms is not None:
            self.duration.add(record.duration_ms)


class Usage:
    """Sums of records by one field, those with most tokens first."""

    def __init__(
        self,
        by: By,
        since: dt.datetime | None = None,
        cost: Callable[[UsageRecord], int | None] = lambda _record: None,
    ) -> None:
        """``since`` leaves out requests that began before. ``cost`` is that of a record, by its price."""
        self._cost = cost
        self._by = by
        self._since = since
        self._groups: dict[str, Group] = {}
        self.others = Group()
        """Sum of all groups beyond the first ``MOST_GROUPS``."""

    def add(self, record: UsageRecord) -> None:
        """Add a record."""
        if self._since is not None and record.time < self._since:
            return
        name: str = getattr(record, self._by)
        group = self._groups.get(name)
        if group is None:
            group = self.others
            if len(self._groups) < MOST_GROUPS:
                group = self._groups[name] = Group()
        group.add(record, self._cost(record))

    @property
    def groups(self) -> list[tuple[str, Group]]:
        """The sums by their value of the field; an empty one is of requests without."""
        return sorted(
            self._groups.items(),
            key=lambda item: (-item[1].prompt_tokens - item[1].completion_tokens, -item[1].requests, item[0]),
        )
