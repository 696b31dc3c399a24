"""Whatever bytes the function is sent, it goes on answering, and nothing is deleted for it."""

import copy
import math
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from hypothesis import given, settings, strategies as st

from modelplane.compose.kinds import COMPOSERS
from modelplane.crossplane.function.structs import RunFunctionRequest
from support.crossplane.fleet import Fleet
from support.crossplane.function_process import METHOD, FunctionProcess
from support.crossplane.manifests import (
    CACHE,
    DEPLOYMENT,
    ENDPOINT,
    SERVICE,
    cloud_clusters,
    device_quota,
    inference_autoscaler,
    inference_cluster,
    model_cache,
    model_deployment,
    model_endpoint,
    model_key,
    model_service,
    serving_stack,
)
from support.crossplane.protobuf import plain, struct
from support.crossplane.scenarios import prepared

SENSELESS: tuple[Any, ...] = (
    None,
    math.nan,
    math.inf,
    -1e308,
    1e308,
    0.5,
    [],
    {},
    "",
    "x" * 3000,
    "\x00\udc80".encode("utf-8", "replace").decode(),
    [None],
    {"": None},
    [[[]]],
    {"name": {"name": {}}},
)
MIB = 2**20

fuzz = settings(max_examples=60, deadline=None, derandomize=True)


class Target:
    """A function, and for each kind what it is asked of an object whose life is in full swing."""

    def __init__(self, process: FunctionProcess) -> None:
        self.process = process
        self.requests = dict(_requests(process))
        self._call: Callable[..., bytes] = process.channel.unary_unary(METHOD)

    def send(self, request: bytes) -> fnv1.RunFunctionResponse | grpc.StatusCode:
        """Return what comes back of some bytes."""
        try:
            return fnv1.RunFunctionResponse.FromString(self._call(request, timeout=20))
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code

    def lives(self) -> bool:
        """Whether the process still says that it serves, and answers a request that makes sense."""
        health = self.process.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = health(health_pb2.HealthCheckRequest(), timeout=20)
        sensible = self.send(self.requests["ModelDeployment"].SerializeToString())
        serving = answer.status == health_pb2.HealthCheckResponse.SERVING
        return serving and isinstance(sensible, fnv1.RunFunctionResponse) and not _is_fatal(sensible)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with FunctionProcess(tmp_path_factory.mktemp("function") / "log") as process:
        yield Target(process)


def _requests(process: FunctionProcess) -> Iterator[tuple[str, fnv1.RunFunctionRequest]]:
    fleet = prepared(Fleet(process.run))
    for name in "ab":
        fleet.cluster(name)
        fleet.apply(inference_cluster(name, storage="shared"))
    fleet.run_until_ready("InferenceCluster", "a", "b")
    fleet.apply(model_service(), model_cache(), model_endpoint(), model_deployment(replicas=3))
    for kind, name in (
        ("ModelDeployment", DEPLOYMENT),
        ("ModelService", SERVICE),
        ("ModelCache", CACHE),
        ("ModelEndpoint", ENDPOINT),
    ):
        fleet.run_until_ready(kind, name, within=120)
    fleet.apply(*cloud_clusters(), serving_stack(), model_key(), inference_autoscaler(), device_quota())
    fleet.run_for(65)
    for kind in COMPOSERS:
        last = fleet.calls(kind)[-1].request
        kept = fnv1.RunFunctionRequest()
        kept.CopyFrom(last)
        yield kind, kept


def _is_fatal(answer: fnv1.RunFunctionResponse) -> bool:
    return any(result.severity == fnv1.SEVERITY_FATAL for result in answer.results)


def lost(request: bytes, answer: fnv1.RunFunctionResponse | grpc.StatusCode) -> set[str]:
    """Return the children that Crossplane would delete on an answer, and whose deletion does harm.

    What refuses deletions may go: a cluster whose list of pools is empty does need no class. What makes a
    namespace may go, because it has no right to delete one.
    """
    if isinstance(answer, grpc.StatusCode) or _is_fatal(answer):
        return set()
    there = set(RunFunctionRequest.FromString(request).observed.resources)
    gone = there - set(answer.desired.resources)
    return {key for key in gone if not key.startswith(("crossplane-in-use", "crossplane-namespace-"))}


def _paths(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something can be put into an object."""
    steps = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for step, inner in steps:
        if step != "managedFields":
            yield (*path, step)
            yield from _paths(inner, (*path, step))


def _put(item: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        item = item[step]
    item[path[-1]] = value


def _resources(request: fnv1.RunFunctionRequest) -> list[fnv1.Resource]:
    """Return every object of a request."""
    found = [request.observed.composite]
    found += [request.observed.resources[key] for key in sorted(request.observed.resources)]
    for key in sorted(request.required_resources):
        found += request.required_resources[key].items
    return found


@fuzz
@given(content=st.binary(max_size=4096))
def test_any_bytes_are_survived(target: Target, content: bytes) -> None:
    answer = target.send(content)
    try:
        assert lost(content, answer) == set()
    except DecodeError:
        assert isinstance(answer, grpc.StatusCode) or _is_fatal(answer)


@pytest.mark.parametrize("kind", COMPOSERS)
@settings(fuzz, max_examples=15)
@given(data=st.data())
def test_a_message_that_breaks_off_takes_nothing_away(target: Target, kind: str, data: st.DataObject) -> None:
    whole = target.requests[kind].SerializeToString()
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    answer = target.send(part)
    try:
        assert lost(part, answer) == set()
    except DecodeError:
        assert isinstance(answer, grpc.StatusCode) or _is_fatal(answer)


@pytest.mark.parametrize("kind", COMPOSERS)
@fuzz
@given(data=st.data())
def test_senseless_values_take_nothing_away(target: Target, kind: str, data: st.DataObject) -> None:
    request = fnv1.RunFunctionRequest()
    request.CopyFrom(target.requests[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        resources = _resources(request)
        resource = resources[data.draw(st.integers(0, len(resources) - 1))]
        item = plain(resource.resource)
        paths = sorted(_paths(item), key=str)
        path = paths[data.draw(st.integers(0, len(paths) - 1))]
        _put(item, path, copy.deepcopy(SENSELESS[data.draw(st.integers(0, len(SENSELESS) - 1))]))
        # A version tells what an object contains, so what is changed is another version.
        if isinstance(item.get("metadata"), dict):
            item["metadata"]["resourceVersion"] = sha256(repr(sorted(item.items())).encode()).hexdigest()
        resource.resource.CopyFrom(struct(item))
    content = request.SerializeToString()
    assert lost(content, target.send(content)) == set()


@pytest.mark.parametrize("kind", COMPOSERS)
def test_twice_the_same_in_one_message_takes_nothing_away(target: Target, kind: str) -> None:
    content = target.requests[kind].SerializeToString() * 2
    assert lost(content, target.send(content)) == set()


@fuzz
@given(kind=st.text(max_size=40), api_version=st.text(max_size=40), of=st.sampled_from(sorted(COMPOSERS)))
def test_of_a_kind_that_it_does_not_know_it_says_so_and_keeps_all(
    target: Target, kind: str, api_version: str, of: str
) -> None:
    request = fnv1.RunFunctionRequest()
    request.CopyFrom(target.requests[of])
    resource = request.observed.composite.resource
    resource.update({"kind": kind, "apiVersion": api_version})
    resource.fields["metadata"].struct_value.update({"resourceVersion": f"{kind} {api_version}"})
    answer = target.send(request.SerializeToString())
    assert isinstance(answer, fnv1.RunFunctionResponse)
    assert _is_fatal(answer)
    assert set(answer.desired.resources) == set(request.observed.resources)


@pytest.mark.parametrize("depth", [50, 90, 5000])
def test_what_is_nested_without_end_is_survived(target: Target, depth: int) -> None:
    value = b"\x2a\x00"  # an empty struct as a value
    for _ in range(depth):
        entry = b"\x0a\x01a\x12" + _length(value) + value
        fields = b"\x0a" + _length(entry) + entry
        value = b"\x2a" + _length(fields) + fields
    entry = b"\x0a\x04spec\x12" + _length(value) + value
    resource = b"\x0a" + _length(entry) + entry
    composite = b"\x0a" + _length(resource) + resource
    state = b"\x0a" + _length(composite) + composite
    answer = target.send(b"\x12" + _length(state) + state)
    assert isinstance(answer, grpc.StatusCode) or _is_fatal(answer)
    assert target.lives()


def _length(content: bytes) -> bytes:
    number, written = len(content), b""
    while number > 0x7F:
        written += bytes([number & 0x7F | 0x80])
        number >>= 7
    return written + bytes([number])


def test_a_message_that_is_too_large_is_refused_and_leaves_nothing_behind(target: Target) -> None:
    content = _padded(target, 100 * MIB)
    assert target.send(content) is grpc.StatusCode.RESOURCE_EXHAUSTED
    before = target.process.resident_mib()
    for _ in range(5):
        assert target.send(content) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert target.process.resident_mib() - before < 64
    assert target.lives()


def test_large_messages_one_after_the_other_take_no_more_memory_than_one(target: Target) -> None:
    contents = [_padded(target, 32 * MIB, version) for version in range(6)]
    for content in contents[:2]:
        target.send(content)
    before = target.process.resident_mib()
    for content in contents[2:]:
        assert lost(content, target.send(content)) == set()
    assert target.process.resident_mib() - before < 128
    assert target.lives()


def _padded(target: Target, size: int, version: int = 0) -> bytes:
    """Return a request that makes sense, with an object so large that the whole has a size."""
    request = fnv1.RunFunctionRequest()
    request.CopyFrom(target.requests["ModelDeployment"])
    request.observed.composite.resource.fields["metadata"].struct_value.update(
        {"annotations": {"padding": "x" * size}, "resourceVersion": f"large-{version}"}
    )
    return request.SerializeToString()


def test_after_all_that_it_lives(target: Target) -> None:
    assert target.lives()
