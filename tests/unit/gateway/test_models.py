"""``models.json``: the names that lead to services, and for whose keys they count."""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelplane.api.inference_gateway import ModelAlias
from modelplane.gateway.module_files.models import AliasEntry, ModelTable, ServiceEntry, build_model_table


def service(name: str = "qwen", *aliases: str, namespace: str = "ml", **status: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-09-21T14:13:20Z"}
    endpoints: list[Any] = [{"selector": {"matchLabels": {}}}]
    return {
        "metadata": metadata,
        "spec": {"endpoints": endpoints, **({"aliases": list(aliases)} if aliases else {})},
        "status": status,
    }


def alias(name: str, service: str, *namespaces: str) -> ModelAlias:
    return ModelAlias(name=name, service=service, namespaces=namespaces)


def table(
    *services: dict[str, Any],
    granted: tuple[ModelAlias, ...] = (),
    former: ModelTable | None = None,
    with_keys: bool = True,
) -> ModelTable:
    return build_model_table(services, granted, former or ModelTable(), with_keys=with_keys)


def aliases(made: ModelTable) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.name, each.service, each.namespaces) for each in made.file.aliases]


def test_every_field_is_written_as_the_module_reads_it() -> None:
    made = table(service("qwen", "gpt-4o"), granted=(alias("fast", "ml/qwen", "web", "ml"),))
    assert json.loads(made.file.encode()) == {
        "services": [{"name": "ml/qwen", "created": 1790000000}],
        "aliases": [
            {"name": "fast", "service": "ml/qwen", "namespaces": ["ml", "web"]},
            {"name": "gpt-4o", "service": "ml/qwen", "namespaces": ["ml"]},
        ],
    }


def test_the_list_is_a_value() -> None:
    services = [service(name, "a", "b", namespace=each) for name in ("x", "y") for each in ("ml", "web")]
    granted = [alias("a", "ml/x", "web", "ml"), alias("a", "ml/x", "ml"), alias("0", "ml/x", "*")]
    first = table(*services, granted=tuple(granted))
    for seed in range(5):
        draw = random.Random(seed)  # noqa: S311 - the same orders each time
        draw.shuffle(services)
        draw.shuffle(granted)
        assert table(*services, granted=tuple(granted)).file == first.file


def test_a_name_that_a_service_gives_itself_counts_in_its_own_namespace_only() -> None:
    made = table(service("mine", "qwen", namespace="evil"), service("qwen"))
    assert aliases(made) == [("qwen", "evil/mine", ("evil",))]


def test_without_keys_only_names_for_everybody_count() -> None:
    granted = (alias("all", "ml/qwen", "web", "*"), alias("some", "ml/qwen", "web"))
    made = table(service("qwen", "own"), granted=granted, with_keys=False)
    assert aliases(made) == [("all", "ml/qwen", ("*",))]
    assert aliases(table(service("qwen", "own"), granted=granted)) == [
        ("all", "ml/qwen", ("*",)),
        ("own", "ml/qwen", ("ml",)),
        ("some", "ml/qwen", ("web",)),
    ]


@pytest.mark.parametrize(
    ("change", "listed"),
    [
        pytest.param({}, True, id="a service"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-10-01T00:00:00Z"}}, False, id="on its way out"),
        pytest.param({"metadata": {"namespace": "kube-system"}}, False, id="a reserved namespace"),
        pytest.param(
            {"metadata": {"namespace": "kube-system"}, "status": {"address": "http://g/kube-system/qwen"}},
            True,
            id="a reserved namespace, with a route from before",
        ),
        pytest.param({"metadata": {"creationTimestamp": None}}, True, id="without a time"),
    ],
)
def test_the_list_has_the_services_with_a_route(change: dict[str, Any], listed: bool) -> None:
    item = service()
    for part, fields in change.items():
        item[part] |= fields
    assert len(table(item).file.services) == listed


@pytest.mark.parametrize("written", ["c", ["no/slash"], [5], ["line\nbreak"], ["x" * 65], {"a": "b"}])
def test_a_service_with_unreadable_names_keeps_its_former_ones(written: Any) -> None:
    former = table(service("qwen", "a", "b"))
    broken = service("qwen")
    broken["spec"]["aliases"] = written
    assert table(broken, former=former) == former
    assert aliases(table(broken)) == []
    assert [each.name for each in table(broken).file.services] == ["ml/qwen"]
    # The names are known again once the gateway asks for keys.
    open_ = table(service("qwen", "a", "b"), with_keys=False)
    assert table(broken, former=open_) == former


def test_five_thousand_services_of_one_tenant_are_listed_in_linear_time() -> None:
    names = [f"name-{number}" for number in range(8)]
    services = [service(f"s-{number}", *names, namespace="evil") for number in range(5000)]
    # The time is stated in docs/reference/gateway.md; a quadratic step would take minutes.
    began = time.process_time()
    made = table(*services)
    assert (len(made.file.services), len(made.file.aliases)) == (5000, 40_000)
    assert time.process_time() - began < 30


def test_every_field_is_one_of_the_contract_which_the_module_refuses_others_of() -> None:
    readme = Path(__file__).parents[3] / "gateway-module" / "README.md"
    section = readme.read_text().partition("### models.json")[2].partition("\n### ")[0]
    (documented,) = (json.loads(each) for each in re.findall("```json\n(.*?)```", section, re.DOTALL))
    fields = {
        kind: {each.encode_name for each in msgspec.structs.fields(type_)}
        for kind, type_ in (("services", ServiceEntry), ("aliases", AliasEntry))
    }
    assert {kind: set(entries[0]) for kind, entries in documented.items()} == fields
