"""Golden cases are read as they were written: patches of a base, and programs by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from support.document_patches import REMOVED, Like, apply, diff, is_same
from support.goldens import Case, Goldens

NAMES = st.sampled_from(("name", "key", "keep", "metadata", "a", "b", "example.org/a", "a[0]", "type"))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2),
    st.just(1.0),
    st.sampled_from(("", "a", "b", "0", "1\n2\n", " x: #")),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4))
)
DOCUMENTS = st.dictionaries(NAMES.filter(lambda name: "[" not in name), VALUES, max_size=4)
PROGRAM = "".join(f"echo {number}\n" for number in range(12))
SPEC: dict[str, Any] = {
    "replicas": 1,
    "containers": [{"name": "engine", "args": ["--a", "--b"]}, {"name": "proxy", "args": []}],
}


@given(DOCUMENTS, DOCUMENTS)
@example({"name": {"a[0]": None}}, {"name": {}})  # a field that is gone and that no path can name
def test_a_patch_makes_exactly_the_document_of_its_base(
    base: dict[str, Any], document: dict[str, Any]
) -> None:
    assert is_same(apply(base, diff(base, document)), document)


@pytest.mark.parametrize(
    ("document", "patch"),
    [
        pytest.param({**SPEC, "replicas": True}, {"replicas": True}, id="another type"),
        pytest.param({"replicas": 1}, {"containers": REMOVED}, id="a field that is gone"),
        pytest.param(
            {**SPEC, "containers": [{"name": "engine", "args": ["--a", "--c"]}, SPEC["containers"][1]]},
            {"containers[engine].args[1]": "--c"},
            id="an item by its name, and one by its position",
        ),
        pytest.param(
            {**SPEC, "containers": [SPEC["containers"][0], {"name": "log"}, SPEC["containers"][1]]},
            {"containers[log after engine]": {"name": "log"}},
            id="an item in its place",
        ),
        pytest.param({**SPEC, "example.org/a": 1}, {"[example.org/a]": 1}, id="a name that is not a word"),
    ],
)
def test_a_patch_has_only_what_differs(document: dict[str, Any], patch: dict[str, Any]) -> None:
    assert diff(SPEC, document) == patch


def test_what_is_like_another_is_written_by_its_difference() -> None:
    settings = {f"field-{number}": "x" * 20 for number in range(8)}
    east = {"name": "east", "settings": settings}
    west = {"name": "west", "settings": {**settings, "field-3": "y"}}
    assert diff({"clusters": [east]}, {"clusters": [east, west]}) == {
        "clusters[west after east]": Like("east"),
        "clusters[west].settings.field-3": "y",
    }


def test_a_patch_of_what_is_gone_names_the_path() -> None:
    with pytest.raises(ValueError, match=r"the base has nothing at containers\[log\].image"):
        apply(SPEC, {"containers[log].image": "x"})


@pytest.fixture
def cases() -> dict[str, Case]:
    spec = {**SPEC, "command": ["sh", "-c", PROGRAM], "notes": ["x" * 80, "y" * 80, "z" * 80]}
    first = Case("It is the first.", "", {"owner": spec}, {"children": [spec]})
    more = Case(
        "It has more.", "first", {"owner": {**spec, "replicas": 2}}, {"children": [{**spec, "replicas": 2}]}
    )
    return {"kind/first": first, "kind/more": more}


@pytest.fixture
def goldens(tmp_path: Path, cases: dict[str, Case]) -> Goldens:
    goldens = Goldens(tmp_path)
    goldens.write(cases)
    return goldens


def test_cases_are_read_as_they_were_written(goldens: Goldens, cases: dict[str, Case]) -> None:
    assert goldens.with_outputs({name: goldens.output(name) for name in goldens.names()}) == cases
    assert goldens.files(cases) == goldens.present()
    assert (goldens.root / "composition/kind/more.yaml").read_text() == (
        "reason: It has more.\nbase: first\ninput:\n  owner.replicas: 2\noutput:\n  children[0].replicas: 2\n"
    )


def test_a_program_is_stored_once_and_goes_with_its_last_case(
    goldens: Goldens, cases: dict[str, Case]
) -> None:
    [program] = (goldens.root / "programs").iterdir()
    assert program.read_text() == PROGRAM
    goldens.write({name: replace(case, input={}, output={}) for name, case in cases.items()})
    assert list((goldens.root / "programs").iterdir()) == []


def test_a_case_that_no_other_needs_is_written_as_a_patch(goldens: Goldens, cases: dict[str, Case]) -> None:
    whole = {"kind/other": replace(cases["kind/more"], base="")}
    assert goldens.files(cases | whole)["composition/kind/other.yaml"] == (
        "reason: It has more.\nbase: more\ninput: {}\noutput: {}\n"
    )


def test_a_base_of_a_base_has_none(goldens: Goldens, cases: dict[str, Case]) -> None:
    chain = {
        "kind/third": replace(cases["kind/more"], base="more"),
        "kind/fourth": replace(cases["kind/more"], base="third"),
    }
    goldens.write(cases | chain)
    assert goldens.input("kind/third") == cases["kind/more"].input
    with pytest.raises(ValueError, match="kind/more must be a whole case"):
        goldens.input("kind/fourth")


def test_a_base_that_does_not_exist_is_named(goldens: Goldens) -> None:
    (goldens.root / "composition/kind/first.yaml").unlink()
    with pytest.raises(ValueError, match="no golden case has the name kind/first"):
        goldens.input("kind/more")
