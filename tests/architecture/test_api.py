"""The kind rule: a kind has the same name everywhere, and has everything that a kind has."""

import re
from pathlib import Path

import pytest

from modelplane.api import labels
from modelplane.api.conditions.reasons import ROWS
from modelplane.api.kinds import KINDS
from modelplane.api.meta import GROUP
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.kinds import COMPOSERS

ROOT = Path(__file__).resolve().parents[2]


EVERY_KIND = (
    "src/modelplane/api/**/{module}.py",
    "docs/reference/{module}.md",
    "package/crds/{group}_{plural}.yaml",
)
COMPOSED = (
    "src/modelplane/compose/**/{composing}.py",
    "tests/golden/composition/{module}",
    "package/crossplane/configuration/definitions/{group}_{plural}.yaml",
    "package/crossplane/configuration/compositions/{group}_{plural}.yaml",
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_has_its_name_everywhere(kind):
    places = EVERY_KIND + (COMPOSED if kind.name in COMPOSERS else ())
    # A cloud is a module.
    composing = kind.module
    if kind.module in {recipe.type.__module__.rpartition(".")[2] for recipe in RECIPES.values()}:
        composing = f"clouds/{kind.module.removesuffix('_cluster')}"
    elif kind.group != GROUP:
        # A component is a row.
        composing = f"{kind.module}/table"
    paths = [
        place.format(module=kind.module, group=kind.group, plural=kind.plural, composing=composing)
        for place in places
    ]
    assert [path for path in paths if not any(ROOT.glob(path))] == []


def test_a_kind_and_its_module_have_the_same_name():
    between_words = "(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    words = {kind.module: re.sub(between_words, "_", kind.name).lower() for kind in KINDS}
    assert words == {kind.module: kind.module for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_page_of_a_kind_that_nothing_acts_on_says_so(kind):
    page = (ROOT / "docs" / "reference" / f"{kind.module}.md").read_text(encoding="utf-8")
    assert ("nothing acts on it" in page) == (kind.name not in COMPOSERS)


def test_every_kind_that_is_composed_is_a_kind():
    assert set(COMPOSERS) <= {kind.name for kind in KINDS}


def test_every_reason_is_on_the_page_of_conditions():
    page = (ROOT / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")
    missing = [
        reason
        for _, reason in ROWS
        if f"`{reason}`{' **warning**' if reason.warns else ''}<br>{reason.meaning} | " not in page
    ]
    assert missing == []


def test_a_label_key_of_ours_is_written_in_one_place():
    values = [value for value in vars(labels).values() if isinstance(value, str)]
    known = [value for value in values if re.fullmatch(f"{labels.PREFIX}[a-z-]+", value)]
    sources = [
        path
        for path in (ROOT / "src" / "modelplane").rglob("*.py")
        if path.relative_to(ROOT).as_posix() != "src/modelplane/api/labels.py"
    ]
    repeated = [
        f"{path.relative_to(ROOT)}: {key}"
        for path in sources
        for key in known
        if f'"{key}"' in path.read_text(encoding="utf-8")
    ]
    assert repeated == []
