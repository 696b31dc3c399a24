"""The catalogue's data: complete, consistent, valid, and as the examples have it."""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.schema.decode import convert, encode
from modelplane.catalogue import descriptions
from modelplane.catalogue.catalogue_files import load_catalogue, read
from modelplane.catalogue.entries import UNVERIFIED, Cards, Figure, Machine, Machines
from modelplane.catalogue.inference_classes import build_class
from modelplane.offline.files.yaml_text import to_yaml
from support.manifests import joined, said

EXAMPLES = Path(__file__).parents[3] / "examples"
SHOWN = Path(__file__).parent / "expected.yaml"
KNOWN = load_catalogue()
CARDS, MACHINES = read("cards.yaml", Cards), read("machines.yaml", Machines)
PARTITIONS = [each for card in CARDS.cards for each in card.partitions]


def manifest(name: str) -> dict[str, Any]:
    return encode(build_class(KNOWN, KNOWN.machines[name]))


def test_names_are_unique() -> None:
    names = Counter([each.name for each in CARDS.cards] + [each.name for each in MACHINES.machines])
    assert [name for name, count in names.items() if count > 1] == []


def test_no_two_entries_are_the_same_machine() -> None:
    wholes = Counter(
        msgspec.json.encode(msgspec.structs.replace(each, name="x")) for each in MACHINES.machines
    )
    assert [whole for whole, count in wholes.items() if count > 1] == []


def test_every_machine_has_a_card_and_every_card_a_machine() -> None:
    assert {each.card for each in MACHINES.machines} == set(KNOWN.cards)
    for machine in MACHINES.machines:
        KNOWN.find_partition(machine)


def test_every_partition_with_a_figure_has_a_machine() -> None:
    used = {(each.card, each.partition) for each in MACHINES.machines if each.partition}
    assert used == {(card.name, each.profile) for card in CARDS.cards for each in card.partitions}


def test_every_figure_has_a_source_that_is_listed() -> None:
    listed = [each.sources for each in CARDS.cards]
    listed += [each.sources for each in MACHINES.machines]
    listed += [each.sources for each in PARTITIONS]
    assert {source for each in listed for source in each} <= set(KNOWN.sources)


def test_an_entry_without_another_source_names_the_figures_in_doubt() -> None:
    wrong = [each.name for each in CARDS.cards if UNVERIFIED in each.sources and not each.unverified]
    assert wrong == []


def test_a_machine_of_a_cloud_has_what_its_recipe_needs() -> None:
    of_clouds = [each for each in MACHINES.machines if each.cloud]
    assert [each.name for each in of_clouds if not (each.type and each.accelerator)] == []
    assert {each.name for each in of_clouds if each.preset} == {
        each.name for each in of_clouds if each.cloud is Cloud.NEBIUS
    }
    own = [each for each in MACHINES.machines if not each.cloud]
    assert [each.name for each in own if each.type or each.accelerator or each.preset] == []


def test_every_cloud_and_every_taint_of_its_nodes_is_there() -> None:
    assert {each.cloud for each in MACHINES.machines if each.cloud} == set(Cloud) == set(KNOWN.taints)


def test_every_class_is_valid_without_a_warning() -> None:
    assert said(joined(*(to_yaml(manifest(name)) for name in KNOWN.machines))) == []


def test_a_class_declares_what_its_recipe_attaches() -> None:
    for name, machine in KNOWN.machines.items():
        spec, partition = manifest(name)["spec"], KNOWN.find_partition(machine)
        per_card = partition.per_card if partition else 1
        assert (name, spec["devices"][0]["count"]) == (name, machine.count * per_card)
        if machine.cloud:
            recipe = spec["provisioning"][spec["provisioning"]["provider"].lower()]
            assert recipe["accelerator"] == {"type": machine.accelerator, "count": machine.count}


def test_the_classes_are_as_expected() -> None:
    """The four of the design, and one of each sort."""
    expected = list(yaml.safe_load_all(SHOWN.read_text()))
    assert [manifest(each["metadata"]["name"]) for each in expected] == expected


@functools.cache
def _examples() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the classes of the examples that have the name and the cloud of one in the catalogue."""
    return {
        (str(path.relative_to(EXAMPLES)), each["metadata"]["name"]): each["spec"]
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
        if each and each.get("kind") == "InferenceClass" and _is_known(each)
    }


def _is_known(class_: dict[str, Any]) -> bool:
    machine = KNOWN.machines.get(class_["metadata"]["name"])
    cloud = class_["spec"].get("provisioning", {}).get("provider")
    return machine is not None and machine.cloud == cloud


DIFFERENT: dict[str, set[Any]] = {
    "provisioning.eks.instanceType": {"g6.2xlarge"},
    "provisioning.aks.diskSizeGb": {100},
    "provisioning.nebius.diskSizeGb": {100},
    "devices.gpu.capacity.memory.value": {"140Gi"},
}
"""Values of examples that the catalogue has otherwise: a larger size or disk, and a floor for the memory."""


def _missing(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where a value does not say what another one says."""
    if isinstance(wanted, list):
        wanted = {each["name"]: each for each in wanted}
        found = {each["name"]: each for each in found or ()}
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            below = found.get(key) if isinstance(found, dict) else None
            yield from _missing(value, below, f"{path}.{key}" if path else key)
    elif wanted != found and wanted not in DIFFERENT.get(path, ()):
        yield f"{path}: {wanted}, not {found}"


@pytest.mark.parametrize(("path", "name"), _examples())
def test_a_class_says_what_the_example_of_its_name_says(path: str, name: str) -> None:
    example = {key: value for key, value in _examples()[path, name].items() if key != "description"}
    assert list(_missing(example, manifest(name)["spec"])) == []


def test_the_examples_of_the_design_are_compared() -> None:
    compared = {name for _, name in _examples()}
    assert {"gke-l4-1x-g2", "h200-8x-ib", "eks-h200-8x-p5en", "nebius-h100-8x", "aks-h100-8x"} <= compared


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"name": "Upper"}, id="a name that no object can have"),
        pytest.param({"count": 0}, id="no card"),
        pytest.param({"efa": 65}, id="more devices than a class may have"),
        pytest.param({"colour": "red"}, id="an unknown field"),
        pytest.param({"unverified": ["mass"]}, id="an unknown figure"),
        pytest.param({"sources": []}, id="no source"),
    ],
)
def test_an_entry_that_does_not_match_the_schema_is_refused(wrong: dict[str, Any]) -> None:
    entry = {"name": "x", "card": "l4", "count": 1, "sources": ["O"]}
    assert convert(entry, Machine).unverified == ()
    with pytest.raises(msgspec.ValidationError):
        convert(entry | wrong, Machine)


def test_a_class_says_which_of_its_figures_are_unverified() -> None:
    doubtful = {each.name for each in MACHINES.machines if descriptions.list_unverified(KNOWN, each)}
    annotated = {name for name in KNOWN.machines if "annotations" in manifest(name)["metadata"]}
    assert annotated == doubtful
    assert manifest("h100-pcie-1x")["metadata"]["annotations"] == {
        "modelplane.ai/unverified": f"{Figure.MEMORY}, {Figure.PRODUCT}"
    }


def test_the_comments_have_the_source_the_figure_that_works_and_the_taints() -> None:
    observed = KNOWN.sources["O"]
    assert list(descriptions.list_comments(KNOWN, KNOWN.machines["gke-gb200-4x-a4x"])) == [
        "Memory: the driver publishes 189471Mi, so selectors ask for at most 185Gi.",
        "Source A: aiconfigurator, system files (2026-08-21).",
        f"Source O: {observed.text} ({observed.date}).",
        "Source P: the cloud's documentation.",
        "Nodes are arm64: images must support it.",
        "Taint of the nodes: nvidia.com/gpu=present:NoSchedule. Pods tolerate it.",
        "Taint of the nodes: kubernetes.io/arch=arm64:NoSchedule. List it in the taints of the node pool.",
        "A node is one tray of the rack, whose NVLink domain has 18 nodes. Smaller domains are sold too.",
    ]
