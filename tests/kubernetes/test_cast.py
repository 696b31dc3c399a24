"""The tour in a terminal, on three clusters of this machine, as the recording that the pages show.

``make cast`` runs it and writes ``docs/tour.cast``: every line for a shell of the tour's pages, typed.
"""

import os
import platform
import re
import shlex
import sys
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.terminal_cast import Recording, shown, terminal
from support.tour_pages import ROOT, TOUR, heading
from support.transcripts import lines_for_a_shell

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(not os.environ.get("MODELPLANE_CAST"), reason="make cast records the tour"),
]

TITLE = "The tour of Modelplane: a fleet of three clusters on one machine, and a region that is lost"


def test_the_tour_is_recorded(kubernetes_binary: Path, module_library: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    command = shlex.join((str(kubernetes_binary.absolute()), "kubectl"))
    (programs / "kubectl").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (programs / "kubectl").chmod(0o700)
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "MODELPLANE_KUBERNETES_BINARY": str(kubernetes_binary),
        "MODELPLANE_GATEWAY_MODULE": str(module_library),
        "KUBECACHEDIR": str(tmp_path / "cache"),
    }
    recording = Recording(
        replaced={str(home): "/home/me", str(ROOT): "/home/me/modelplane", platform.node(): "laptop"}
    )
    with terminal(recording, ROOT, environment) as opened:
        try:
            for page in TOUR:
                opened.chapter(heading(page))
                for block in lines_for_a_shell(page):
                    opened.run(block, 3 * PATIENCE_S)
        finally:
            opened.run("modelplane down --purge >/dev/null 2>&1 || true", PATIENCE_S)
            recording.events = recording.events[: _end(recording)]
    written = ROOT / "build" / "tour.cast"
    written.parent.mkdir(exist_ok=True)
    recording.write(written, TITLE)
    text = shown(written)
    assert [each for each in recording.replaced if each in text] == []
    assert re.search(r"^us-west .* False ", text, re.MULTILINE), "the lost region is reported"
    assert len(re.findall(r"^200$", text, re.MULTILINE)) == 10, "every request is answered"
    (ROOT / "docs" / "tour.cast").write_text(written.read_text())


def _end(recording: Recording) -> int:
    """Return how many events belong to the pages: what follows is of the test."""
    prompts = [at for at, (_, _, text) in enumerate(recording.events) if text.endswith("$ ")]
    return prompts[-2] + 1 if len(prompts) > 1 else len(recording.events)
