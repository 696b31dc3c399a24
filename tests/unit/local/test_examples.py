"""The examples that come with Modelplane, found by name."""

from pathlib import Path

import pytest

from modelplane.host.errors import LocalError
from modelplane.local import examples

ROOT = Path(__file__).parents[3]


def test_a_checkout_reads_its_own_folder() -> None:
    assert examples.find_root() == ROOT / "examples"


def test_every_folder_with_manifests_and_a_page_is_an_example() -> None:
    folders = {path.parent for path in (ROOT / "examples").rglob("*.yaml")}
    assert {each.folder for each in examples.list_examples()} == {
        folder for folder in folders if (folder / "README.md").exists()
    }


def test_no_two_examples_answer_to_one_name() -> None:
    known = examples.list_examples()
    for each in known:
        for name in (each.name, each.name.lstrip("0123456789").removeprefix("-")):
            assert [other for other in known if other.is_named(name)] == [each]


@pytest.mark.parametrize("name", ["01-first-answer", "first-answer"])
def test_the_number_of_a_step_may_be_left_out(name: str) -> None:
    found = examples.find(name)
    assert (found.name, found.title) == ("01-first-answer", "First answer")
    assert [path.name for path in found.manifests] == [
        "1-namespace.yaml",
        "2-model-deployment.yaml",
        "3-model-service.yaml",
    ]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/", "../examples/01-first-answer", "recipes/kimi-k2", "recipes", "topologies", "1"],
)
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(LocalError, match=r"^unknown example "):
        examples.find(name)


def test_a_misspelled_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(LocalError) as refused:
        examples.find("kimi2")
    assert str(refused.value) == (
        'unknown example "kimi2": did you mean "kimi-k2"? `modelplane example` lists the examples'
    )
