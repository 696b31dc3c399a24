"""Stand-in of llm-d's endpoint picker: ``python -m modelplane.kubelet.engines.endpoint_picker``.

It takes the flags that a replica's picker gets, watches the pods of its InferencePool as the pod's service
account, and answers Envoy by the Endpoint Picker Protocol of the Gateway API Inference Extension. Pods take
turns. The program that this stands in for compares cached prefixes and queues.

Field numbers of messages are those of ``envoy/service/ext_proc/v3/external_processor.proto`` and of the
messages that it imports. Fields that are not listed are skipped while reading, as Protocol Buffers prescribe.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import yaml
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.gateway.envoy.endpoint_pickers import DESTINATION
from modelplane.gateway.gateway_api import http_routes
from modelplane.host import addresses
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kubelet.engines.llama_cpp import POD_ADDRESS_VARIABLE

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
METHOD: Final = "Process"
_PACKAGE = "modelplane.ext_proc"
PREFILL: Final = "x-prefiller-host-port"
"""Header with the address and port of the pod that computes the prompt."""

_HEALTH_PORT = 9003
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
_OVERWRITE = 2
"""``HeaderValueOption.AppendAction.OVERWRITE_IF_EXISTS_OR_ADD``."""

_GRACE_S = 5.0
DIVIDING_PLUGIN = "disagg-profile-handler"
"""Plugin of a configuration that has prompts computed by prefill pods."""


class _Field(NamedTuple):
    """A field of a message; ``type`` is a scalar type of Protocol Buffers, or the name of a message."""

    number: int
    type: str
    repeated: bool = False
    in_oneof: bool = False


_MESSAGES: Final[Mapping[str, Mapping[str, _Field]]] = {
    "HeaderValue": {
        "key": _Field(1, "string"),
        "value": _Field(2, "string"),
        "raw_value": _Field(3, "bytes"),
    },
    "HeaderMap": {"headers": _Field(1, "HeaderValue", repeated=True)},
    "HttpHeaders": {"headers": _Field(1, "HeaderMap"), "end_of_stream": _Field(3, "bool")},
    "HttpBody": {"body": _Field(1, "bytes"), "end_of_stream": _Field(2, "bool")},
    "HttpTrailers": {"trailers": _Field(1, "HeaderMap")},
    "ProcessingRequest": {
        "request_headers": _Field(2, "HttpHeaders", in_oneof=True),
        "request_body": _Field(4, "HttpBody", in_oneof=True),
        "request_trailers": _Field(6, "HttpTrailers", in_oneof=True),
    },
    "HeaderValueOption": {"header": _Field(1, "HeaderValue"), "append_action": _Field(3, "int32")},
    "HeaderMutation": {
        "set_headers": _Field(1, "HeaderValueOption", repeated=True),
        "remove_headers": _Field(2, "string", repeated=True),
    },
    "StreamedBodyResponse": {"body": _Field(1, "bytes"), "end_of_stream": _Field(2, "bool")},
    "BodyMutation": {"streamed_response": _Field(3, "StreamedBodyResponse")},
    "CommonResponse": {
        "header_mutation": _Field(2, "HeaderMutation"),
        "body_mutation": _Field(3, "BodyMutation"),
    },
    "HeadersResponse": {"response": _Field(1, "CommonResponse")},
    "BodyResponse": {"response": _Field(1, "CommonResponse")},
    "TrailersResponse": {"header_mutation": _Field(1, "HeaderMutation")},
    "HttpStatus": {"code": _Field(1, "int32")},
    "ImmediateResponse": {
        "status": _Field(1, "HttpStatus"),
        "body": _Field(3, "bytes"),
        "details": _Field(5, "string"),
    },
    "ProcessingResponse": {
        "request_headers": _Field(1, "HeadersResponse", in_oneof=True),
        "request_body": _Field(3, "BodyResponse", in_oneof=True),
        "request_trailers": _Field(5, "TrailersResponse", in_oneof=True),
        "immediate_response": _Field(7, "ImmediateResponse", in_oneof=True),
        "dynamic_metadata": _Field(8, ".google.protobuf.Struct"),
    },
}


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="modelplane/ext_proc.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append(STRUCT.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if any(field.in_oneof for field in fields.values()):
            message.oneof_decl.add(name="kind")
        for field_name, field in fields.items():
            message.field.append(_descriptor(field_name, field))
    return file


def _descriptor(name: str, field: _Field) -> FieldDescriptorProto:
    repeated, one = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    descriptor = FieldDescriptorProto(
        name=name, number=field.number, label=repeated if field.repeated else one
    )
    scalar = getattr(FieldDescriptorProto, f"TYPE_{field.type.upper()}", None)
    if scalar is None:
        descriptor.type = FieldDescriptorProto.TYPE_MESSAGE
        descriptor.type_name = field.type if field.type.startswith(".") else f".{_PACKAGE}.{field.type}"
    else:
        descriptor.type = scalar
    if field.in_oneof:
        descriptor.oneof_index = 0
    return descriptor


def _classes() -> dict[str, Any]:
    pool = DescriptorPool()
    pool.AddSerializedFile(STRUCT.serialized_pb)
    pool.Add(_file())
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("ProcessingRequest", "ProcessingResponse")
    }


_CLASSES = _classes()

ProcessingRequest: Any = _CLASSES["ProcessingRequest"]

ProcessingResponse: Any = _CLASSES["ProcessingResponse"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The pods of a request: address and port of each."""

    destination: str
    prefill: str = ""
    """Empty if the destination computes the prompt itself."""


def is_divided(configuration: Mapping[str, Any]) -> bool:
    """Return True if a configuration has prompts computed by other pods than their answers."""
    return any(plugin.get("type") == DIVIDING_PLUGIN for plugin in configuration.get("plugins") or ())


class RoundRobin:
    """The choice of the pods of each request: those that can take it, in turn."""

    def __init__(self, *, is_divided: bool) -> None:
        self._is_divided = is_divided
        self._turns: Iterator[int] = count()

    def choose(self, pool: Object, pods: Iterable[Object]) -> Choice | None:
        """Return the pods of the next request; None if none can take it."""
        port = int(pool["spec"]["targetPorts"][0]["number"])
        ready = http_routes.list_ready(pool, pods)
        turn = next(self._turns)
        if not self._is_divided:
            return Choice(_address(ready, turn, port)) if ready else None
        decode, prefill = (
            [pod for pod in ready if pod["metadata"]["labels"].get(labels.LLM_D_ROLE) == role]
            for role in ("decode", "prefill")
        )
        if not decode:
            return None
        return Choice(_address(decode, turn, port), _address(prefill, turn, port) if prefill else "")


def _address(pods: Sequence[Object], turn: int, port: int) -> str:
    # The gateway of this machine knows pods by the addresses that they bind.
    return f"{addresses.find_bound(pods[turn % len(pods)]['status']['podIP'])}:{port}"


def build_answer(choose: Callable[[], Choice | None]) -> Callable[[Any], Any]:
    """Return the answer to each message of Envoy about a request.

    The picker chooses when the headers are there. The body goes back as it comes.
    """

    def answer(asked: Any) -> Any:
        response = ProcessingResponse()
        match asked.WhichOneof("kind"):
            case "request_headers":
                _chosen(choose(), response)
            case "request_body":
                streamed = response.request_body.response.body_mutation.streamed_response
                streamed.body = asked.request_body.body
                streamed.end_of_stream = asked.request_body.end_of_stream
            case _:
                response.request_trailers.SetInParent()
        return response

    return answer


def _chosen(choice: Choice | None, response: Any) -> None:
    if choice is None:
        response.immediate_response.status.code = 503
        response.immediate_response.body = b"no pod of the InferencePool can take the request"
        return
    mutation = response.request_headers.response.header_mutation
    for name, value in ((DESTINATION, choice.destination), (PREFILL, choice.prefill)):
        if value:
            option = mutation.set_headers.add(append_action=_OVERWRITE)
            option.header.key, option.header.raw_value = name, value.encode()
    response.dynamic_metadata.update({"envoy.lb": {DESTINATION: choice.destination}})


class Picker:
    """The pods of a pool, and the choice among them."""

    def __init__(self, pools: Informer, pods: Informer, turns: RoundRobin) -> None:
        self._pools = pools
        self._pods = pods
        self._turns = turns

    @property
    def is_ready(self) -> bool:
        """True once the pool and its pods are known."""
        return self._pools.synced and self._pods.synced and len(self._pools) > 0

    def choose(self) -> Choice | None:
        """Return the pods of the next request, and log them; None if none can take it."""
        pool = next(iter(self._pools), None)
        choice = self._turns.choose(pool, self._pods) if pool else None
        if choice is None:
            _say("no ready pod for the request")
        else:
            _say(f"destination {choice.destination}, prefill {choice.prefill or 'by itself'}")
        return choice

    async def process(self, requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Any]:
        """Answer the messages about one request."""
        answer = build_answer(self.choose)
        async for asked in requests:
            yield answer(asked)

    async def check(self, _request: bytes, _context: Any) -> bytes:
        """Answer a health check (gRPC Health Checking Protocol)."""
        return _SERVING if self.is_ready else _NOT_SERVING


def _server(picker: Picker, address: str, port: int) -> grpc.aio.Server:
    process: Any = grpc.stream_stream_rpc_method_handler(
        picker.process,
        ProcessingRequest.FromString,
        ProcessingResponse.SerializeToString,
    )
    check: Any = grpc.unary_unary_rpc_method_handler(picker.check)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(SERVICE, {METHOD: process}),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),
        )
    )
    for served in (port, _HEALTH_PORT):
        server.add_insecure_port(f"{address}:{served}")
    return server


async def serve(arguments: argparse.Namespace, client: Client, address: str, turns: RoundRobin) -> None:
    """Serve until SIGTERM, then let the open requests end."""
    namespace, name = arguments.pool_namespace, arguments.pool_name
    pools = Informer(client, resources.INFERENCE_POOLS, namespace=namespace, fields=f"metadata.name={name}")
    pods = Informer(client, resources.PODS, namespace=namespace)
    server = _server(Picker(pools, pods, turns), address, arguments.grpc_port)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    watches = [asyncio.create_task(informer.run()) for informer in (pools, pods)]
    await server.start()
    _say(f'picking among the pods of InferencePool "{namespace}/{name}"')
    await ending.wait()
    await server.stop(_GRACE_S)
    for watch in watches:
        watch.cancel()


def _say(sentence: str) -> None:
    sys.stderr.write(f"endpoint picker: {sentence}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str]) -> None:
    """Be the endpoint picker until SIGTERM."""
    parser = argparse.ArgumentParser(prog="endpoint-picker", allow_abbrev=False)
    for flag in ("--pool-name", "--pool-namespace", "--pool-group", "--config-file"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--grpc-port", type=int, required=True)
    parsed = parser.parse_args(arguments)
    configuration = yaml.safe_load(Path(parsed.config_file).read_text(encoding="utf-8"))
    turns = RoundRobin(is_divided=is_divided(configuration))

    async def run() -> None:
        async with Client.connect_in_cluster(field_manager="modelplane-picker") as client:
            await serve(parsed, client, os.environ.get(POD_ADDRESS_VARIABLE, "127.0.0.1"), turns)

    asyncio.run(run())


if __name__ == "__main__":
    main(sys.argv[1:])
