"""Each record counts once in the ledger, however often files are rotated and the reader ends."""

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.usage_sums import record_of
from modelplane.proxy import envoy_directory, ledgers
from modelplane.proxy.envoy_directory import USAGE_LOG, Rotation
from modelplane.proxy.ledgers import LEDGER, LedgerFile

NOW = dt.datetime(2026, 12, 1, 0, 30, tzinfo=dt.UTC)
_TIMES = ["2026-11-30T23:59:59.999Z", "2026-12-01T00:00:00.000Z", "2026-09-01T00:00:00Z", "yesterday"]

lines: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    time=st.sampled_from(_TIMES),
    key=st.sampled_from(["ml/a", "ml/b", "web/c", ""]),
    model=st.sampled_from(["m", "", "é\u2028"]),
    promptTokens=st.sampled_from([0, 1, 7, 2**53, -1, 2**60, "5"]),
)
steps: st.SearchStrategy[list[tuple[str, list[dict[str, Any]]]]] = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(lines, max_size=4)),
        st.tuples(st.sampled_from(["look", "rotate", "restart", "cut", "fail"]), st.just([])),
    ),
    max_size=25,
)


class _Disk:
    """A directory of records, and the reader of the moment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / USAGE_LOG
        envoy_directory.prepare(directory)
        self.rotation = Rotation(directory, 1, 100)
        self.reader = self.new()
        self.expected = Ledger()
        self.number = 0

    def new(self) -> LedgerFile:
        return LedgerFile(self.directory, lambda: NOW)

    def write(self, written: list[dict[str, Any]], *, whole: bool = True) -> None:
        for fields in written:
            self.number += 1
            line = json.dumps({"status": 200, "requestId": str(self.number)} | fields).encode()
            with self.path.open("ab") as file:
                file.write(line + b"\n" if whole else line[:-3])
            if whole and (record := record_of(line)):
                self.expected.add(record)

    def do(self, step: str, written: list[dict[str, Any]]) -> None:
        match step:
            case "write":
                self.write(written)
            case "look":
                self.reader.look()
            case "rotate":
                self.rotation.look()
            case "restart":
                self.reader = self.new()
            case "cut":
                # A crash of Envoy in the middle of a line; its next start ends the line.
                self.write([{"time": _TIMES[0]}], whole=False)
                self.reader.look()
                envoy_directory.end_line(self.directory)
            case "fail":
                # It ends before what it has read is stored.
                self.reader._save = lambda: None  # type: ignore[method-assign]  # a crash
                self.reader.look()
                self.reader = self.new()


@settings(max_examples=60, deadline=None)
@given(steps)
def test_each_record_counts_once(taken: list[tuple[str, list[dict[str, Any]]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk = _Disk(Path(folder))
        for step, written in taken:
            disk.do(step, written)
        found = disk.reader.look()
        disk.expected.forget(NOW)
        assert found is not None
        assert found.periods == {name: rows for name, rows in disk.expected.periods.items() if rows}
        again = disk.new().look()
        assert again is not None
        assert again.periods == found.periods
        if found.periods:
            assert (disk.directory / LEDGER).stat().st_mode & 0o077 == 0


def test_pieces_of_any_length_have_the_same_sum(monkeypatch: Any, tmp_path: Path) -> None:
    disk = _Disk(tmp_path)
    disk.write([{"time": _TIMES[0], "key": "ml/a", "promptTokens": 1}] * 20)
    with disk.path.open("ab") as file:
        file.write(b"x" * 2000 + b"\n")
    disk.write([{"time": _TIMES[0], "key": "ml/a", "promptTokens": 1}] * 20)
    for length in (150, 151, 499, 5000):
        monkeypatch.setattr(ledgers, "_PIECE", length)
        (tmp_path / LEDGER).unlink(missing_ok=True)
        reader = disk.new()
        looks = 1
        while (found := reader.look()) is None:
            looks += 1
        assert found.periods == disk.expected.periods
        assert looks >= disk.path.stat().st_size // length
