"""Fleets under Crossplane, begun by the function of an earlier commit, continued by that of the working tree.

And the way back. An upgrade of the package replaces the function's process, and nothing else: so here only
that process changes, while Crossplane and what it keeps stay.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.labels import SERVED_MODEL, SPEC_HASH
from modelplane.compose.cluster.cluster_namespace import MADE
from support.checkouts import ROOT, environment
from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.manifests import (
    CACHE,
    DEPLOYMENT,
    SERVICE,
    TEAM,
    image,
    inference_cluster,
    model_cache,
    model_deployment,
    model_service,
)
from support.crossplane.objects import Object
from support.crossplane.scenarios import far, prepared

pytestmark = pytest.mark.kubernetes

GANG = f"{TEAM}/gang"
PASSING = {"resourceVersion", "managedFields", "generation", "observedGeneration"}
PASSING |= {"message", "lastTransitionTime", "users"}
"""Fields that may differ between versions: texts with the time of their change, and counters."""
ADDED = {SPEC_HASH, SERVED_MODEL, "watch", "celQuery", "managementPolicies", "llmInferenceService", *MADE}
ADDED |= {"modelplane.ai/owner-uid", "modelplane.ai/owner-namespace", "modelplane.ai/owner-name"}
ADDED |= {"modelplane.ai/owner-kind", "modelplane.ai/child", "clusterGateways"}
"""Annotations, labels of namespaces, and fields by which an object is observed, of one version only."""

NEW_TYPES = frozenset({"Announced", "RoutingReady", "RequestHeaderModifier"})
"""Types of conditions, and of filters of routes, that differ: each version adds its own name of a replica's
endpoint, and the later one sends and removes tokens."""

OF_ONE_VERSION = ("-crossplane-llminferenceservice-", "-disruption-qwen-", "modelplane-gateway-keys")
"""In the names of objects of one version only: the later one observes a definition on each cluster by them
and has a key for tokens, and the earlier one composes a budget for an engine of one pod, which forbids no
eviction."""


class Functions:
    """The function before and now; one of them acts."""

    def __init__(self, before: FunctionProcess, now: FunctionProcess) -> None:
        self.before = before
        self.now = now
        self.acting = before

    def run(self, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        """Answer as the one that acts."""
        return self.acting.run(request)


@pytest.fixture(scope="module")
def functions(earlier: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functions]:
    logs = tmp_path_factory.mktemp("functions")
    with (
        FunctionProcess(logs / "before", environment=environment(earlier)) as before,
        FunctionProcess(logs / "now", environment=environment(ROOT)) as now,
    ):
        yield Functions(before, now)


@pytest.fixture
def fleet(functions: Functions) -> Fleet:
    """A fleet that the earlier code has brought up: two replicas, a gang, a cache, a service."""
    functions.acting = functions.before
    fleet = prepared(Fleet(functions.run))
    fleet.cluster("a", kinds=("leaderworkersets.leaderworkerset.x-k8s.io",))
    fleet.apply(inference_cluster("a", nodes=5, storage="shared"))
    fleet.run_until_ready("InferenceCluster", "a")
    fleet.apply(model_cache(), model_service())
    fleet.run_until_ready("ModelCache", CACHE)
    weights = {"name": CACHE.partition("/")[2]}
    fleet.apply(
        model_deployment(replicas=2, modelCacheRef=weights),
        model_deployment(name=GANG, modelCacheRef=weights, engines=gang()),
    )
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, GANG)
    fleet.run_until_ready("ModelService", SERVICE)
    fleet.run_for(65)
    assert [len(far(fleet, kind)) for kind in ("Deployment", "LeaderWorkerSet")] == [2, 1]
    return fleet


def gang() -> list[Object]:
    """Return an engine on two nodes."""
    [engine] = model_deployment()["spec"]["engines"]
    [member] = engine["members"]
    return [
        {
            "name": "gang",
            "members": [
                {**member, "role": "Leader"},
                {**member, "role": "Worker", "worker": {"nodes": 1}},
            ],
        }
    ]


def objects(fleet: Fleet) -> dict[str, Object]:
    """Return everything that there is, on the control plane and on the clusters, by uid."""
    servers = {"": fleet.api} | {name: cluster.api for name, cluster in fleet.clusters.items()}
    return {
        f"{server}/{item['kind']}/{item['metadata']['name']}/{item['metadata']['uid']}": item
        for server, api in servers.items()
        for item in api.all()
        if not _is_new(item["metadata"]) and not _is_new(item.get("resourceRef")) and not _is_of_one_pod(item)
    }


def _is_of_one_pod(item: Object) -> bool:
    """Return True for the budget of an engine of one pod."""
    return item["kind"] == "PodDisruptionBudget" and not item["metadata"]["name"].startswith("gang-")


def changes(before: dict[str, Object], after: dict[str, Object], but: Iterable[str] = ()) -> list[str]:
    """Return what was created, deleted or changed, and how."""
    found = []
    passing = PASSING | ADDED | {*but}
    for name in sorted(before.keys() | after.keys()):
        both = (before.get(name), after.get(name))
        texts = [yaml.safe_dump(lasting(each, passing)).splitlines() for each in both]
        if difference := list(difflib.unified_diff(*texts, n=1, lineterm="")):
            found.append("\n".join((name, *difference)))
    return found


def lasting(value: Any, passing: Collection[str]) -> Any:
    """Return what of an object is the same in both versions; an empty mapping counts as none."""
    if isinstance(value, Mapping):
        kept = {key: lasting(each, passing) for key, each in value.items() if key not in passing}
        return {key: each for key, each in kept.items() if each != {}}
    if isinstance(value, list):
        return [lasting(each, passing) for each in value if not _is_new(each)]
    return value


def _is_new(value: Any) -> bool:
    """Return True for what the later version alone writes: a condition, a filter, a name of either."""
    if not isinstance(value, Mapping):
        return False
    name = str(value.get("name", ""))
    return value.get("type") in NEW_TYPES or any(part in name for part in OF_ONE_VERSION)


def test_who_takes_over_changes_nothing_and_neither_does_the_way_back(
    fleet: Fleet, functions: Functions
) -> None:
    for acting in (functions.now, functions.before):
        before = objects(fleet)
        functions.acting = acting
        fleet.look_again()
        fleet.run_for(65)
        assert changes(before, objects(fleet)) == []


def test_who_takes_over_goes_on_with_what_the_other_has_made(fleet: Fleet, functions: Functions) -> None:
    functions.acting = functions.now
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=3)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=90)
    fleet.run_for(65)
    before = objects(fleet)
    functions.acting = functions.before
    fleet.look_again()
    fleet.run_for(65)
    # The way back replaces the pods of a replica that was begun since: 0.3.0 gives vLLM no time to finish.
    assert changes(before, objects(fleet), but=("args",)) == []
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=1)
    fleet.run_until(lambda: len(fleet.named("ModelReplica")) == 2, within=300)
    functions.acting = functions.now
    fleet.delete("ModelDeployment", GANG)
    fleet.run_until(lambda: not far(fleet, "LeaderWorkerSet"), within=300)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=90)
    assert len(far(fleet, "Deployment")) == 1


@pytest.mark.parametrize("steps", [3, 30])
def test_an_edit_that_one_begins_is_finished_by_the_other(
    fleet: Fleet, functions: Functions, steps: int
) -> None:
    replicas = {
        name: fleet.get("ModelReplica", name)["metadata"]["uid"] for name in fleet.named("ModelReplica")
    }
    for acting, wanted in ((functions.now, "vllm:new"), (functions.before, "vllm:newer")):
        engines = image(fleet.get("ModelDeployment", DEPLOYMENT), wanted)
        fleet.edit("ModelDeployment", DEPLOYMENT, engines=engines)
        for _ in range(steps):
            fleet.simulation.step(until=fleet.clock.now + 60)
        functions.acting = acting
        fleet.run_until(lambda wanted=wanted: images(fleet) == {wanted}, within=300)
        fleet.run_until_ready("ModelDeployment", DEPLOYMENT, GANG, within=300)
    assert fleet.deletions("ModelReplica") == []
    assert {
        name: fleet.get("ModelReplica", name)["metadata"]["uid"] for name in fleet.named("ModelReplica")
    } == replicas


def images(fleet: Fleet) -> set[str]:
    """Return the images of the deployment's workloads."""
    return {item["spec"]["template"]["spec"]["containers"][0]["image"] for item in far(fleet, "Deployment")}
