"""What is composed for charts, held against what each chart has at the composed version.

``../shared/charts`` lists the paths of each chart's values, and the objects that it renders by default.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.fields.cluster.stack_components import ComponentName as Name
from modelplane.api.inference_gateway import Backend, InferenceGateway
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.facts import GatewayFacts
from modelplane.compose.gateway import installed_gateway
from modelplane.compose.serving_stack import stack_flow
from modelplane.compose.serving_stack.component import Component, StackFacts
from modelplane.compose.serving_stack.table import COMPONENTS
from modelplane.compose.workload_kinds import capabilities
from support.goldens import GOLDENS

CHARTS = Path(__file__).resolve().parents[4] / "shared" / "charts"

WITHOUT_FACTS = {Name.DYNAMO, Name.MOUNTED_FILE_SYSTEM}
"""Components whose charts nobody has looked into."""

FREE_FORM = {
    "gateway-helm": ("config.envoyGateway",),
    "cluster-autoscaler": ("extraArgs", "rbac.serviceAccount.annotations"),
}
"""Maps whose keys a chart does not list: the configuration of what it installs."""

SWITCHED_OFF = {
    ("kserve-llmisvc-resources", "kserve.llmisvc.createGIECRDs"): (
        "inferencemodelrewrites.llm-d.ai",
        "inferenceobjectives.llm-d.ai",
        "inferencepools.inference.networking.k8s.io",
        "inferencepools.inference.networking.x-k8s.io",
    ),
}
"""Definitions that a chart renders by default, and not while a value is False."""

BUILT_IN = (
    "",
    *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "batch"),
    *("autoscaling", "policy", "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io"),
    *("coordination.k8s.io", "networking.k8s.io", "node.k8s.io", "resource.k8s.io"),
)
"""API groups of Kubernetes itself."""

WORKLOADS = ("apps/v1 Deployment", "apps/v1 DaemonSet", "apps/v1 StatefulSet")
"""What Helm waits for."""

CONFIRMED = {
    Name.ENVOY_GATEWAY: "gatewayclasses.gateway.networking.k8s.io",
    Name.NETWORK_OPERATOR: "nicclusterpolicies.mellanox.com",
}
"""Components that are installed once their controller confirms it in the status of an object of this kind."""


RENDERED_WITH = {Name.CLUSTER_AUTOSCALER: "autoDiscovery.clusterName"}
"""Components whose workload is rendered only with a value, which the cloud sets."""


@cache
def facts(chart: str, version: str) -> dict[str, Any]:
    """Return what a chart has; skip the test where that is not beside this checkout."""
    if not CHARTS.is_dir():
        pytest.skip(f"the facts of charts are not beside this checkout: no folder {CHARTS}")
    return dict(json.loads((CHARTS / f"{chart}-{version}.json").read_text()))


def rendered_definitions(chart: str, version: str) -> set[str]:
    """Return the names of the definitions that a chart renders by default."""
    return {
        line.split()[-1]
        for line in facts(chart, version)["rendered"]
        if line.split()[1] == "CustomResourceDefinition"
    }


def paths(values: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the path of each value that is not a map with values."""
    for key, value in values.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping) and value:
            yield from paths(value, f"{path}.")
        else:
            yield path


def at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path; None if there is none."""
    found: Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def unknown(chart: str, version: str, values: Mapping[str, Any]) -> list[str]:
    """Return the composed paths that a chart does not have."""
    known = set(facts(chart, version)["valuePaths"])
    free = FREE_FORM.get(chart, ())
    return [
        path
        for path in paths(values)
        if path not in known and not any(path == each or path.startswith(f"{each}.") for each in free)
    ]


EVERYTHING = tuple({"name": str(row.name), "enabled": True} for row in COMPONENTS)
SECRET = {"type": "Kubeconfig", "name": "east", "key": "kubeconfig", "namespace": "modelplane-system"}
TEMPLATE = {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}}
LEADER = {"role": "Leader", "nodePoolName": "gpu", "template": TEMPLATE}
ENGINE = {"name": "main", "members": [LEADER]}
PICKING = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "qwen-east", "namespace": "ml-team", "labels": {"modelplane.ai/cluster": "east"}},
    "spec": {"clusterName": "east", "serving": {"routing": "EndpointPicker"}, "engines": [ENGINE]},
}
STORAGE = {
    "name": "modelplane-rwx-fs",
    "provisioner": "file.csi.azure.com",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": True,
}


def stack(**spec: Any) -> ServingStack:
    """Return a ServingStack."""
    metadata = {"name": "east-stack", "namespace": "modelplane-system", "uid": "uid"}
    return decode_as(
        ServingStack, {"metadata": metadata, "spec": {"clusterName": "east", "secrets": [SECRET], **spec}}
    )


def as_ready(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with whatever status the controllers of the stack write."""
    conditions = [
        {"type": each, "status": "True", "reason": each, "observedGeneration": 1}
        for each in ("Ready", "Synced", "Accepted", "Programmed", "ResolvedRefs")
    ]
    status = {
        "conditions": conditions,
        "addresses": [{"value": "192.0.2.7"}],
        "state": "ready",
        "parents": [{"conditions": conditions}],
        "ancestors": [{"conditions": conditions}],
    }
    return {**manifest, "status": status}


def settled(*seen: str, **spec: Any) -> dict[str, Desired]:
    """Return the children of a stack once all of it is ready, on a cluster with some capabilities."""
    definitions = capabilities()
    found = {
        key: ({"kind": "CustomResourceDefinition", "metadata": {"name": definitions[key]}},)
        if key in seen
        else ()
        for key in definitions
    }
    observed: dict[str, Any] = {}
    required = {"gateway": (), "replicas": (PICKING,) if seen else (), **found}
    for _ in COMPONENTS:
        composed = stack_flow.compose(Request(stack(**spec), dict(observed), required, StackFacts()))
        assert isinstance(composed, Composition)
        children = {each.key: each for each in composed.children if isinstance(each, Desired)}
        observed = {key: as_ready(each.manifest) for key, each in children.items()}
    return children


def releases(children: Mapping[str, Desired]) -> dict[Name, tuple[str, str, dict[str, Any]]]:
    """Return chart, version and values of each component with a chart."""
    found = {}
    for row in COMPONENTS:
        if row.chart is not None and str(row.name) in children:
            spec = children[str(row.name)].manifest["spec"]["forProvider"]
            found[row.name] = (spec["chart"]["name"], spec["chart"]["version"], spec["values"])
    return found


ALL = {"components": EVERYTHING, "storageClass": STORAGE, "nvidiaDriverRoot": "/home/kubernetes/bin/nvidia"}
CLUSTERS = {
    "everything": ALL,
    "Standard": {},
    "Minimal": {"profile": "Minimal"},
}


def with_facts() -> list[Component]:
    """Return the components whose charts are known."""
    return [row for row in COMPONENTS if row.chart is not None and row.name not in WITHOUT_FACTS]


@pytest.mark.parametrize("seen", [(), ("inferencePool",)], ids=["bare", "with pools"])
@pytest.mark.parametrize("spec", CLUSTERS.values(), ids=CLUSTERS)
def test_each_composed_value_is_one_of_its_chart(spec: dict[str, Any], seen: tuple[str, ...]) -> None:
    composed = releases(settled(*seen, **spec))
    assert composed
    assert {
        name: found
        for name, (chart, version, values) in composed.items()
        if name not in WITHOUT_FACTS and (found := unknown(chart, version, values))
    } == {}


def _of_clouds() -> list[Any]:
    rows = {str(row.name): row for row in with_facts()}
    cases = []
    for name in GOLDENS.names("inference_cluster"):
        for child in GOLDENS.output(name).get("children", ()):
            for each in child.get("manifest", {}).get("spec", {}).get("components", ()):
                if each.get("values") and each["name"] in rows:
                    row = rows[each["name"]]
                    cases.append(pytest.param(row, each["values"], id=f"{name}: {row.name}"))
    return cases


@pytest.mark.parametrize(("row", "values"), _of_clouds())
def test_each_value_of_a_cloud_is_one_of_its_chart(row: Component, values: dict[str, Any]) -> None:
    assert row.chart is not None
    assert row.version is not None
    assert unknown(row.chart.name, row.version(stack().spec.versions), values) == []


def test_each_value_of_an_installed_gateway_is_one_of_its_chart() -> None:
    pool = {"loadBalancer": "MetalLB", "metallb": {"addressPool": "10.0.0.0/24"}}
    for backend, version in ((Backend.TRAEFIK, "40.0.0"), (Backend.ENVOY_GATEWAY, "")):
        settings = {"traefik": {"version": version, **pool}} if version else {}
        owner = decode_as(
            InferenceGateway,
            {"metadata": {"name": "default"}, "spec": {"backend": str(backend), **settings}},
        )
        row = installed_gateway.IMPLEMENTATIONS[backend]
        request = Request(owner, {}, {}, GatewayFacts())
        for child in installed_gateway.children(row, request, has_definitions=False):
            spec = child.manifest["spec"]["forProvider"]
            assert unknown(spec["chart"]["name"], spec["chart"]["version"], spec["values"]) == []


def test_charts_without_facts_are_those_that_are_listed() -> None:
    if not CHARTS.is_dir():
        pytest.skip(f"the facts of charts are not beside this checkout: no folder {CHARTS}")
    there = {path.name for path in CHARTS.glob("*.json")}
    missing = {
        row.name
        for row in COMPONENTS
        if row.chart is not None
        and row.version is not None
        and f"{row.chart.name}-{row.version(stack().spec.versions)}.json" not in there
    }
    assert missing == WITHOUT_FACTS


def _owners(composed: Mapping[Name, tuple[str, str, dict[str, Any]]]) -> dict[Name, set[str]]:
    """Return the definitions that each component owns, with the values that are composed."""
    owned = {}
    for name, (chart, version, values) in composed.items():
        if name in WITHOUT_FACTS:
            continue
        off = {
            each
            for (switched, path), definitions in SWITCHED_OFF.items()
            if switched == chart and at(values, path) is False
            for each in definitions
        }
        owned[name] = rendered_definitions(chart, version) - off
    return owned


def _closure(row: Component) -> set[Name]:
    rows = {each.name: each for each in COMPONENTS}
    return {row.name}.union(*(_closure(rows[name]) for name in row.after))


def _named_kinds(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the group and the kind of everything that names both, or is an object."""
    if isinstance(value, Mapping):
        if "kind" in value and ("group" in value or "apiVersion" in value):
            group = value["group"] if "group" in value else value["apiVersion"].rpartition("/")[0]
            yield str(group), str(value["kind"])
        for each in value.values():
            yield from _named_kinds(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named_kinds(each)


def _plural(group: str, kind: str) -> str:
    ending = "es" if kind.endswith(("s", "x")) else "s"
    name = f"{kind[:-1]}ies" if kind.endswith("y") and not kind.endswith("ay") else f"{kind}{ending}"
    return f"{name.lower()}.{group}"


def _foreign(children: Mapping[str, Desired], row: Component) -> set[str]:
    """Return the definitions of others that the values, the objects and the chart of a component need."""
    named: set[tuple[str, str]] = set()
    for key in row.keys:
        if key in children:
            manifest = children[key].manifest
            is_release = key == str(row.name) and row.chart is not None
            named.update(_named_kinds(manifest["spec"]["forProvider"]["values"] if is_release else manifest))
    if row.chart is not None and row.name not in WITHOUT_FACTS and str(row.name) in children:
        chart = children[str(row.name)].manifest["spec"]["forProvider"]["chart"]
        for line in facts(chart["name"], chart["version"])["rendered"]:
            version, kind = line.split()[:2]
            named.add((version.rpartition("/")[0], kind))
    return {_plural(group, kind) for group, kind in named if group not in BUILT_IN}


@pytest.mark.parametrize("seen", [(), ("inferencePool",)], ids=["bare", "with pools"])
@pytest.mark.parametrize("spec", CLUSTERS.values(), ids=CLUSTERS)
def test_each_kind_is_there_before_it_is_named(spec: dict[str, Any], seen: tuple[str, ...]) -> None:
    children = settled(*seen, **spec)
    owned = _owners(releases(children))
    gated = {capabilities()[each] for each in seen}
    missing = {}
    for row in COMPONENTS:
        if not any(key in children for key in row.keys):
            continue
        there = gated.union(*(owned.get(name, set()) for name in _closure(row)))
        if found := _foreign(children, row) - there:
            missing[row.name] = found
    assert missing == {}


def test_pools_are_named_where_a_picker_is_used() -> None:
    children = settled("inferencePool", **ALL)
    named = set(_named_kinds(children["envoy-gateway"].manifest["spec"]["forProvider"]["values"]))
    assert ("inference.networking.k8s.io", "InferencePool") in named


def test_each_definition_has_one_owner() -> None:
    owned = _owners(releases(settled("inferencePool", **ALL)))
    owners = Counter(each for definitions in owned.values() for each in definitions)
    assert [each for each, count in owners.items() if count > 1] == []
    assert not [each for each in owners if each in SHARED]


SHARED = {
    "inferencepools.inference.networking.k8s.io",
    "inferencepools.inference.networking.x-k8s.io",
    "inferenceobjectives.llm-d.ai",
    "inferencemodelrewrites.llm-d.ai",
}
"""Definitions of the inference extension and of llm-d's router, which KServe, the AI gateway, pickers and
others on the cluster use: no component may take them away."""


def test_each_component_has_a_proof_of_health() -> None:
    children = settled(**ALL)
    unproven = []
    for row in with_facts():
        chart, version, _ = releases(children)[row.name]
        rendered = facts(chart, version)["rendered"]
        if row.name in CONFIRMED:
            own = _owners(releases(children))
            assert CONFIRMED[row.name] in own[row.name]
        elif path := RENDERED_WITH.get(row.name):
            assert path in facts(chart, version)["valuePaths"]
        elif not any(line.startswith(WORKLOADS) for line in rendered):
            unproven.append(row.name)
    # Definitions and presets, which nothing runs for.
    assert unproven == [Name.AI_GATEWAY_CRDS, Name.KSERVE_CRDS, Name.KSERVE_PRESETS]


@pytest.mark.parametrize(
    ("name", "key"), [(Name.ENVOY_GATEWAY, "gateway-class"), (Name.NETWORK_OPERATOR, "nic-cluster-policy")]
)
def test_a_component_is_installed_once_its_controller_confirms_it(name: Name, key: str) -> None:
    children = settled(**ALL)
    ready = {each: as_ready(child.manifest) for each, child in children.items()}
    silent = {**ready, key: children[key].manifest}
    for observed, state in ((ready, "Installed"), (silent, "Installing")):
        required = {"gateway": (), "replicas": ()} | dict.fromkeys(capabilities(), ())
        composed = stack_flow.compose(Request(stack(**ALL), observed, required, StackFacts()))
        found = {each["name"]: each for each in composed.status["components"]}
        assert found[str(name)]["state"] == state, found[str(name)]
