"""Keys are refused for what gateways have counted, and for nothing else."""

import datetime as dt
from typing import Any

import pytest

from modelplane.api.fields.requests.pricing import Price, Pricing
from modelplane.api.inference_gateway import KeyGrant
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Blocked
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.gateway.usage.spent_budgets import list_blocked
from modelplane.gateway.usage.usage_sums import UsageRecord

PRICES = Pricing(
    currency="USD", prices=(Price(name="all", prompt_per_million="1", completion_per_million="1"),)
)


class Counted:
    """What gateways have counted, and the file that was written before."""

    def __init__(self, former: KeyFile | None = None) -> None:
        self.ledger: Ledger | None = None
        self.problem = ""
        self.unreadable = ""
        self._former = former

    async def load(self) -> Load:
        return Load()

    async def sum_usage(self) -> Ledger | None:
        if self.problem:
            raise OSError(self.problem)
        return self.ledger

    def read_former(self, path: str) -> str:
        return self._former.encode().decode() if self._former and path == KEYS else ""

    def find_former_problem(self) -> str:
        return self.unreadable

    def use(self, tokens: int, key: str = "ml/ci", at: str = "2026-11-30T12:00:00+00:00") -> None:
        self.ledger = self.ledger or Ledger()
        moment = dt.datetime.fromisoformat(at)
        self.ledger.add(UsageRecord(time=moment, status=200, key=key, prompt_tokens=tokens))


class Bench:
    """Budgets of keys, with a clock that a test sets."""

    def __init__(self, *keys: dict[str, Any], former: KeyFile | None = None) -> None:
        self.counted = Counted(former)
        self.now = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
        self.changed: list[set[str]] = []
        self.touched = 0
        self.keys = list(keys)
        self.table = KeyTable()
        self.pricing: Pricing | None = None
        self.budgets = Budgets(
            self.counted,  # type: ignore[arg-type]  # what it asks of a proxy
            changed=lambda keys: self.changed.append(set(keys)),
            touch=self._touch,
            now=lambda: self.now,
        )

    def _touch(self) -> None:
        self.touched += 1

    async def refused(self) -> set[str]:
        """Return the keys that the gateway is told to refuse."""
        self.table = build_key_table(self.keys, (KeyGrant(namespace="*"),), self.table)
        found = await self.budgets.apply(self.table, self.pricing)
        assert isinstance(found, KeyFile)
        return set(list_blocked(found))

    async def look(self) -> None:
        await self.budgets._look(self.counted)  # type: ignore[arg-type]  # as above


def key(name: str = "ci", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "generation": 1}
    return {
        "metadata": metadata,
        "spec": {"hashes": [{"sha256": name.encode().hex().ljust(64, "0")}], **spec},
    }


DAILY = key(budget={"tokensPerDay": 100})


async def test_a_key_is_refused_from_its_last_token_to_the_next_day() -> None:
    bench = Bench(DAILY)
    bench.counted.use(99)
    assert await bench.refused() == set()
    await bench.look()
    assert (await bench.refused(), bench.touched) == (set(), 1)
    bench.counted.use(1)
    await bench.look()
    assert (await bench.refused(), bench.touched) == ({"ml/ci"}, 2)
    for _ in range(3):
        await bench.look()
    assert bench.touched == 2
    bench.now = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    await bench.look()
    assert (await bench.refused(), bench.touched) == (set(), 3)
    assert bench.changed == [{"ml/ci"}] * 3


async def test_until_usage_is_known_what_was_refused_stays_refused() -> None:
    before = Bench(DAILY, key("b"))
    before.counted.use(100)
    await before.refused()
    await before.look()
    former = await before.budgets.apply(before.table, None)
    assert isinstance(former, KeyFile)
    bench = Bench(DAILY, key("b"), former=former)
    assert await bench.refused() == {"ml/ci"}
    bench.counted.problem = "the disk is gone"
    await bench.look()
    assert await bench.refused() == {"ml/ci"}
    owner = decode_as(ModelKey, {"kind": "ModelKey", **DAILY})
    assert "the disk is gone" in bench.budgets.state(owner).problem
    bench.counted.problem = ""
    await bench.look()
    assert await bench.refused() == {"ml/ci"}, "older records are still being read"
    bench.counted.use(10)
    await bench.look()
    assert (await bench.refused(), bench.touched) == (set(), 1)


async def test_usage_that_cannot_be_read_later_opens_nothing_and_closes_nothing() -> None:
    bench = Bench(DAILY, key("b", budget={"tokensPerDay": 1000}))
    bench.counted.use(100)
    await bench.refused()
    await bench.look()
    bench.counted.problem = "no answer"
    await bench.look()
    assert await bench.refused() == {"ml/ci"}
    state = bench.budgets.state(decode_as(ModelKey, {"kind": "ModelKey", **DAILY}))
    assert [each.percent for each in state.states] == [100]


async def test_a_larger_budget_opens_a_key_at_once() -> None:
    bench = Bench(DAILY)
    bench.counted.use(100)
    await bench.refused()
    await bench.look()
    assert await bench.refused() == {"ml/ci"}
    bench.keys = [key(budget={"tokensPerDay": 101})]
    assert await bench.refused() == set()
    bench.keys = [key()]
    assert await bench.refused() == set()


async def test_a_price_that_is_added_counts_for_what_was_used_before() -> None:
    bench = Bench(key(budget={"costPerMonth": "0.000100"}))
    bench.counted.use(100, at="2026-11-02T12:00:00+00:00")
    await bench.refused()
    await bench.look()
    assert await bench.refused() == set()
    bench.pricing = PRICES
    assert await bench.refused() == {"ml/ci"}


async def test_keys_without_budgets_are_not_counted() -> None:
    bench = Bench(key())
    bench.counted.problem = "never asked"
    assert await bench.refused() == set()
    await bench.look()
    assert bench.budgets.state(decode_as(ModelKey, {"kind": "ModelKey", **key()})).problem == ""


@pytest.mark.parametrize("spent", [True, False])
async def test_a_key_is_written_anew_only_if_what_is_spent_changes(spent: bool) -> None:
    bench = Bench(DAILY)
    bench.counted.use(100 if spent else 1)
    await bench.refused()
    await bench.look()
    first = await bench.budgets.apply(bench.table, None)
    bench.counted.use(1)
    await bench.look()
    assert await bench.budgets.apply(bench.table, None) is first


async def test_while_the_former_keys_cannot_be_read_all_stays_as_it_is() -> None:
    bench = Bench(DAILY)
    bench.counted.unreadable = "1 of 2 parts are not there yet"
    table = build_key_table(bench.keys, (KeyGrant(namespace="*"),), bench.table)
    for _ in range(2):
        found = await bench.budgets.apply(table, None)
        assert isinstance(found, Blocked)
        assert "1 of 2 parts" in found.cause
    bench.counted.unreadable = ""
    assert await bench.refused() == set(), "what could not be read is read again"


async def test_known_sums_need_no_former_keys() -> None:
    bench = Bench(DAILY)
    bench.counted.unreadable = "damaged"
    await bench.budgets.apply(build_key_table(bench.keys, (KeyGrant(namespace="*"),), bench.table), None)
    bench.counted.use(100)
    await bench.look()
    assert (await bench.refused(), bench.touched) == ({"ml/ci"}, 1)
