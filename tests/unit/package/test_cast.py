"""Recordings of a terminal: what they hold, and the one of the tour that the pages show."""

import json
import os
import re
from pathlib import Path

import pytest

from support.terminal_cast import Recording, shown, terminal
from support.tour_pages import ROOT, TOUR, heading
from support.transcripts import lines_for_a_shell

CAST = ROOT / "docs" / "tour.cast"
LARGEST_BYTES = 100_000
SECRETS = {
    "a private key or a certificate": r"-----BEGIN|(?:key|certificate|authority)-data",
    "a token": r"\beyJ[\w-]{10,}|\bmp-[\w-]{16,}|\bhf_\w{8,}|Bearer ",
    "a folder of a machine": r"/(?:root|tmp|var/tmp|work|builds?|github|runner)/|/home/(?!me\b)",
}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    folder = tmp_path / "someone"
    folder.mkdir()
    recording = Recording(replaced={str(folder): "/home/me"})
    with terminal(recording, folder, {"PATH": os.environ["PATH"]}) as opened:
        opened.chapter("One")
        opened.run("for i in 1 2; do\n  echo line $i\ndone\npwd", 60)
        with pytest.raises(AssertionError, match="false: exit status 1"):
            opened.run("false", 60)
    path = tmp_path / "a.cast"
    recording.write(path, "A title")
    return path


def test_a_recording_has_what_was_typed_and_printed_and_no_path_of_the_machine(recorded: Path) -> None:
    assert shown(recorded) == (
        "$ # One\n$ for i in 1 2; do\n>   echo line $i\n> done\nline 1\nline 2\n$ pwd\n/home/me\n$ false\n$ "
    )
    head, *events = map(json.loads, recorded.read_text().splitlines())
    assert (head["version"], head["title"]) == (2, "A title")
    assert [text for _, kind, text in events if kind == "m"] == ["One"]


def test_the_recording_of_the_tour_is_small_and_in_order() -> None:
    head, *events = map(json.loads, CAST.read_text().splitlines())
    assert (head["version"], head["width"] <= 120, head["idle_time_limit"] <= 3) == (2, True, True)
    assert CAST.stat().st_size < LARGEST_BYTES
    assert {kind for _, kind, _ in events} == {"o", "m"}
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    assert [text for _, kind, text in events if kind == "m"] == [heading(page) for page in TOUR]


@pytest.mark.parametrize("page", TOUR, ids=lambda page: page.parent.name)
def test_the_recording_shows_every_line_of_the_pages(page: Path) -> None:
    """A change of a page's lines needs a new recording: ``make cast``."""
    typed = re.sub(r"^> ", "", re.sub(r"^\$ ", "", shown(CAST), flags=re.MULTILINE), flags=re.MULTILINE)
    lines = [line for block in lines_for_a_shell(page) for line in block.splitlines()]
    missing = [line for line in lines if f"\n{line}\n" not in typed]
    assert missing == []


@pytest.mark.parametrize("pattern", SECRETS.values(), ids=SECRETS)
def test_the_recording_tells_nothing_of_the_machine_it_was_made_on(pattern: str) -> None:
    assert re.findall(pattern, shown(CAST)) == []
