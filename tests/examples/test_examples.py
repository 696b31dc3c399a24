"""Every example is accepted, renders, and goes where its row says, or is refused with the diagnosis it shows.

``MODELPLANE_UPDATE_GOLDEN=1`` writes the diagnoses anew into the files of the ``does-not-fit`` folders.
"""

import hashlib
import json
import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from examples.planned import (
    EXAMPLES,
    Planned,
    applied,
    composed,
    desired,
    documents,
    files,
    place,
    planned,
    refusal,
)
from examples.rows import MISFITS, ROWS, Misfit, Row
from modelplane.api.kinds import KINDS, Kind
from modelplane.api.meta import GROUP, INFRASTRUCTURE_GROUP
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema import crd
from modelplane.api.schema.decode import decode, decode_as
from modelplane.cli.main import main
from modelplane.compose.composition import Composition
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.replica.backends.table import workload_key
from modelplane.crossplane.package.package_installation import build_installation
from modelplane.crossplane.package.prerequisites import build_prerequisites
from modelplane.local.examples import Example, list_examples

FILES = sorted(EXAMPLES.rglob("*.yaml"))
UPDATE = "MODELPLANE_UPDATE_GOLDEN"
DOCUMENTED = [
    EXAMPLES / "deploying-models" / name
    for name in ("model-deployment.yaml", "model-deployment-multinode.yaml")
]
DIGEST = "921a61202fbcae8f58c7c3ee406c08fb0835bc6b1ded238b858ca63044580a1d"
"""Of their text without blanks, which the documents had lost."""
FOREIGN = {
    ("argoproj.io/v1alpha1", "Application"),
    ("aws.m.upbound.io/v1beta1", "ClusterProviderConfig"),
    ("azure.m.upbound.io/v1beta1", "ClusterProviderConfig"),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
    ("gcp.m.upbound.io/v1beta1", "ClusterProviderConfig"),
    ("monitoring.coreos.com/v1", "PodMonitor"),
    ("nebius.m.upbound.io/v1beta1", "ClusterProviderConfig"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("v1", "ResourceQuota"),
    ("vultr.m.upbound.io/v1beta1", "ClusterProviderConfig"),
    *((each["apiVersion"], each["kind"]) for each in (*build_prerequisites(), *build_installation())),
}
"""Everything in the examples that is not ours."""


def _name(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def _ours(manifest: dict[str, Any]) -> bool:
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    return group == GROUP or group.endswith(f".{GROUP}")


def test_every_file_belongs_to_a_row() -> None:
    named = {path for row in ROWS for step in row.steps for path in files(step)}
    named |= {path for misfit in MISFITS for path in files((misfit.file, *misfit.fleet))}
    assert named == set(FILES)


def test_every_folder_says_what_it_shows() -> None:
    folders = {path.parent for path in FILES if path.parent.name != "does-not-fit"}
    assert sorted(_name(folder) for folder in folders if not (folder / "README.md").is_file()) == []


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_object_can_be_read(path: Path) -> None:
    for each in documents(path):
        if _ours(each):
            decode(each)


def test_the_documented_manifests_are_as_they_were_written() -> None:
    text = "".join(path.read_text() for path in DOCUMENTED)
    assert hashlib.sha256("".join(text.split()).encode()).hexdigest() == DIGEST


def test_what_is_not_ours_is_known() -> None:
    found = {
        (each["apiVersion"], each["kind"]) for path in FILES for each in documents(path) if not _ours(each)
    }
    assert found == FOREIGN


def test_every_kind_has_an_example() -> None:
    assert {each["kind"] for path in FILES for each in documents(path) if _ours(each)} == {
        kind.name for kind in KINDS
    }


def _declared(schema: dict[str, Any], path: str = "spec") -> Iterator[str]:
    """Yield the path of every field that a schema declares."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _declared(field, f"{path}.{name}")
    for items in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(items, dict):
            yield from _declared(items, f"{path}[]")


def _used(value: Any, schema: dict[str, Any], path: str = "spec") -> Iterator[str]:
    """Yield the path of every field of a schema that a value has."""
    declared, others = schema.get("properties", {}), schema.get("additionalProperties")
    if isinstance(value, dict):
        for name, item in value.items():
            if name in declared:
                yield f"{path}.{name}"
                yield from _used(item, declared[name], f"{path}.{name}")
            elif isinstance(others, dict):
                yield from _used(item, others, f"{path}[]")
    if isinstance(value, list) and "items" in schema:
        for item in value:
            yield from _used(item, schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", [each for each in KINDS if each.group == GROUP], ids=lambda kind: kind.name)
def test_every_field_has_an_example(kind: Kind) -> None:
    schema = crd.build_schema(kind)["properties"]["spec"]
    objects = [each for path in FILES for each in documents(path) if _ours(each)]
    used = {path for each in objects if each["kind"] == kind.name for path in _used(each["spec"], schema)}
    assert sorted(set(_declared(schema)) - used) == []


"""The warning that the example of this mistake gets for each of its two members."""


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_validate_accepts(path: Path) -> None:
    done = CliRunner().invoke(main, ["validate", str(path)])
    warned = [
        f"this version neither installs nor composes {each['kind']}"
        for each in documents(path)
        if str(each["apiVersion"]).startswith(f"{INFRASTRUCTURE_GROUP}/") and each["kind"] not in COMPOSERS
    ]
    assert done.exit_code == 0, done.output
    assert re.findall("(?:error|warning): .*: (this version .*):", done.output) == warned
    assert len(re.findall("error|warning:", done.output)) == len(warned), done.output


def test_validate_prints_nothing_about_all_of_them_together() -> None:
    done = CliRunner().invoke(main, ["validate", "--strict", str(EXAMPLES)])
    assert (done.exit_code, len(done.output.splitlines())) == (0, 1), done.output


NAMESPACES = {
    "05-scale-the-model": {"ml-team"},
    "06-lose-a-region": {"ml-team"},
    "getting-started": {"ml-team"},
    "gitops": {"argocd", "flux-system"},
    "reference": {"modelplane-system"},
}
"""Namespaces that exist before an example is applied: of an earlier step, or of an installation."""


@pytest.mark.parametrize("example", list_examples(), ids=lambda example: example.name)
def test_an_example_creates_its_namespaces_before_their_objects(example: Example) -> None:
    existing = {"default"} | NAMESPACES.get(example.name, set())
    for path in example.manifests:
        for item in documents(path):
            if item["kind"] == "Namespace":
                existing.add(item["metadata"]["name"])
            assert item["metadata"].get("namespace", "default") in existing, path


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_replicas_go_where_they_should(row: Row) -> None:
    placements = applied(row.steps).placements
    assert {name: planned(placement) for name, placement in placements.items()} == row.planned


@pytest.mark.parametrize("row", [row for row in ROWS if row.planned], ids=lambda row: row.name)
def test_plan_says_where(row: Row) -> None:
    """The first step, that is: a plan has no memory of an earlier one."""
    found = _plan(files(row.steps[0]))
    assert found == {name: row.planned[name] for name in found}
    assert found


def _plan(paths: Iterable[Path]) -> dict[str, Planned]:
    """Return what the command says of some files."""
    done = CliRunner().invoke(main, ["plan", "-o", "json", *map(str, paths)])
    return {
        each["name"]["name"]: Planned(
            tuple(place(replica["cluster"], _pools(replica["engines"])) for replica in each["replicas"]),
            tuple(refusal(found["cluster"], found["pool"], found["rule"]) for found in each["refusals"]),
            each["diagnosis"],
        )
        for each in json.loads(done.stdout)["deployments"]
    }


def _pools(engines: list[dict[str, Any]]) -> list[str]:
    return [member["pool"] for engine in engines for member in engine["members"]]


@pytest.mark.parametrize("misfit", MISFITS, ids=lambda misfit: misfit.file)
def test_what_does_not_fit_says_why(misfit: Misfit) -> None:
    [(_, placement)] = applied([(*misfit.fleet, misfit.file)]).placements.items()
    found = planned(placement)
    path = EXAMPLES / misfit.file
    if os.environ.get(UPDATE):
        path.write_text(_with_diagnosis(path.read_text(), found.sentence))
    assert found == Planned(misfit.places, misfit.refusals, _diagnosis(path.read_text()))


@pytest.mark.parametrize("misfit", MISFITS, ids=lambda misfit: misfit.file)
def test_plan_says_why(misfit: Misfit) -> None:
    paths = [*files((*misfit.fleet, misfit.file))]
    [found] = _plan(paths).values()
    assert found == Planned(misfit.places, misfit.refusals, _diagnosis(paths[-1].read_text()))


_DIAGNOSIS = re.compile(r"^# Diagnosis:\n((?:#   .*\n)+)", re.MULTILINE)


def _diagnosis(text: str) -> str:
    """Return the sentence that a file shows above its deployment."""
    [shown] = _DIAGNOSIS.findall(text)
    return " ".join(line.removeprefix("#").strip() for line in shown.splitlines())


def _with_diagnosis(text: str, sentence: str) -> str:
    lines = textwrap.wrap(sentence, 100, break_long_words=False, break_on_hyphens=False)
    shown = "# Diagnosis:\n" + "".join(f"#   {line}\n" for line in lines)
    return _DIAGNOSIS.sub(lambda _: shown, text)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_object_renders(row: Row) -> None:
    state = applied(row.steps)
    assert all(isinstance(composed(manifest, state), Composition) for manifest in state.objects)


@pytest.mark.parametrize("row", [row for row in ROWS if row.planned], ids=lambda row: row.name)
def test_every_replica_renders_what_runs_it(row: Row) -> None:
    state = applied(row.steps)
    for manifest in state.list_kind("ModelDeployment"):
        replicas = [each for each in state.of_kind_now("ModelReplica") if _is_of(each, manifest)]
        assert len(replicas) == len(row.planned[manifest["metadata"]["name"]].places)
        engines = decode_as(ModelDeployment, manifest).replica_template().engines
        wanted = ["Deployment" if len(engine.members) == 1 else "LeaderWorkerSet" for engine in engines]
        if row.name.endswith("kserve"):
            wanted = ["LLMInferenceService"] * len(engines)
        for replica in replicas:
            owner = decode_as(ModelReplica, replica)
            keys = [workload_key(owner, engine) for engine in owner.spec.engines]
            made = desired(composed(replica, state))
            assert [made[key]["kind"] for key in keys] == wanted


def _is_of(replica: Any, deployment: Any) -> bool:
    owners = replica["metadata"].get("ownerReferences", ())
    return deployment["metadata"]["uid"] in [each["uid"] for each in owners]
