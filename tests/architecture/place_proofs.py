"""Proofs that an invented row reaches every place that is derived from its table.

``test_places.py`` runs each, by its name, over a copy of the tree to which a diff of ``places/`` was applied.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from modelplane.api.conditions.reasons import ROWS
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.cli.main import main
from modelplane.compose import guards
from modelplane.compose.clouds.flow import DEFINITION_KEY
from modelplane.compose.composition import Blocked, Composition, Desired, Request
from modelplane.compose.deployment import scheduler_input
from modelplane.compose.kinds import COMPOSERS, Composer
from modelplane.compose.readiness import is_ready
from modelplane.controllers.clusters.watches import child_kinds
from modelplane.controllers.fact_sources import FactSources
from modelplane.controllers.manager import Manager
from modelplane.crossplane.package.metadata import Registry, Version
from modelplane.crossplane.package.package_contents import packages
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import list_control_plane_rules
from modelplane.kubelet.engines.launchers import check_image
from modelplane.scheduler import (
    Cluster,
    Device,
    Fleet,
    PlacedEngine,
    PlacedMember,
    Pool,
    Replica,
    ResolvedRequest,
    Role,
    schedule,
)
from modelplane.scheduler.departures import Cause
from support.manifests import DEPLOYMENT, validated
from support.replicas import composed, engine, member, replica

NAME = "gke-l4-16x-g2"
"""The invented machine."""


def kind() -> None:
    """Prove that the kind is composed, watched on clusters, permitted there, and read."""
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "engines", "namespace": "ml-team"},
    }
    child = Desired("autoscaler", autoscaler, is_ready, "east")
    rules = [rule for each in cluster_requirements.build_manifests() for rule in each.get("rules", ())]
    assert "horizontalpodautoscalers" in {resource.plural for resource in child_kinds()}
    assert "horizontalpodautoscalers" in {plural for rule in rules for plural in rule["resources"]}
    assert child.ready(autoscaler)


def backend() -> None:
    """Prove that the backend's engines, and no others, get its workload under its key."""
    exclusive = member()
    exclusive["template"]["metadata"] = {"annotations": {"example.com/exclusive": "true"}}
    children = composed(replica(engine("a", exclusive), engine("b"))).children
    workloads = {
        child.key: child.manifest["spec"]["strategy"]["type"]
        for child in children
        if isinstance(child, Desired) and child.manifest["kind"] == "Deployment"
    }
    assert workloads == {"model-recreated-a": "Recreate", "model-serving-b": "RollingUpdate"}


def runnable() -> None:
    """Prove that the manager starts the control loop, after all others."""
    client: Any = None  # nothing is sent
    loops = Manager(client, proxy=None, dial=str)._control_loops()
    assert [loop.name for loop in loops][-1] == "census"


def command() -> None:
    """Prove that help lists the command, and that it runs."""
    assert "Print the namespaces that no model may be in." in CliRunner().invoke(main, ["--help"]).output
    assert "modelplane-system" in CliRunner().invoke(main, ["namespaces"]).output.splitlines()


def rule() -> None:
    """Prove that the objects of the rule's kind, and no others, are warned of."""
    problems = validated(DEPLOYMENT.replace("vllm-openai:v0.23.0", "vllm-openai:latest")).problems
    assert ["the tag latest moves" in problem.message for problem in problems] == [True]
    assert validated(DEPLOYMENT).problems == ()


def launcher() -> None:
    """Prove that the image is known, and that the refusal of another names it."""
    image = "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9"
    assert check_image({"image": image}, host_commands=False) is None
    refused = check_image({"image": "example.com/unheard"}, host_commands=False)
    assert refused is not None
    assert "text-embeddings-inference" in refused.message


def machine() -> None:
    """Prove that the machine is listed with its doubt, and that its class is shown."""
    listed, shown = (
        CliRunner().invoke(main, ["classes", *each]).output for each in (["list"], ["show", NAME])
    )
    [row] = [each for each in listed.splitlines() if each.startswith(NAME)]
    assert (row.split()[1:3], row.endswith("U: count")) == (["GKE", "g2-standard-192"], True)
    [class_] = yaml.safe_load_all(shown)
    assert class_["spec"]["provisioning"]["gke"]["machineType"] == "g2-standard-192"
    assert [each["count"] for each in class_["spec"]["devices"]] == [16]


def cloud() -> None:
    """Prove that an InferenceCluster of the cloud is composed down to its managed resources."""
    name, composer = "MeadowCluster", COMPOSERS["MeadowCluster"]
    origin = {"source": "Meadow", "meadow": {"field": "north"}}
    pool = {"name": "gpu", "className": "l4", "nodeCount": 2}
    recipe = {"flavor": "l4", "accelerator": {"type": "nvidia-l4", "count": 1}}
    class_ = {
        "metadata": {"name": "l4"},
        "spec": {
            "provisioning": {"provider": "Meadow", "meadow": recipe},
            "devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com"}],
        },
    }
    fleet = {"metadata": {"name": "c"}, "spec": {"cluster": origin, "nodePools": [pool]}}
    made = _made(COMPOSERS["InferenceCluster"], fleet, {"class-l4": (class_,)})["meadow-cluster"]
    assert made["spec"]["nodePools"][0]["flavor"] == "l4"
    definition = {f"{DEFINITION_KEY}example.com/provider-meadow": ({"metadata": {"name": "flocks"}},)}
    first = _made(composer, made, definition)
    assert list(first) == ["cluster"]
    seen = {"cluster": {**first["cluster"], "status": {"atProvider": {"id": "h-1"}}}}
    assert _made(composer, made, definition, seen)["nodepool-gpu"]["spec"]["forProvider"]["herd"] == "h-1"
    permitted = {plural for rule in list_control_plane_rules() for plural in rule.resources}
    assert {"herds", "flocks", "meadowclusters"} <= permitted
    assert "meadow" in {package.repository for package in packages(Registry(), Version("1.2.3"))}
    assert name in {row.kind for row in ROWS}
    assert guards.is_guarded(name)


def fact() -> None:
    """Prove that the source tells its kind the fact, and no other kind, and that it decides."""
    client: Any = None  # nothing is sent
    facts = FactSources(Manager(client, proxy=None, dial=str)._sources(is_local=False))
    cache = {"metadata": {"name": "c", "namespace": "ml"}, "spec": {"source": "HuggingFace"}}
    owner = decode_as(COMPOSERS["ModelCache"].type, cache)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MODELPLANE_STAGING_PAUSED", "the link is full")
        request = Request(owner, {}, {}, facts.of("ModelCache", owner))
        other = facts.of("ModelReplica", replica())
    assert COMPOSERS["ModelCache"].compose(request) == Blocked("nothing is downloaded now: the link is full")
    assert other == COMPOSERS["ModelReplica"].facts()


def departure() -> None:
    """Prove that of two replicas the one made before the time leaves, and its replacement has a place."""
    manifest = {**yaml.safe_load(DEPLOYMENT)}
    manifest["metadata"]["uid"] = "uid"
    manifest["spec"] |= {"replicas": 2, "replaceBefore": "2026-06-02T00:00:00Z"}
    wanted = scheduler_input.read_deployment(decode_as(ModelDeployment, manifest), None)
    pool = Pool("l4", 4, (Device("gpu", "gpu.nvidia.com", 1, device_class_name="gpu"),))
    claims = (ResolvedRequest("gpu", "gpu", 1, ()),)
    placed = (PlacedEngine("qwen", 1, (PlacedMember(Role.STANDALONE, "l4", 1, claims),)),)
    replicas = tuple(
        Replica("ml-team", name, "uid", "qwen", "east", index, placed, ready=True, created=created)
        for index, (name, created) in enumerate(
            {"old": "2026-06-01T00:00:00+00:00", "young": "2026-06-03T00:00:00+00:00"}.items()
        )
    )
    east = Cluster("east", gateway_address="192.0.2.1", pools=(pool,))
    placement = schedule(Fleet((east,), replicas), wanted)
    assert {(each.replica, each.role.value, each.cause) for each in placement.assignments} == {
        ("old", "Leaves", next(cause for cause in Cause if cause.name == "AGED")),
        ("young", "Stays", None),
        ("", "New", None),
    }
    page = (Path("docs") / "explanation" / "replica-lifecycle.md").read_text(encoding="utf-8")
    rows = [
        line.split(" | ")[0].removeprefix("| ")
        for line in page.splitlines()
        if line.endswith(("| Yes |", "| No |"))
    ]
    assert rows == [cause.value.title for cause in Cause]


def _made(
    composer: Composer,
    manifest: dict[str, Any],
    required: dict[str, Any],
    observed: dict[str, Any] | None = None,
) -> dict[str, Any]:
    request = Request(decode_as(composer.type, manifest), observed or {}, required, composer.facts())
    composition = composer.compose(request)
    assert isinstance(composition, Composition)
    return {each.key: each.manifest for each in composition.children if isinstance(each, Desired)}


PROOFS = {
    proof.__name__: proof
    for proof in (kind, backend, runnable, command, rule, launcher, machine, cloud, fact, departure)
}

if __name__ == "__main__":
    PROOFS[sys.argv[1]]()
