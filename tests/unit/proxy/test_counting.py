"""What gateways publish of their use is what the controllers read, each sum once."""

import base64
import gzip
import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway.usage.ledger import MOST_BYTES, Ledger, Row, Rows, Tokens, encode_rows
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.proxy import companion, envoy_directory, ledgers
from modelplane.proxy.companion import Counting
from modelplane.proxy.envoy_directory import USAGE_LOG
from modelplane.proxy.ledgers import LEDGER, Published, build_object, get_now
from modelplane.proxy.proxies import GatewayDeployment
from modelplane.telemetry import metrics
from modelplane.telemetry.metric_definitions import Program

ROWS = {Row("ml/ci", "ml/qwen", "ml/own", "10.0.0.1", "m"): Tokens(3, 4)}
TODAY = f"{get_now():%Y-%m-%d}"


def stored(item: dict[str, Any], version: int = 1) -> dict[str, Any]:
    own = {"uid": item["metadata"]["name"], "resourceVersion": str(version)}
    return {**item, "metadata": {**item["metadata"], **own}}


def unpublished() -> float | None:
    return metrics.build_registry(Program.GATEWAY).get_sample_value("modelplane_gateway_usage_unpublished")


def item(gateway: str = "a", period: str = TODAY, rows: Rows = ROWS) -> dict[str, Any]:
    return stored(dict(build_object(gateway, period, rows)))


def test_sums_of_gateways_are_added_and_an_unchanged_object_is_read_once() -> None:
    reader = Published()
    objects = [item("a"), item("b"), item("b", TODAY[:7])]
    found = reader.read(objects)
    assert found.periods == {
        TODAY: {row: Tokens(6, 8) for row in ROWS},
        TODAY[:7]: dict(ROWS),
    }
    assert reader.read(objects) is found
    assert reader.read([item("a"), *objects[1:]]) is not found


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"text", id="not compressed"),
        pytest.param(gzip.compress(b"[")[:-9], id="cut off"),
        pytest.param(gzip.compress(b"[[1]]"), id="no sums"),
        pytest.param(gzip.compress(b'[["ml/ci","","","","",-9,0]]'), id="negative"),
        pytest.param(gzip.compress(b"[" * (65 << 20)), id="a bomb"),
    ],
)
def test_an_object_that_is_damaged_keeps_the_sums_that_were_read_from_it(content: bytes) -> None:
    reader = Published()
    before = reader.read([item()])
    damaged = stored({**item(), "binaryData": {"sums": base64.b64encode(content).decode()}}, 2)
    assert reader.read([damaged]).periods == before.periods
    again = Published()
    other = item("b")
    with pytest.raises(OSError, match=r"usage-a-.* is damaged"):
        again.read([damaged, other])
    assert again.read([other]).periods == {TODAY: dict(ROWS)}
    assert again.read([other, damaged]).periods == {TODAY: dict(ROWS)}, "it opens nothing that is closed"


def test_an_object_without_a_period_is_damaged_and_not_over() -> None:
    damaged = {**item(), "data": {}}
    assert not ledgers.is_over(damaged, get_now())
    with pytest.raises(OSError, match="is damaged"):
        Published().read([damaged])


def test_the_object_of_a_full_ledger_has_room_even_if_nothing_can_be_compressed() -> None:
    noise = random.Random(7)  # noqa: S311 - names of a test
    name = "".join(chr(noise.randrange(33, 127)) for _ in range(MOST_BYTES * 2))
    full = Ledger(most_bytes=MOST_BYTES)
    for at in range(0, len(name), 250):
        row = Row(f"t{at % 9}/{name[at : at + 60]}", "s/s", f"s/{name[at + 60 : at + 250]}", "h", "m")
        full._add("2026-11", row, Tokens(2**61, 2**61))
        full._bound("2026-11")
        if at % 25_000 == 0:
            assert len(encode_rows(full.get_rows("2026-11"))) <= MOST_BYTES
    assert len(json.dumps(build_object("a" * 16, "2026-11-30", full.get_rows("2026-11")))) < 900 << 10
    worst = base64.b64encode(gzip.compress(noise.randbytes(MOST_BYTES)))
    assert len(worst) < 899 << 10


class Bench:
    """The counting of one gateway, and the objects that it has written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        envoy_directory.prepare(directory)
        self.written: list[dict[str, Any]] = []
        self.problem = self.failing = ""
        self.number = 0
        self.counting = self.new()

    def new(self) -> Counting:
        return Counting(self, self.directory)  # type: ignore[arg-type]  # the client of a test

    async def apply(self, manifest: dict[str, Any]) -> None:
        if self.problem and self.failing in manifest["metadata"]["name"]:
            raise errors.KubernetesError(self.problem)
        self.written.append(manifest)

    def use(self, tokens: int) -> None:
        self.number += 1
        known = {"time": get_now().isoformat(), "status": 200, "requestId": str(self.number)}
        line = json.dumps(known | {"key": "ml/ci", "promptTokens": tokens})
        with (self.directory / USAGE_LOG).open("a") as file:
            file.write(f"{line}\n")

    def total(self) -> int:
        """Return the tokens of this day by what the controllers find."""
        newest = {each["metadata"]["name"]: each for each in self.written}
        rows = Published().read([stored(each) for each in newest.values()]).get_rows(TODAY)
        return sum(tokens.total for tokens in rows.values())


async def test_a_gateway_publishes_what_changed_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.counting.look()
    assert bench.written == []
    bench.use(5)
    for _ in range(3):
        await bench.counting.look()
    assert ([each["data"]["period"] for each in bench.written], bench.total()) == ([TODAY, TODAY[:7]], 5)
    bench.use(6)
    bench.counting = bench.new()
    await bench.counting.look()
    assert (len({each["metadata"]["name"] for each in bench.written}), bench.total()) == (2, 11)


async def test_what_could_not_be_published_is_published_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.use(5)
    bench.problem = "no answer"
    assert await bench.counting.look()
    assert (bench.total(), unpublished()) == (0, 1)
    bench.problem = ""
    await bench.counting.look()
    assert (bench.total(), unpublished()) == (5, 0)


async def test_an_object_that_cannot_be_written_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    bench.use(5)
    bench.problem, bench.failing = "too long", TODAY
    with caplog.at_level(logging.WARNING, companion.__name__):
        for _ in range(3):
            await bench.counting.look()
    assert [each["data"]["period"] for each in bench.written] == [TODAY[:7]]
    assert [f"{TODAY}: too long" in each for each in caplog.messages] == [True]
    bench.problem = ""
    await bench.counting.look()
    assert (len(bench.written), bench.total()) == (2, 5)


async def test_sums_that_are_begun_anew_after_damage_replace_the_former_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.use(5)
    await bench.counting.look()
    (tmp_path / LEDGER).write_text("{")
    bench.counting = bench.new()
    bench.use(6)
    await bench.counting.look()
    assert bench.total() == 11


async def test_a_gateway_whose_disk_is_lost_begins_another_object(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    bench = Bench(tmp_path / "a")
    bench.use(5)
    await bench.counting.look()
    again = Bench(tmp_path / "b")
    again.written = bench.written
    again.use(6)
    await again.counting.look()
    assert again.total() == 11


async def test_the_last_requests_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "FLUSH_S", 0)
    bench = Bench(tmp_path)
    bench.use(5)
    await bench.counting.finish()
    assert bench.total() == 5


async def test_the_controllers_add_up_and_delete_what_is_over(client: Client, plane: Any) -> None:
    proxy = GatewayDeployment(client, "modelplane-system", "modelplane-gateway")
    usage = proxy.informers[-1]
    for each in (item("a"), item("b"), item("b", "2025-01-31"), item("b", "2025-01")):
        usage.remember(each)
    found = await proxy.sum_usage()
    assert found is not None
    assert found.get_rows(TODAY) == {row: Tokens(6, 8) for row in ROWS}
    deleted = {path.rsplit("/", 1)[1] for method, path, _, _ in plane.writes if method == "DELETE"}
    assert deleted == {"usage-b-2025-01-31", "usage-b-2025-01"}


def test_an_object_has_the_label_that_it_is_found_by() -> None:
    key, _, value = ledgers.SELECTOR.partition("=")
    assert item()["metadata"]["labels"] == {key: value}
