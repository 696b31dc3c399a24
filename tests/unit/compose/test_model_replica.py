"""When a replica is ready, and what it says where it is not."""

from functools import partial
from typing import Any

import pytest

from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Keep, Unknown
from modelplane.compose.gateway.fleet_gateway import ReplicaLink
from modelplane.compose.replica.backends.replica_routes import build_route_objects
from modelplane.compose.replica.backends.workload import FORMER, Form, Workload
from support.replicas import blocked, cluster, composed, engine, gang, manifest, member, replica

PICKER = {"mode": "Unified", "routing": "EndpointPicker"}

GANG = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}


def _deployment(available: int, name: str = "d") -> dict[str, Any]:
    metadata, status = {"name": name}, {"availableReplicas": available, "updatedReplicas": available}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "status": status}


def _refused(kind: str) -> dict[str, Any]:
    conditions = [{"type": "Accepted", "status": "False", "reason": "NotAllowed", "message": "by listener"}]
    return {"kind": kind, "metadata": {"name": "r"}, "status": {"parents": [{"conditions": conditions}]}}


def _pod(name: str, message: str) -> dict[str, Any]:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": message}
    return {"metadata": {"name": name}, "status": {"conditions": [unscheduled]}}


def _said(composition: Composition) -> list[tuple[bool, str, str]]:
    return [(each.holds, each.reason, each.message) for each in composition.conditions]


def _ready(composition: Composition) -> tuple[bool, str, str]:
    assert composition.ready is composition.conditions[1].holds
    return _said(composition)[1]


def _has_served(*engines: dict[str, Any], **spec: Any) -> ModelReplica:
    condition = {
        "type": "ModelReady",
        "status": "True",
        "reason": "Serving",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return decode_as(ModelReplica, manifest(*engines, **spec) | {"status": {"conditions": [condition]}})


def test_both_phases_must_serve_and_the_one_that_does_not_is_named() -> None:
    owner = replica(
        engine("prefill", phase="Prefill"),
        engine("decode", phase="Decode"),
        serving={"mode": "PrefillDecode"},
    )
    observed = {
        "model-serving-prefill": _deployment(1),
        "model-serving-decode": _deployment(0),
        "epp": _deployment(1),
    }
    said = composed(owner, observed, **{"pods-decode": (_pod("p", "no node"),)})
    assert _ready(said) == (
        False,
        "ModelStarting",
        'engine decode is not serving yet on cluster "east": pod "p": no node',
    )


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param(
            {},
            (
                'LeaderWorkerSet "g" is waiting for its controller: check that the controller is '
                "running on the cluster"
            ),
            id="a controller that is not installed",
        ),
        pytest.param(
            {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}]},
            "exceeded quota: gpus",
            id="pods that are refused",
        ),
    ],
)
def test_a_workload_without_pods_says_why(status: dict[str, Any], why: str) -> None:
    found = {**GANG, "metadata": {"name": "g"}, "status": status}
    assert _ready(composed(replica(gang()), {"model-gang-qwen": found})) == (
        False,
        "ModelStarting",
        f'engine qwen is not serving yet on cluster "east": {why}',
    )


def test_a_gang_serves_once_a_whole_group_does() -> None:
    status = {"readyReplicas": 1, "updatedReplicas": 1}
    found = {**GANG, "metadata": {"name": "g"}, "status": status}
    assert _ready(composed(replica(gang()), {"model-gang-qwen": found})) == (
        True,
        "Serving",
        'every engine serves on cluster "east"',
    )


@pytest.mark.parametrize("shape", [engine, gang])
@pytest.mark.parametrize("edited", [False, True])
def test_what_serves_from_before_an_edit_serves_on_until_every_copy_has_it(shape: Any, edited: bool) -> None:
    def workload(owner: ModelReplica) -> Desired:
        [found] = [
            child
            for child in composed(owner).children
            if isinstance(child, Desired) and child.manifest["kind"] in ("Deployment", "LeaderWorkerSet")
        ]
        return found

    before, after = replica(shape(copies=2)), replica(shape(copies=3))
    there = workload(after if edited else before)
    counts = {"availableReplicas": 2, "readyReplicas": 2, "replicas": 2, "updatedReplicas": 2}
    endpoint = {"kind": "ModelEndpoint", "metadata": {"name": "e"}}
    observed = {there.key: {**there.manifest, "status": counts}, "endpoint": endpoint}
    said = composed(after, observed)
    assert _said(said)[:2] == [
        (True, "Updating", 'engine qwen is being updated on cluster "east"'),
        (True, "Serving", 'every engine serves on cluster "east"'),
    ]
    assert Keep("endpoint") in said.children
    observed[there.key] = {**workload(after).manifest, "status": dict.fromkeys(counts, 3)}
    assert _said(composed(after, observed))[0] == (
        True,
        "Accepted",
        'every engine is deployed on cluster "east"',
    )


def test_the_first_request_waits_for_the_picker() -> None:
    observed = {"model-serving-qwen": _deployment(1), "epp": _deployment(0)}
    said = composed(replica(serving=PICKER), observed, **{"picker-pods": (_pod("epp-0", "no node"),)})
    assert _ready(said) == (
        False,
        "ModelStarting",
        'no endpoint picker is running on cluster "east": pod "epp-0": no node',
    )


def test_a_replica_that_served_is_not_ready_without_its_pickers() -> None:
    observed = {"model-serving-qwen": _deployment(1), "epp": _deployment(0)}
    said = composed(_has_served(serving=PICKER), observed)
    assert _ready(said) == (False, "ModelStarting", 'no endpoint picker is running on cluster "east"')


def test_a_replica_serves_with_one_of_its_pickers() -> None:
    observed = {"model-serving-qwen": _deployment(1), "epp": _deployment(1)}
    assert _ready(composed(_has_served(serving=PICKER), observed))[:2] == (True, "Serving")


def test_a_drain_of_nodes_takes_one_picker_at_a_time() -> None:
    objects = build_route_objects(replica(serving=PICKER), ReplicaLink())
    children = {each.key: each.manifest for each in objects if isinstance(each, Desired)}
    picker, budget = children["epp"], children["epp-disruption"]
    assert picker["spec"]["replicas"] == 2
    assert budget["spec"]["selector"] == picker["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(("key", "kind"), [("model-route", "HTTPRoute"), ("inference-pool", "InferencePool")])
def test_what_the_gateway_refuses_does_not_serve(key: str, kind: str) -> None:
    observed = {"model-serving-qwen": _deployment(1), "epp": _deployment(1), key: _refused(kind)}
    assert _ready(composed(replica(serving=PICKER), observed)) == (
        False,
        "ModelStarting",
        f'the gateway of cluster "east" rejects {kind} "r": NotAllowed: by listener',
    )


def _cache(*clusters: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    source = {"source": "HuggingFace", "huggingFace": {"repo": "Qwen/Qwen3-8B", "sizeGiB": 20}}
    return (
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelCache",
            "metadata": {"name": "weights"},
            "spec": source,
            "status": {"clusters": list(clusters)},
        },
    )


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param((), 'there is no ModelCache "weights" in the namespace: create it', id="no cache"),
        pytest.param(
            _cache({"name": "west", "phase": "Ready"}),
            (
                'ModelCache "weights" does not cover cluster "east": see its status for the covered '
                "clusters, and why"
            ),
            id="a cache of other clusters",
        ),
        pytest.param(
            _cache({"name": "east"}), 'ModelCache "weights" is Pending on cluster "east"', id="no phase"
        ),
        pytest.param(
            _cache({"name": "east", "phase": "Failed", "message": "disk is full"}),
            'ModelCache "weights" is Failed on cluster "east": disk is full',
            id="the cache's own words",
        ),
    ],
)
def test_nothing_is_made_before_the_weights_are_there(found: Any, message: str) -> None:
    said = composed(replica(modelCacheRef={"name": "weights"}), cache=found)
    assert (said.children, _said(said)) == (
        (),
        [
            (False, "WaitingForCache", message),
            (False, "WaitingForModel", message),
            (False, "WaitingForBackend", "services send no requests to the replica until it is serving"),
        ],
    )


def test_a_cache_that_cannot_be_read_is_no_reason_for_anything() -> None:
    said = blocked(replica(modelCacheRef={"name": "weights"}), cache=Unknown("not allowed"))
    assert said.cause == 'cannot read ModelCache "weights": not allowed'


@pytest.mark.parametrize(
    ("owner", "capability", "message"),
    [
        pytest.param(
            replica(),
            "dra",
            'InferenceCluster "east" has no DRA, which claims of devices need: install it there',
            id="devices",
        ),
        pytest.param(
            replica(gang("a"), gang("b")),
            "leaderWorkerSet",
            'InferenceCluster "east" has no LeaderWorkerSet, which engines a, b need as a gang: '
            "install it there",
            id="gangs",
        ),
        pytest.param(
            replica(serving=PICKER),
            "inferencePool",
            'InferenceCluster "east" has no InferencePool, which the endpoint picker needs: install it there',
            id="a picker",
        ),
    ],
)
def test_a_cluster_that_cannot_run_it_gets_nothing_new_and_keeps_what_it_has(
    owner: ModelReplica, capability: str, message: str
) -> None:
    said = composed(owner, {"model-route": {}}, cluster=(cluster(capabilities={capability: False}),))
    assert (said.children, _said(said)[0]) == (
        (Keep("model-route"),),
        (False, "Unsupported", message),
    )


def test_what_a_cluster_can_do_is_waited_for() -> None:
    unknown = cluster()
    del unknown["status"]["capabilities"]
    said = composed(replica(gang()), cluster=(unknown,))
    assert (said.children, _said(said)[0]) == (
        (),
        (
            False,
            "WaitingForCluster",
            'not known yet whether InferenceCluster "east" has DRA, LeaderWorkerSet',
        ),
    )


def _config(*members: dict[str, Any]) -> tuple[str, str]:
    [child] = [
        child
        for child in composed(replica(engine("qwen", *members), serving=PICKER)).children
        if isinstance(child, Desired) and child.manifest["kind"] == "ConfigMap"
    ]
    return child.key, child.manifest["metadata"]["name"]


def test_another_configuration_of_the_picker_is_another_object() -> None:
    blocks = _config(member(args=["--block-size=32"])), _config(member(args=["--block-size=64"]))
    assert blocks[0][0] != blocks[1][0]
    assert blocks[0][1] != blocks[1][1]


def test_a_size_of_block_that_is_no_number_counts_as_the_usual_one() -> None:
    assert _config(member(args=["--block-size=$(SIZE)"])) == _config(member())


def _written(image: str = "vllm/vllm-openai:v0.23.0", **container: Any) -> ModelReplica:
    return replica(engine("qwen", member(image=image, **container)))


def _workload_of(owner: ModelReplica, observed: dict[str, Any]) -> dict[str, Any]:
    [child] = [
        each
        for each in composed(owner, observed).children
        if isinstance(each, Desired) and each.manifest["kind"] == "Deployment"
    ]
    return {child.key: child.manifest}


VLLM = "vllm/vllm-openai"
CHANGED: dict[Form, str] = {Form.V0_2: VLLM, Form.V0_3: VLLM, Form.V0_8: "lmsysorg/sglang"}
"""An engine whose pods have more fields since each form."""


@pytest.mark.parametrize("form", FORMER)
def test_what_an_earlier_version_wrote_is_replaced_only_for_an_edit(form: Form) -> None:
    owner, edited = (_written(f"{CHANGED[form]}:{tag}") for tag in ("v0.23.0", "v0.24.0"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("modelplane.compose.replica.backends.table.Workload", partial(Workload, form=form))
        earlier = _workload_of(owner, {})
    assert earlier != _workload_of(owner, {})
    assert _workload_of(owner, earlier) == earlier
    assert _workload_of(edited, earlier) == _workload_of(edited, {})


@pytest.mark.parametrize(
    ("container", "named"),
    [
        pytest.param({"image": "vllm/vllm-openai:v0.23.0"}, None, id="vLLM, the default"),
        pytest.param({"image": "lmsysorg/sglang:v0.5.12"}, "sglang", id="SGLang by its image"),
        pytest.param(
            {"image": "ours:1", "command": ["python3", "-m", "sglang.launch_server"]},
            "sglang",
            id="by its module",
        ),
        pytest.param(
            {"image": "ours:1", "command": ["sh", "-c", "exec sglang serve"]}, "sglang", id="in a script"
        ),
        pytest.param(
            {"image": "nvcr.io/nvidia/tensorrt-llm/release:1.2", "args": ["x"]},
            "trtllm-serve",
            id="TensorRT-LLM",
        ),
        pytest.param(
            {"image": "ours:1", "command": ["trtllm-serve", "m"]}, "trtllm-serve", id="by its program"
        ),
        pytest.param({"image": "ours/not-sglang:1"}, None, id="another image"),
    ],
)
def test_pods_name_the_engine_whose_metrics_the_picker_reads(
    container: dict[str, Any], named: str | None
) -> None:
    [written] = _workload_of(_written(**container), {}).values()
    assert written["spec"]["template"]["metadata"]["labels"].get("llm-d.ai/engine-type") == named
