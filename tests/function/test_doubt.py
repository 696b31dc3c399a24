"""Nothing is deleted on doubt: whatever Crossplane shows or fails to show, what is there stays."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.compose.kinds import COMPOSERS
from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.manifests import (
    CACHE,
    DEPLOYMENT,
    ENDPOINT,
    GATEWAY,
    SERVICE,
    inference_cluster,
    model_cache,
    model_deployment,
    model_endpoint,
    model_service,
)
from support.crossplane.objects import Key, condition
from support.crossplane.protobuf import struct
from support.crossplane.scenarios import prepared
from support.plain_objects import copied

WHOLE = (
    ("InferenceCluster", "a"),
    ("InferenceCluster", "b"),
    ("InferenceGateway", GATEWAY),
    ("ModelCache", CACHE),
    ("ModelDeployment", DEPLOYMENT),
    ("ModelEndpoint", ENDPOINT),
    ("ModelService", SERVICE),
)
Distortion = Callable[[fnv1.RunFunctionRequest], None]
GARBAGE: dict[str, Any] = {
    "apiVersion": 7,
    "kind": None,
    "metadata": {"name": ["x"], "labels": "none"},
    "spec": [],
    "status": 3,
}


class Distorting:
    """Calls the function with requests that are not what they should be, while it is told to."""

    def __init__(self, function: FunctionProcess) -> None:
        self._function = function
        self.distort: Distortion | None = None

    def __call__(self, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        if self.distort is not None:
            self.distort(request)
            for resource in _objects(request):
                _as_new(resource)
        return self._function.run(request)


@pytest.fixture(scope="module")
def run(function: FunctionProcess) -> Distorting:
    return Distorting(function)


@pytest.fixture(scope="module")
def whole(run: Distorting) -> Fleet:
    """A fleet with something of every kind, all of it ready; every test leaves it like that."""
    fleet = prepared(Fleet(run))
    for name in "ab":
        fleet.cluster(name)
        fleet.apply(inference_cluster(name, storage="shared"))
    fleet.run_until_ready("InferenceCluster", "a", "b")
    fleet.run_until_ready("InferenceGateway", GATEWAY, within=70)
    fleet.apply(model_service(), model_cache(), model_endpoint(), model_deployment(replicas=3))
    fleet.run_until(lambda: is_ready(fleet), within=120)
    fleet.run_for(100)
    return fleet


def is_ready(fleet: Fleet) -> bool:
    """Whether all of it is."""
    return all(fleet.is_true(kind, name) for kind, name in WHOLE)


def _objects(request: fnv1.RunFunctionRequest) -> Iterator[fnv1.Resource]:
    yield request.observed.composite
    yield from request.observed.resources.values()
    for found in request.required_resources.values():
        yield from found.items


def _as_new(resource: fnv1.Resource) -> None:
    """Say that an object is another version: one that the function knows it does not read again."""
    metadata = resource.resource.fields.get("metadata")
    if metadata is not None and metadata.HasField("struct_value"):
        version = sha256(resource.SerializeToString(deterministic=True)).hexdigest()
        metadata.struct_value.update({"resourceVersion": version})


def nothing_fetched(request: fnv1.RunFunctionRequest) -> None:
    request.required_resources.clear()


def one_is_missing(request: fnv1.RunFunctionRequest) -> None:
    for key in sorted(request.required_resources)[-1:]:
        del request.required_resources[key]


def garbage_fetched(request: fnv1.RunFunctionRequest) -> None:
    for found in request.required_resources.values():
        for item in found.items:
            item.resource.CopyFrom(struct(GARBAGE))


def nothing_in_what_was_fetched(request: fnv1.RunFunctionRequest) -> None:
    for found in request.required_resources.values():
        for item in found.items:
            item.resource.Clear()


def without_spec(request: fnv1.RunFunctionRequest) -> None:
    for found in request.required_resources.values():
        for item in found.items:
            item.resource.fields.pop("spec", None)


def owner_of_another_version(request: fnv1.RunFunctionRequest) -> None:
    request.observed.composite.resource.update({"apiVersion": "modelplane.ai/v2"})


def owner_without_a_spec(request: fnv1.RunFunctionRequest) -> None:
    request.observed.composite.resource.fields.pop("spec", None)


def owner_with_null_fields(request: fnv1.RunFunctionRequest) -> None:
    for field in request.observed.composite.resource.fields["spec"].struct_value.fields.values():
        field.null_value = 0  # type: ignore[assignment]  # the enum's only value


def children_without_status(request: fnv1.RunFunctionRequest) -> None:
    for child in request.observed.resources.values():
        child.resource.fields.pop("status", None)


def children_with_a_senseless_status(request: fnv1.RunFunctionRequest) -> None:
    for child in request.observed.resources.values():
        child.resource.update(
            {"status": {"conditions": "none", "atProvider": {"manifest": 7}, "clusters": 1}}
        )


def endless(levels: int = 150) -> dict[str, Any]:
    """Return what is nested more deeply than anything is read."""
    item: dict[str, Any] = {}
    for _ in range(levels):
        item = {"of": item}
    return item


def children_nested_without_end(request: fnv1.RunFunctionRequest) -> None:
    for child in request.observed.resources.values():
        child.resource.update({"status": endless()})


def fetched_nested_without_end(request: fnv1.RunFunctionRequest) -> None:
    for found in request.required_resources.values():
        for item in found.items:
            item.resource.update({"status": endless()})


DISTORTIONS = (
    children_nested_without_end,
    fetched_nested_without_end,
    nothing_fetched,
    one_is_missing,
    garbage_fetched,
    nothing_in_what_was_fetched,
    without_spec,
    owner_of_another_version,
    owner_without_a_spec,
    owner_with_null_fields,
    children_with_a_senseless_status,
)


@pytest.mark.parametrize(
    "distortion", [pytest.param(each, id=each.__name__.replace("_", " ")) for each in DISTORTIONS]
)
def test_nothing_goes_while_requests_make_no_sense(
    whole: Fleet, run: Distorting, distortion: Distortion
) -> None:
    assert lost_during(whole, run, distortion) == []


def test_nothing_goes_while_it_cannot_be_seen_how_children_are(whole: Fleet, run: Distorting) -> None:
    assert lost_during(whole, run, children_without_status) == []


def lost_during(fleet: Fleet, run: Distorting, distortion: Distortion) -> list[Key]:
    """Return what is deleted while requests are distorted for a while, and until all is well again."""
    before = len(gone(fleet))
    run.distort = distortion
    try:
        fleet.look_again()
        fleet.run_for(6)
    finally:
        run.distort = None
    fleet.look_again()
    fleet.run_until(lambda: is_ready(fleet), within=40)
    return gone(fleet)[before:]


def test_what_is_kept_is_kept_as_it_is(whole: Fleet, run: Distorting) -> None:
    for item in list(whole.api.all()):
        if item["kind"] == "Object":
            marked = {
                "metadata": {**item["metadata"], "labels": {**item["metadata"]["labels"], "cost": "17"}}
            }
            whole.api.update({**item, **marked}, "kubectl")
    whole.run_for(1)
    before = whole.versions()
    run.distort = nothing_fetched
    whole.look_again()
    run.distort = None
    changed = {key.kind for key, version in whole.versions().items() if version != before.get(key)}
    assert changed <= set(COMPOSERS)
    assert "Object" in {key.kind for key in before}


def test_a_function_that_is_down_changes_nothing(whole: Fleet, function: FunctionProcess) -> None:
    before, deleted = there(whole), gone(whole)
    function.stop()
    try:
        whole.look_again()
        synced = condition(whole.get("ModelDeployment", DEPLOYMENT), "Synced")
        assert (synced["status"], "cannot run pipeline step" in synced["message"]) == ("False", True)
        assert (gone(whole), there(whole)) == (deleted, before)
    finally:
        function.start()
    whole.run_until(lambda: is_ready(whole), within=90)


def test_an_invalid_edit_changes_nothing_but_conditions(whole: Fleet) -> None:
    before, deleted = there(whole), gone(whole)
    spec = whole.get("ModelDeployment", DEPLOYMENT)["spec"]
    broken = copied(spec["engines"])
    broken[0]["members"][0]["nodeSelector"]["devices"][0]["selectors"][0]["cel"] = "device.nonsense &&"
    whole.edit("ModelDeployment", DEPLOYMENT, engines=broken, replicas=1)
    whole.run_for(20)
    assert (gone(whole), there(whole)) == (deleted, before)
    scheduled = condition(whole.get("ModelDeployment", DEPLOYMENT), "ReplicasScheduled")
    assert scheduled["reason"] == "InvalidNodeSelector"
    whole.edit("ModelDeployment", DEPLOYMENT, engines=spec["engines"], replicas=3)
    whole.run_until(lambda: is_ready(whole), within=40)


def gone(fleet: Fleet) -> list[Key]:
    """Return what was deleted so far, but for what refuses deletions."""
    return [key for key in fleet.deletions() if key.kind not in ("Usage", "ClusterUsage")]


def there(fleet: Fleet) -> set[Key]:
    """Return what there is, without what refuses deletions: it comes and goes with those who are seen."""
    return {key for key in fleet.versions() if key.kind not in ("Usage", "ClusterUsage")}
