"""Costs: what tokens cost by the prices of the platform, in whole units of which no part is lost.

A price is a whole number of parts for a million tokens, so a token costs a whole number of units.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from modelplane.api import money
from modelplane.api.fields.requests.pricing import Price, Pricing
from modelplane.gateway.usage.ledger import UNKNOWN, Row, Tokens, read_row
from modelplane.gateway.usage.usage_sums import UsageRecord

_DECIMALS = money.DECIMALS + 6

UNIT = 10**_DECIMALS
"""Units of one of the currency."""


def parse_units(amount: str) -> int:
    """Return an amount in units."""
    return money.parse_amount(amount) * 10**6


def format_amount(cost: int) -> str:
    """Return units as an amount: all its decimals, and two at least."""
    return money.format_amount(cost, _DECIMALS)


def format_rounded(cost: int, decimals: int) -> str:
    """Return units as an amount with some decimals; a half is rounded up."""
    step = UNIT // 10**decimals
    whole, fraction = divmod((cost + step // 2) // step, 10**decimals)
    return f"{whole:,}.{fraction:0{decimals}}"


class Tariff:
    """The prices of a gateway."""

    def __init__(self, pricing: Pricing | None) -> None:
        self.currency = pricing.currency if pricing else ""
        """Empty without prices."""
        self._prices = tuple(map(_Priced, pricing.prices)) if pricing else ()
        self._candidates = lru_cache(maxsize=65_536)(
            lambda service, host, model: tuple(_until_certain(self._prices, service, host, model))
        )

    def compute_cost(self, row: Row, tokens: Tokens) -> int | None:
        """Return the cost in units; None without a price.

        Of several prices that may be for it, because something about it is unknown, it is the highest.
        """
        candidates = self._candidates(row.service, row.host, row.model)
        return max((candidate.compute_cost(tokens) for candidate in candidates), default=None)

    def compute_cost_of_record(self, record: UsageRecord) -> int | None:
        """Return the cost of a request in units; None without a price."""
        return self.compute_cost(*read_row(record))


class _Priced:
    """A price, and the requests that it is for."""

    def __init__(self, price: Price) -> None:
        self._hosts = frozenset(price.hosts)
        self._models = frozenset(price.models)
        self._services = frozenset(price.services)
        self._prompt, self._completion = (
            money.parse_amount(price.prompt_per_million),
            money.parse_amount(price.completion_per_million),
        )

    def compute_cost(self, tokens: Tokens) -> int:
        return tokens.prompt * self._prompt + tokens.completion * self._completion

    def is_match(self, service: str, host: str, model: str) -> bool | None:
        """Return True if it is for such a request; None if it may be."""
        found = (
            _is_one(host, self._hosts),
            _is_one(model, self._models),
            True if f"{service.partition('/')[0]}/*" in self._services else _is_one(service, self._services),
        )
        if False in found:
            return False
        return None if None in found else True


def _is_one(value: str, wanted: frozenset[str]) -> bool | None:
    if not wanted or value in wanted:
        return True
    return None if value == UNKNOWN else False


def _until_certain(prices: Iterable[_Priced], service: str, host: str, model: str) -> Iterator[_Priced]:
    for price in prices:
        fits = price.is_match(service, host, model)
        if fits is not False:
            yield price
        if fits:
            return
