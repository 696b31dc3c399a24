"""Ledger: sums of tokens by day and month of UTC, from usage records.

A request belongs to the day on which it began. Sums are of what decides about budgets and prices: key,
service, endpoint, host and model. Prices are not in them: a changed price counts for the whole month.

It is bounded: two days and two months, each of ``MOST_BYTES`` as text. When a period is full, the namespace
with most of it gets coarser sums, and no other does (``_coarser``).
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from modelplane.gateway.usage.usage_sums import UsageRecord

MOST_BYTES = 660 << 10
"""Maximum of a period as text. An object of it has less than 900 KiB, even if nothing can be compressed."""

MOST_NAME_BYTES = 1024
"""A longer name in a record is not kept; every name of the API is shorter."""

MOST_TOKENS = 2**62
"""Sums do not grow beyond it: it is more than any budget, and a number for every reader."""

UNKNOWN = "?"
"""A value that is not known: no host, model or service has this name."""


class Row(NamedTuple):
    """Subject of a sum. A text that is empty is of requests without."""

    key: str = ""
    """NAMESPACE/NAME of the ModelKey, or NAMESPACE/ for several."""
    service: str = ""
    backend: str = ""
    host: str = ""
    """Host of the endpoint's URL, or ``UNKNOWN``."""
    model: str = ""
    """``spec.model`` of the endpoint, or ``UNKNOWN``: clients choose every other."""

    @property
    def namespace(self) -> str:
        """Namespace of the key; empty without a key."""
        return self.key.partition("/")[0]

    @property
    def owner(self) -> str:
        """Namespace that has the row: that of the key, or without one that of the service."""
        return self.namespace or self.service.partition("/")[0]


class Tokens(NamedTuple):
    """Tokens of prompts and of answers."""

    prompt: int = 0
    completion: int = 0

    @property
    def total(self) -> int:
        """All tokens."""
        return self.prompt + self.completion

    def add(self, other: "Tokens") -> "Tokens":
        """Return the sum of both."""
        prompt, completion = self.prompt + other.prompt, self.completion + other.completion
        return Tokens(min(prompt, MOST_TOKENS), min(completion, MOST_TOKENS))


Rows: TypeAlias = Mapping[Row, Tokens]


def read_row(record: UsageRecord) -> tuple[Row, Tokens]:
    """Return the tokens of a record, and what they are of."""
    names = (record.key, record.service, record.backend, record.host, record.backend_model or UNKNOWN)
    row = Row(*(name if len(name.encode()) <= MOST_NAME_BYTES else UNKNOWN for name in names))
    return row, Tokens(record.prompt_tokens or 0, record.completion_tokens or 0)


def format_day(moment: dt.datetime) -> str:
    """Return the period of a day, such as 2026-11-23."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d")


def format_month(moment: dt.datetime) -> str:
    """Return the period of a month, such as 2026-11."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m")


def end_of(period: str) -> dt.datetime:
    """Return the time at which a day or a month ends. Raises ``ValueError``."""
    if len(period) == len("2026-11-23"):
        return dt.datetime.strptime(period, "%Y-%m-%d").replace(tzinfo=dt.UTC) + dt.timedelta(days=1)
    begin = dt.datetime.strptime(period, "%Y-%m").replace(tzinfo=dt.UTC)
    return (begin + dt.timedelta(days=32)).replace(day=1)


def is_kept(period: str, now: dt.datetime) -> bool:
    """Return True for the present and the last day and month: a record may be late.

    Those to come are of another clock.
    """
    first = now.astimezone(dt.UTC).replace(day=1)
    yesterday, last_month = now - dt.timedelta(days=1), first - dt.timedelta(days=1)
    return period in {format_day(now), format_day(yesterday), format_month(now), format_month(last_month)}


class Ledger:
    """Sums of one gateway, or of several."""

    def __init__(self, periods: Mapping[str, Rows] | None = None, most_bytes: int | None = None) -> None:
        """``most_bytes`` of a period as text; None is without a maximum, for sums that are not stored."""
        self._most_bytes = most_bytes
        self._periods: dict[str, dict[Row, Tokens]] = {
            period: dict(rows) for period, rows in (periods or {}).items()
        }
        self._bytes = {period: _bytes_of(rows) for period, rows in self._periods.items()}
        self.changes = 0
        """Number of changes since it was made."""
        for period in self._periods:
            self._bound(period)

    @property
    def periods(self) -> Mapping[str, Rows]:
        """Sums by period."""
        return self._periods

    def get_rows(self, period: str) -> Rows:
        """Return the sums of a period."""
        return self._periods.get(period, {})

    def add(self, record: UsageRecord) -> None:
        """Add the tokens of a record."""
        row, tokens = read_row(record)
        if tokens.total == 0:
            return
        for period in (format_day(record.time), format_month(record.time)):
            self._add(period, row, tokens)
            self._bound(period)

    def _add(self, period: str, row: Row, tokens: Tokens) -> None:
        rows = self._periods.setdefault(period, {})
        before = rows.get(row)
        rows[row] = after = tokens if before is None else before.add(tokens)
        freed = 0 if before is None else _length(row, before)
        self._bytes[period] = self._bytes.get(period, _ENDS) + _length(row, after) - freed
        self.changes += 1

    def _bound(self, period: str) -> None:
        """Make room: the namespace with most of the period gets coarser sums, until enough is free."""
        if self._most_bytes is None or self._bytes[period] <= self._most_bytes:
            return
        enough = self._most_bytes * 3 // 4
        owned: defaultdict[str, set[Row]] = defaultdict(set)
        sizes: Counter[str] = Counter()
        for row, tokens in self._periods[period].items():
            owned[row.owner].add(row)
            sizes[row.owner] += _length(row, tokens)
        lost: dict[str, _Lost] = {}
        while self._bytes[period] > enough:
            left = [name for name in sizes if lost.get(name) != _ALL]
            if not left:
                self._merge(period)
                return
            largest = max(left, key=sizes.__getitem__)
            lost[largest] = losing = _next(lost.get(largest), owned[largest])
            changed = {largest}
            for row in owned.pop(largest, ()):
                for coarse in self._replace(period, row, losing):
                    owned[coarse.owner].add(coarse)
                    changed.add(coarse.owner)
            for name in changed:
                sizes[name] = sum(_length(row, self._periods[period][row]) for row in owned[name])

    def _replace(self, period: str, row: Row, lost: "_Lost") -> tuple[Row, ...]:
        coarser = _coarser(row, lost)
        if coarser != (row,):
            tokens = self._periods[period].pop(row)
            self._bytes[period] -= _length(row, tokens)
            for coarse in coarser:
                self._add(period, coarse, tokens)
        return coarser

    def _merge(self, period: str) -> None:
        """Leave one sum for all, where even the names of the namespaces have no room."""
        total = Tokens()
        for tokens in self._periods[period].values():
            total = total.add(tokens)
        every = {Row(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN): total}
        self._periods[period], self._bytes[period] = every, _bytes_of(every)

    def forget(self, now: dt.datetime) -> None:
        """Drop the periods that are over, and those that no clock has reached."""
        for period in [stored for stored in self._periods if not is_kept(stored, now)]:
            del self._periods[period]
            del self._bytes[period]
            self.changes += 1


def join_ledgers(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the sums of several gateways."""
    periods: dict[str, dict[Row, Tokens]] = {}
    for ledger in ledgers:
        for period, rows in ledger.periods.items():
            known = periods.setdefault(period, {})
            for row, tokens in rows.items():
                known[row] = known.get(row, Tokens()).add(tokens)
    return Ledger(periods)


class _Lost(NamedTuple):
    """Parts that the sums of a namespace lack, beside that those of keys and of endpoints are apart."""

    models: bool = False
    """Host and model of an endpoint."""
    keys: bool = False
    endpoints: bool = False
    """Endpoint and service."""


_ALL = _Lost(models=True, keys=True, endpoints=True)
_REST = (UNKNOWN, UNKNOWN)


def _next(lost: _Lost | None, rows: Collection[Row]) -> _Lost:
    """Return what the rows of a namespace lose next: of keys and endpoints, first those that are more."""
    if lost is None:
        return _Lost()
    if not lost.models:
        return _Lost(models=True)
    if lost.keys or lost.endpoints:
        return _ALL
    keys = 2 * sum(bool(row.key) for row in rows) >= len(rows)
    return _Lost(models=True, keys=keys, endpoints=not keys)


def _coarser(row: Row, lost: _Lost) -> tuple[Row, ...]:
    """Return the rows that a row becomes: the sum of its key, and that of its endpoint.

    So budgets of keys and of tiers keep what they compare. The sum of a key has no service and that of an
    endpoint no key, so neither counts twice.
    """
    if row.key == UNKNOWN:
        return (row,)  # the one sum for all
    rows: list[Row] = []
    if row.key:
        rows.append(Row(f"{row.namespace}/" if lost.keys else row.key, UNKNOWN, UNKNOWN, *_REST))
    if row.service not in ("", UNKNOWN):
        rest = _REST if lost.models else (row.host, row.model)
        service, backend = row.service, row.backend
        if lost.endpoints:
            service, backend = f"{service.partition('/')[0]}/", UNKNOWN
        rows.append(Row("", service, backend, *rest))
    return tuple(rows) or (Row("", UNKNOWN, UNKNOWN, *_REST),)


def _length(row: Row, tokens: Tokens) -> int:
    """Return the bytes of a row as text, and of what is between two."""
    return len(msgspec.json.encode((*row, *tokens))) + len(_BETWEEN)


_BETWEEN = b",\n"
_ENDS = len(b"[]") - len(_BETWEEN)
"""Bytes of a text without rows, less what no row comes after."""


def _bytes_of(rows: Rows) -> int:
    return _ENDS + sum(_length(row, tokens) for row, tokens in rows.items())


_Line: TypeAlias = tuple[str, str, str, str, str, int, int]


def encode_rows(rows: Rows) -> bytes:
    """Return the sums of a period, to be stored; the same for the same sums."""
    lines = sorted((*row, *tokens) for row, tokens in rows.items())
    return b"[%b]" % _BETWEEN.join(map(msgspec.json.encode, lines))


def decode_rows(text: bytes) -> dict[Row, Tokens]:
    """Return sums that were stored. Raises ``msgspec.DecodeError``."""
    rows: dict[Row, Tokens] = {}
    for *names, prompt, completion in _lines.decode(text):
        if not (0 <= prompt <= MOST_TOKENS and 0 <= completion <= MOST_TOKENS):
            raise msgspec.ValidationError("a sum is negative or too large")
        row = Row(*names)
        rows[row] = rows.get(row, Tokens()).add(Tokens(prompt, completion))
    return rows


_lines = msgspec.json.Decoder(list[_Line])
