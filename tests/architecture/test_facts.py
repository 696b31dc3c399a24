"""Facts of the shell: each is of one kind, from one source, and what all kinds share names none of them."""

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.meta import kind_name
from modelplane.compose.composition import Blocked, NoFacts, Request
from modelplane.compose.kinds import COMPOSERS, Composer
from modelplane.controllers import reconciler
from modelplane.controllers.fact_sources import FactSource
from modelplane.controllers.manager import Manager
from modelplane.controllers.reconciler import Reconciler

MOST = 6
"""Of the fields of a request, and of what a reconciler is made of."""

WITH_FACTS = [row for row in COMPOSERS.values() if row.facts is not NoFacts]
WORDS = {word.lower() for kind in KINDS for word in re.findall("[A-Z][a-z]+", kind.name)} - {"model"}


def _sources() -> tuple[FactSource, ...]:
    client: Any = None  # nothing is sent
    return Manager(client, proxy=None, dial=str)._sources(is_local=False)


def test_a_request_has_no_field_of_one_kind() -> None:
    fields = Request.__struct_fields__
    assert len(fields) <= MOST
    assert [field for field in fields if WORDS & set(field.split("_"))] == []


def test_a_reconciler_names_no_kind() -> None:
    assert len(inspect.signature(Reconciler).parameters) <= MOST
    tree = ast.parse(Path(reconciler.__file__).read_text(encoding="utf-8"))
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert named & {kind_name(row.type) for row in COMPOSERS.values()} == set()


@pytest.mark.parametrize("row", WITH_FACTS, ids=lambda row: row.name)
def test_facts_are_of_one_kind_and_may_all_be_unknown(row: Composer) -> None:
    assert [other.name for other in WITH_FACTS if other.facts is row.facts] == [row.name]
    assert isinstance(row.facts, type)
    assert [field.name for field in msgspec.structs.fields(row.facts) if field.required] == []
    asked = {each for each in vars(sys.modules[row.facts.__module__]).values() if get_origin(each) is Request}
    assert {owner for owner, facts in map(get_args, asked) if facts is row.facts} == {row.type}


def test_each_kind_has_one_source_that_returns_its_facts() -> None:
    sources = _sources()
    assert len({source.kind for source in sources}) == len(sources)
    for source in sources:
        returned = get_type_hints(source.of)["return"]
        told = {returned, *get_args(returned)} & {row.facts for row in WITH_FACTS}
        assert told == {COMPOSERS[kind_name(source.kind)].facts}, source


@pytest.mark.parametrize("row", COMPOSERS.values(), ids=lambda row: row.name)
def test_facts_in_doubt_decide_nothing(row: Composer) -> None:
    request: Request[Any, Any] = Request(None, {}, {}, Blocked("cannot be read"))
    assert row.compose(request) == Blocked("cannot be read")
