"""The pages that the benchmark of a newcomer's path follows have the lines that it takes from them."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "newcomer.py"


@pytest.fixture
def newcomer() -> Iterator[ModuleType]:
    specification = importlib.util.spec_from_file_location("newcomer", BENCHMARK)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["newcomer"] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules["newcomer"]


def test_the_page_about_a_model_of_ones_own_names_one_path_to_replace(newcomer: ModuleType) -> None:
    manifest, *_ = newcomer.blocks(newcomer.OWN_MODEL, "yaml")
    deploy, *_ = newcomer.blocks(newcomer.OWN_MODEL, "console")
    assert manifest.count(newcomer.MODEL) == 1
    assert deploy.splitlines()[1] == "kubectl apply -f mine.yaml"


def test_the_page_of_the_lost_region_has_the_steps_that_are_timed(newcomer: ModuleType) -> None:
    page = newcomer.ROOT / "examples" / newcomer.REGION / "README.md"
    begin = [block.split()[:2] for block in newcomer.blocks(page, "console")]
    assert begin == [
        ["modelplane", "down"],
        ["ADDRESS=$(kubectl", "get"],
        ["kubectl", "wait"],
        ["kubectl", "apply"],
        ["modelplane", "up"],
        ["kubectl", "delete"],
    ]


def test_what_up_prints_without_the_heading_ends_the_benchmark(newcomer: ModuleType) -> None:
    assert newcomer.to_paste("A\n\nNext:\n\n  one\n  two\n\nMore", "Next") == ["one", "two"]
    with pytest.raises(SystemExit, match="there is no heading 'Next'"):
        newcomer.to_paste("A\n", "Next")
