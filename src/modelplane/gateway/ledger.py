"""Ledger: sums of tokens by day and month of UTC, from usage records.

A request belongs to the day on which it began. Sums are of what decides about budgets and prices: key,
service, endpoint, host and model. Prices are not in them: a changed price counts for the whole month.

It is bounded: two days and two months, each of ``MOST_ROWS`` rows. The records of further rows lose their
model, which clients choose, and then all but their key; those of further keys are of their namespace only.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from modelplane.gateway.usage import UsageRecord

MOST_ROWS = 20_000
"""Maximum of rows of a period, before records lose their details."""

MOST_KEY_ROWS = 10_000
"""Maximum of rows of a period that have only a key."""

MOST_TOKENS = 2**62
"""Sums do not grow beyond it: it is more than any budget, and a number for every reader."""

UNKNOWN = "?"
"""A value that is not known: no host, model or service has this name."""

KEPT = 2
"""Number of days, and of months, that are kept: a record may be late."""


class Row(NamedTuple):
    """What a sum is of. A text that is empty is of requests without."""

    key: str = ""
    """NAMESPACE/NAME of the ModelKey, or NAMESPACE/ for several."""
    service: str = ""
    backend: str = ""
    host: str = ""
    """Host of the endpoint's URL, or ``UNKNOWN``."""
    model: str = ""
    """Model as the endpoint gets it, or ``UNKNOWN``."""

    @property
    def namespace(self) -> str:
        """Namespace of the key; empty without a key."""
        return self.key.partition("/")[0]


class Tokens(NamedTuple):
    """Tokens of prompts and of answers."""

    prompt: int = 0
    completion: int = 0

    @property
    def total(self) -> int:
        """All tokens."""
        return self.prompt + self.completion

    def plus(self, other: "Tokens") -> "Tokens":
        """Return the sum of both."""
        prompt, completion = self.prompt + other.prompt, self.completion + other.completion
        return Tokens(min(prompt, MOST_TOKENS), min(completion, MOST_TOKENS))


Rows: TypeAlias = Mapping[Row, Tokens]


def row_of(record: UsageRecord) -> tuple[Row, Tokens]:
    """Return the tokens of a record, and what they are of."""
    model = record.backend_model or record.model or UNKNOWN
    row = Row(record.key, record.service, record.backend, record.host, model)
    return row, Tokens(record.prompt_tokens or 0, record.completion_tokens or 0)


def day_of(moment: dt.datetime) -> str:
    """Return the period of a day, such as 2026-11-23."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d")


def month_of(moment: dt.datetime) -> str:
    """Return the period of a month, such as 2026-11."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m")


def end_of(period: str) -> dt.datetime:
    """Return the time at which a day or a month ends. Raises ``ValueError``."""
    if len(period) == len("2026-11-23"):
        return dt.datetime.strptime(period, "%Y-%m-%d").replace(tzinfo=dt.UTC) + dt.timedelta(days=1)
    begin = dt.datetime.strptime(period, "%Y-%m").replace(tzinfo=dt.UTC)
    return (begin + dt.timedelta(days=32)).replace(day=1)


def is_kept(period: str, now: dt.datetime) -> bool:
    """Return True for the present and the last day and month. Those to come are of another clock."""
    return period in _kept(now)


def _kept(now: dt.datetime) -> tuple[str, ...]:
    first = now.astimezone(dt.UTC).replace(day=1)
    yesterday, last_month = now - dt.timedelta(days=1), first - dt.timedelta(days=1)
    return day_of(now), day_of(yesterday), month_of(now), month_of(last_month)


class Ledger:
    """Sums of one gateway, or of several."""

    def __init__(self, periods: Mapping[str, Rows] | None = None) -> None:
        self._periods: dict[str, dict[Row, Tokens]] = {
            period: dict(rows) for period, rows in (periods or {}).items()
        }
        self.changes = 0
        """Number of changes since it was made."""
        self._key_rows = {
            period: sum(_is_folded(row) for row in rows) for period, rows in self._periods.items()
        }

    @property
    def periods(self) -> Mapping[str, Rows]:
        """Sums by period."""
        return self._periods

    def rows(self, period: str) -> Rows:
        """Return the sums of a period."""
        return self._periods.get(period, {})

    def add(self, record: UsageRecord) -> None:
        """Add the tokens of a record."""
        row, tokens = row_of(record)
        if tokens.total == 0:
            return
        for period in (day_of(record.time), month_of(record.time)):
            self._add(period, row, tokens)

    def _add(self, period: str, row: Row, tokens: Tokens) -> None:
        rows = self._periods.setdefault(period, {})
        if row not in rows:
            row = self._room(period, rows, row)
        rows[row] = rows.get(row, Tokens()).plus(tokens)
        self.changes += 1

    def _room(self, period: str, rows: Rows, row: Row) -> Row:
        """Return the row of a record that is the first of its kind."""
        if len(rows) < MOST_ROWS:
            return row
        without_model = row._replace(model=UNKNOWN)
        if without_model in rows:
            return without_model
        by_key = Row(row.key, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        if by_key not in rows:
            if self._key_rows.get(period, 0) >= MOST_KEY_ROWS:
                namespace = f"{row.namespace}/" if row.key else ""
                return by_key._replace(key=namespace)
            self._key_rows[period] = self._key_rows.get(period, 0) + 1
        return by_key

    def forget(self, now: dt.datetime) -> None:
        """Drop the periods that are over, and those that no clock has reached."""
        for period in [each for each in self._periods if not is_kept(each, now)]:
            del self._periods[period]
            self._key_rows.pop(period, None)
            self.changes += 1


def joined(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the sums of several gateways."""
    periods: dict[str, dict[Row, Tokens]] = {}
    for ledger in ledgers:
        for period, rows in ledger.periods.items():
            known = periods.setdefault(period, {})
            for row, tokens in rows.items():
                known[row] = known.get(row, Tokens()).plus(tokens)
    return Ledger(periods)


def _is_folded(row: Row) -> bool:
    return row[1:] == (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


_Line: TypeAlias = tuple[str, str, str, str, str, int, int]


def text_of(rows: Rows) -> bytes:
    """Return the sums of a period, to be stored; the same for the same sums."""
    lines = sorted((*row, *tokens) for row, tokens in rows.items())
    return b"[%b]" % b",\n".join(map(msgspec.json.encode, lines))


def rows_of(text: bytes) -> dict[Row, Tokens]:
    """Return sums that were stored. Raises ``msgspec.DecodeError``."""
    rows: dict[Row, Tokens] = {}
    for *names, prompt, completion in _lines.decode(text):
        if not (0 <= prompt <= MOST_TOKENS and 0 <= completion <= MOST_TOKENS):
            raise msgspec.ValidationError("a sum is negative or too large")
        row = Row(*names)
        rows[row] = rows.get(row, Tokens()).plus(Tokens(prompt, completion))
    return rows


_lines = msgspec.json.Decoder(list[_Line])
