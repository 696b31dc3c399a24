"""The serving stack, beyond what the golden files show."""

from typing import Any

import pytest

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Keep, Request, Unknown
from modelplane.compose.serving_stack import stack_flow
from modelplane.compose.serving_stack.component import StackFacts

SECRET = {"type": "Kubeconfig", "name": "east", "key": "kubeconfig", "namespace": "modelplane-system"}
DEFINITION = ({"kind": "CustomResourceDefinition", "metadata": {"name": "inferencepools"}},)
DELETED = ({"metadata": {"name": "inferencepools", "deletionTimestamp": "2026-01-01T00:00:00Z"}},)
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def replica(**serving: Any) -> dict[str, Any]:
    """Return a replica of the cluster."""
    template = {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}}
    member = {"role": "Leader", "nodePoolName": "gpu", "template": template}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": "qwen-east",
            "namespace": "ml-team",
            "labels": {"modelplane.ai/cluster": "east"},
        },
        "spec": {
            "clusterName": "east",
            "serving": serving,
            "engines": [{"name": "main", "members": [member]}],
        },
    }


PICKING = (replica(routing="EndpointPicker"),)
PLAIN = (replica(routing="Unified"),)


def release(name: str, *, values: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return a release of the stack as it is observed."""
    return {
        "apiVersion": "helm.m.crossplane.io/v1beta1",
        "kind": "Release",
        "metadata": {"name": name},
        "spec": {"forProvider": {"values": values or {}}},
        **(status or READY),
    }


def compose(
    observed: dict[str, Any], required: dict[str, Any], *components: dict[str, Any], status: Any = None
) -> dict[str, Desired | Keep]:
    """Return the children of a stack with profile Standard, by key."""
    owner = {
        "metadata": {"name": "east-stack", "namespace": "modelplane-system", "uid": "uid"},
        "spec": {"clusterName": "east", "secrets": [SECRET], "components": components},
        "status": status or {},
    }
    known = {"gateway": (), "leaderWorkerSet": (), "inferencePool": (), "replicas": (), **required}
    composed = stack_flow.compose(Request(decode_as(ServingStack, owner), observed, known, StackFacts()))
    assert isinstance(composed, Composition)
    return {child.key: child for child in composed.children}


def values(child: Desired | Keep) -> dict[str, Any]:
    assert isinstance(child, Desired)
    return dict(child.manifest["spec"]["forProvider"]["values"])


RUNNING = {name: release(name) for name in ("envoy-gateway", "ai-gateway-crds", "ai-gateway")}
HOOKED = {
    **RUNNING,
    "ai-gateway": release("ai-gateway", status={"conditions": [{"type": "Ready", "status": "False"}]}),
    "envoy-gateway": release(
        "envoy-gateway", values={"config": {"envoyGateway": {"extensionManager": {"hooks": {}}}}}
    ),
}
GONE = Unknown("connection refused")


@pytest.mark.parametrize(
    ("observed", "required", "has_hooks"),
    [
        pytest.param(
            RUNNING, {"inferencePool": DEFINITION, "replicas": PICKING}, True, id="a picker is used"
        ),
        pytest.param(
            RUNNING, {"inferencePool": DEFINITION, "replicas": PLAIN}, False, id="no picker is used"
        ),
        pytest.param(RUNNING, {"inferencePool": DEFINITION}, False, id="no replica is there"),
        pytest.param(RUNNING, {"replicas": PICKING}, False, id="the definition is missing"),
        pytest.param(
            RUNNING, {"inferencePool": DELETED, "replicas": PICKING}, False, id="the definition is deleted"
        ),
        pytest.param(
            RUNNING,
            {"inferencePool": GONE, "replicas": PICKING},
            True,
            id="an unread definition takes none away",
        ),
        pytest.param(
            {"envoy-gateway": release("envoy-gateway")},
            {"inferencePool": DEFINITION, "replicas": PICKING},
            False,
            id="the AI gateway does not run yet, and Envoy Gateway would wait for it",
        ),
        pytest.param(
            HOOKED,
            {"inferencePool": DEFINITION, "replicas": PICKING},
            True,
            id="an AI gateway that fails later takes none away",
        ),
    ],
)
def test_envoy_gateway_asks_the_ai_gateway_only_for_pickers(
    observed: dict[str, Any], required: dict[str, Any], has_hooks: bool
) -> None:
    config = values(compose(observed, required)["envoy-gateway"])["config"]["envoyGateway"]
    assert ("extensionManager" in config) is has_hooks
    if has_hooks:
        assert config["extensionManager"]["backendResources"] == [
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "version": "v1"}
        ]


def test_the_ai_gateway_has_two_controllers() -> None:
    assert values(compose(RUNNING, {})["ai-gateway"]) == {"controller": {"replicaCount": 2}}


def test_the_gateway_of_others_confirms_an_envoy_gateway_that_is_asked_for() -> None:
    theirs = {"kind": "Gateway", "metadata": {"name": "inference-gateway"}}
    owner = {
        "metadata": {"name": "east-stack", "namespace": "modelplane-system", "uid": "uid"},
        "spec": {
            "clusterName": "east",
            "secrets": [SECRET],
            "components": [{"name": "envoy-gateway", "enabled": True}],
        },
    }
    required = {"gateway": (theirs,), "leaderWorkerSet": (), "inferencePool": (), "replicas": ()}
    composed = stack_flow.compose(
        Request(decode_as(ServingStack, owner), dict(RUNNING), required, StackFacts())
    )
    assert isinstance(composed, Composition)
    states = {each["name"]: each["state"] for each in composed.status["components"]}
    assert (states["envoy-gateway"], states["gateway"]) == ("Installed", "Present")


KSERVE = {"name": "kserve", "enabled": True}
OFF = {"name": "kserve", "enabled": False}
NEEDED = {
    name: release(name) for name in ("cert-manager", "envoy-gateway", "leader-worker-set", "kserve-crds")
}
INSTALLED = {"components": [{"name": "kserve", "state": "Installed"}]}
SWITCHED = {"kserve": {"llmisvc": {"createGIECRDs": False}}}
FOREIGN = (
    "Helm cannot install it: CustomResourceDefinition exists and cannot be imported into the current release"
)


@pytest.mark.parametrize(
    ("observed", "status", "expected"),
    [
        pytest.param({}, None, SWITCHED, id="a new release makes no shared definitions"),
        pytest.param(
            {"kserve": release("kserve", values=SWITCHED)},
            INSTALLED,
            SWITCHED,
            id="a release without them stays without them",
        ),
        pytest.param(
            {"kserve": release("kserve")},
            INSTALLED,
            {},
            id="an earlier release keeps them: Helm would delete them",
        ),
        pytest.param({}, INSTALLED, {}, id="a release that cannot be seen may have them"),
        pytest.param(
            {
                "kserve": release(
                    "kserve",
                    status={"conditions": [{"type": "Synced", "status": "False", "message": FOREIGN}]},
                )
            },
            INSTALLED,
            SWITCHED,
            id="a release that Helm refused for them has none",
        ),
    ],
)
def test_kserve_makes_no_definition_that_others_use(
    observed: dict[str, Any], status: Any, expected: dict[str, Any]
) -> None:
    assert values(compose({**NEEDED, **observed}, {}, KSERVE, status=status)["kserve"]) == expected


def test_kserve_with_the_definitions_of_pools_stays_until_they_are_handed_over() -> None:
    observed = {**NEEDED, "kserve": release("kserve")}
    assert compose(observed, {}, OFF, status=INSTALLED)["kserve"] == Keep("kserve")
    handed_over = {**NEEDED, "kserve": release("kserve", values=SWITCHED)}
    assert "kserve" not in compose(handed_over, {}, OFF, status=INSTALLED)
