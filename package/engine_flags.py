# ruff: noqa: INP001  a script beside what it reads with, not a package
"""Write the tables of engine flags in ``catalogue/engine_flags``: ``python package/engine_flags.py``.

For each version the engine's wheel is downloaded, its parser is read, and the wheel is deleted again: half a
gigabyte at a time, three in all. Run it to add a version to ``VERSIONS``.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from argparse_source import Flag
from engine_parsers import llama_cpp, sglang, vllm

VERSIONS: dict[str, tuple[str, Callable[[Path], list[Flag]], tuple[str, ...]]] = {
    "vllm": ("vllm", vllm, ("0.7.3", "0.11.0", "0.18.1", "0.23.0", "0.25.1", "0.27.1", "0.33.0")),
    "sglang": ("sglang", sglang, ("0.4.10.post2", "0.5.10.post1", "0.5.12.post1", "0.5.23")),
    "llama.cpp": ("xllamacpp", llama_cpp, ("2026.4.8672", "2026.10.11549")),
}
"""Wheel, reader and versions of each engine, the oldest first."""

FOLDER = Path(__file__).parents[1] / "src" / "modelplane" / "catalogue" / "engine_flags"


def main() -> None:
    """Write the table of each engine."""
    for engine, (wheel, read, versions) in VERSIONS.items():
        found = []
        for version in versions:
            with tempfile.TemporaryDirectory() as folder:
                _unpack(wheel, version, Path(folder))
                found.append(read(Path(folder)))
            sys.stderr.write(f"{engine} {version}: {len(found[-1])} flags\n")
        # xllamacpp ends its version with the build of llama.cpp that it contains, which tags of images name.
        names = [each.rpartition(".")[2] for each in versions] if engine == "llama.cpp" else list(versions)
        (FOLDER / f"{engine}.json").write_text(_table(names, found))


def _unpack(wheel: str, version: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"{wheel}=={version}"]
    subprocess.run(command, check=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        wanted = [each for each in archive.namelist() if each.endswith((".py", ".abi3.so")) and wheel in each]
        if wheel != "xllamacpp":
            wanted = [each for each in wanted if each.endswith(".py")]
        archive.extractall(folder, wanted)
    path.unlink()


def _table(versions: list[str], found: list[list[Flag]]) -> str:
    """Return a table as JSON, with a line for each flag and the range of versions in which it is the same."""
    rows = []
    for place, flags in enumerate(found):
        before = set(found[place - 1]) if place else set()
        for flag in flags:
            if flag in before:
                continue
            last = place
            while last + 1 < len(found) and flag in found[last + 1]:
                last += 1
            since = versions[place] if place else None
            rows.append((flag, since, versions[last] if last + 1 < len(found) else None))
    rows.sort(key=lambda row: (row[0].names, row[1] or ""))
    lines = ",\n".join(json.dumps(_row(*row), separators=(",", ":")) for row in rows)
    return f'{{"versions":{json.dumps(versions)},\n"flags":[\n{lines}\n]}}\n'


def _row(flag: Flag, since: str | None, last: str | None) -> dict[str, object]:
    row = {
        "names": flag.names,
        "kind": flag.kind,
        "choices": flag.choices,
        "values": flag.values,
        "deprecated": flag.deprecated,
        "since": since,
        "last": last,
    }
    return {key: value for key, value in row.items() if value and (key, value) != ("kind", "text")}


if __name__ == "__main__":
    main()
