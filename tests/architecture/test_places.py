"""Each thing that is often added takes one module and one row: the diffs that CONTRIBUTING shows prove it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from architecture.place_proofs import PROOFS

ROOT = Path(__file__).parents[2]
DIFFS = sorted((ROOT / "tests" / "architecture" / "places").glob("*.diff"))
CLOUD, FACT, DEPARTURE = (
    next(diff for diff in DIFFS if diff.stem == name) for name in ("cloud", "fact", "departure")
)
_IMPORT = re.compile(r"(from \S+ )?import ")


class _Change(NamedTuple):
    """What a diff does to one file."""

    path: str
    is_new: bool
    hunks: tuple[tuple[str, ...], ...]
    """The lines that each hunk adds or removes, with their sign."""

    @property
    def rows(self) -> int:
        """The number of hunks that are more than an import."""
        return sum(not all(_IMPORT.match(line[1:]) for line in hunk) for hunk in self.hunks)


def _changes(diff: Path) -> Iterator[_Change]:
    for part in diff.read_text(encoding="utf-8").split("diff --git ")[1:]:
        head, *hunks = re.split(r"^@@ .*\n", part, flags=re.MULTILINE)
        path = head.split()[0].removeprefix("a/")
        lines = (tuple(line for line in hunk.splitlines() if line[:1] in {"+", "-"}) for hunk in hunks)
        yield _Change(path, "new file mode" in head, tuple(lines))


def _removed(changes: list[_Change]) -> list[str]:
    """Return the lines that changes remove, but for imports, to which a name was added."""
    lines = [line for each in changes for hunk in each.hunks for line in hunk]
    return [line for line in lines if line[0] == "-" and not _IMPORT.match(line[1:])]


def test_every_diff_has_a_proof_and_is_shown() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {diff.stem for diff in DIFFS} == set(PROOFS)
    assert [diff.name for diff in DIFFS if f"](tests/architecture/places/{diff.name})" not in page] == []


@pytest.mark.parametrize(
    "diff", [each for each in DIFFS if each not in {CLOUD, FACT, DEPARTURE}], ids=lambda diff: diff.stem
)
def test_an_addition_is_one_module_at_most_and_one_row(diff: Path) -> None:
    changes = [each for each in _changes(diff) if each.path.startswith("src/")]
    assert len([each for each in changes if each.is_new]) <= 1
    [table] = [each for each in changes if not each.is_new]
    assert table.rows == 1
    assert _removed(changes) == []


def test_a_cloud_is_a_module_its_types_and_rows() -> None:
    changes = list(_changes(CLOUD))
    api, clouds = "src/modelplane/api/", "src/modelplane/compose/clouds/"
    assert {each.path for each in changes if each.is_new} == {
        f"{api}clouds/meadow_settings.py",
        f"{api}clouds/meadow_cluster.py",
        f"{clouds}meadow.py",
    }
    assert {each.path: each.rows for each in changes if not each.is_new} == {
        f"{api}clouds/cloud_rows.py": 2,
        f"{api}clouds/cluster_origin.py": 2,
        f"{api}inference_class.py": 2,
        f"{api}kinds.py": 1,
        f"{clouds}kinds.py": 2,
        f"{clouds}table.py": 1,
    }
    assert _removed(changes) == []


def test_a_fact_is_a_field_its_source_a_row_and_what_reads_it() -> None:
    changes = list(_changes(FACT))
    compose, controllers = "src/modelplane/compose/", "src/modelplane/controllers/"
    assert {each.path: (each.is_new, each.rows) for each in changes} == {
        f"{compose}facts.py": (False, 1),
        f"{compose}cache/model_cache.py": (False, 1),
        f"{controllers}fact_sources.py": (False, 2),  # one is an import in a list
        f"{controllers}manager.py": (False, 1),
    }
    assert _removed(changes) == []


def test_a_reason_to_leave_is_a_row_its_rule_and_the_field_that_asks_for_it() -> None:
    changes = list(_changes(DEPARTURE))
    scheduler = "src/modelplane/scheduler/"
    assert {each.path: (each.is_new, each.rows) for each in changes} == {
        "docs/explanation/replica-lifecycle.md": (False, 1),
        "src/modelplane/api/model_deployment.py": (False, 1),
        "src/modelplane/compose/deployment/scheduler_input.py": (False, 1),
        f"{scheduler}departures.py": (False, 1),
        f"{scheduler}existing/retention.py": (False, 1),
        f"{scheduler}types.py": (False, 1),
    }
    assert _removed(changes) == []


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_an_addition_is_followed_to_every_derived_place(diff: Path, tmp_path: Path) -> None:
    for folder in ("src", "docs/reference", "docs/explanation"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", str(diff)], cwd=tmp_path, check=True)
    paths = os.pathsep.join([str(tmp_path / "src"), str(ROOT / "tests")])
    proof = subprocess.run(
        [sys.executable, "-m", "architecture.place_proofs", diff.stem],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (proof.returncode, proof.stderr) == (0, "")
