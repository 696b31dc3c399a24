"""The picture in ARCHITECTURE.md shows the imports that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "modelplane"
PAGE = ROOT / "ARCHITECTURE.md"
TOP = "cli"
"""Imports every room."""
EVERYWHERE = {"api", "kube", "telemetry", "host"}
"""Imported by every room that is above; the picture would be nothing but these arrows."""


def _drawn() -> set[tuple[str, str]]:
    lines = re.findall(r"^    (\w+) --> (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {(room, other) for room, others in lines for other in others.split(" & ")}


def _imported() -> set[tuple[str, str]]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("modelplane"):
                _, _, below = node.module.partition(".")
                for other in [below.partition(".")[0]] if below else [alias.name for alias in node.names]:
                    found.add((room, other))
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    return {(room, other) for room, other in found if room != other and {room, other} <= rooms}


def test_every_arrow_is_an_import_and_every_import_an_arrow() -> None:
    told = {arrow for arrow in _imported() if arrow[0] != TOP and arrow[1] not in EVERYWHERE}
    assert _drawn() == told


def test_every_room_is_drawn() -> None:
    boxes = set(re.findall(r"^    +(\w+)\[\"\1: ", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert boxes == {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
