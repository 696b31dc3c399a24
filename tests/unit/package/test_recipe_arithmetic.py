"""The arithmetic on the pages of recipes: it follows the manifests, adds up, and says what was not run."""

import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.sizing.architecture import parse_architecture
from modelplane.sizing.loaded_weights import sum_weights
from support.recipe_checkpoints import RECIPE_CHECKPOINTS

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "examples" / "recipes"
PAGES = [*sorted(RECIPES.glob("*/README.md")), RECIPES.parent / "topologies" / "variants" / "README.md"]
TABLES = re.compile(r"((?:^\|.*\|\n)+)\n(There is room for|\*\*Too little)", re.MULTILINE)


@pytest.fixture
def arithmetic(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "package"))
    return importlib.import_module("recipe_arithmetic")


@pytest.mark.parametrize("name", RECIPE_CHECKPOINTS)
def test_the_checkpoints_are_those_that_are_published(name: str) -> None:
    published = RECIPE_CHECKPOINTS[name]
    model = parse_architecture(json.dumps(published.config).encode())
    found = sum_weights(model, published.tensors())
    assert found.total == published.total
    assert found.stored / 10**9 == pytest.approx(published.gigabytes, rel=0.01)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_page_adds_up_and_says_that_nothing_was_run(page: Path) -> None:
    text = page.read_text()
    if not any(page.parent.glob("*model-deployment*.yaml")) and page.parent.name != "variants":
        return
    assert "not been tested on GPUs" in re.sub(r"\s+", " ", text)
    tables = TABLES.findall(text)
    assert tables or "Not computed: " in text
    for table, verdict in tables:
        cells = [line.split(" | ") for line in table.splitlines()[2:]]
        _, engine, loaded, other, left, sequence = (float(row[1].replace(",", "")) for row in cells)
        assert engine - loaded - other == pytest.approx(left, abs=0.02)
        assert (left >= sequence) == (verdict == "There is room for")


def rows(text: str) -> dict[str, str]:
    return {
        cells[0].removeprefix("| "): cells[1]
        for line in text.splitlines()
        if len(cells := line.split(" | ")) == 3
    }


def test_the_flags_decide(arithmetic: Any, tmp_path: Path) -> None:
    folder = tmp_path / "recipe"
    shutil.copytree(RECIPES / "qwen3-8b", folder)
    before = arithmetic.block(folder)
    assert rows(before)["one sequence of 16,384 tokens"] == "2.25"
    manifest = folder / "model-deployment.yaml"
    text = manifest.read_text().replace("--max-model-len=16384", "--max-model-len=40960")
    manifest.write_text(text.replace("--gpu-memory-utilization=0.92", "--kv-cache-dtype=fp8"))
    after = arithmetic.block(folder)
    assert rows(after)["one sequence of 40,960 tokens"] == "2.81"
    assert "0.92 of the total, the default of vLLM" in after
    manifest.write_text(text)
    assert "**Too little by this estimate**, by 2.49 GiB" in arithmetic.block(folder)


def test_a_selector_decides_on_which_classes_an_engine_is_computed(arithmetic: Any, tmp_path: Path) -> None:
    folder = tmp_path / "recipe"
    shutil.copytree(RECIPES / "gpt-oss-120b", folder)
    assert re.findall(
        r"^\*\*(\S+), engine gpt-oss\*\*, on `(\S+)`", arithmetic.block(folder), re.MULTILINE
    ) == [
        ("gpt-oss-amd", "aks-mi300x-8x"),
        ("gpt-oss-nvidia", "gke-h100-1x-a3"),
    ]


def test_machines_of_each_provider_are_named(arithmetic: Any) -> None:
    text = arithmetic.block(RECIPES / "gpt-oss-120b")
    found = re.findall(r"^\| (\w+) \| `(\S+)` \| 1 (NVIDIA|AMD) ", text, re.MULTILINE)
    assert {class_ for _, class_, _ in found} <= set(load_catalogue().machines)
    assert [(provider, vendor) for provider, _, vendor in found] == [
        *((each, "AMD") for each in ("AKS", "Vultr", "own")),
        *((each, "NVIDIA") for each in ("EKS", "GKE", "AKS", "Nebius", "Vultr", "own")),
    ]


def test_a_page_keeps_what_is_around_the_arithmetic(arithmetic: Any) -> None:
    block = f"{arithmetic.BEGIN}\nnew\n{arithmetic.END}"
    first = arithmetic._spliced("# A\n\ntext\n", block)
    assert first == f"# A\n\ntext\n\n{block}\n"
    later = first.replace("new", "old") + "\n## More\n"
    assert arithmetic._spliced(later, block) == f"{first}\n## More\n"
