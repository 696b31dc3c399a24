"""The gRPC server of the function.

Callers authenticate by certificate (mutual TLS), unless the server is started without. Each request runs on
a thread of a small pool, so that a slow request does not delay others.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest
from modelplane.install.installation_options import Options
from modelplane.user_error import UserError

_log = logging.getLogger(__name__)

_THREADS = 16
_GRACE_S = 5.0
"""Time that running requests have to finish when the server stops, as in the SDK."""

_SERVICE = fnv1.DESCRIPTOR.services_by_name["FunctionRunnerService"].full_name


def credentials(directory: Path) -> grpc.ServerCredentials:
    """Return the server's certificate, and the authority that it accepts callers from.

    The directory has ``tls.crt``, ``tls.key`` and ``ca.crt``, as Crossplane mounts it.
    Raises ``UserError``.
    """
    from crossplane.function.runtime import load_credentials  # noqa: PLC0415 - it imports much more

    try:
        return load_credentials(str(directory))
    except OSError as error:
        name = Path(error.filename or directory).name
        message = f"cannot read {name} of the certificates in {directory}: {error.strerror}"
        raise UserError(f"{message}: Crossplane mounts them, or say --insecure") from error


def _handler(runner: Runner) -> grpc.GenericRpcHandler:
    """Return the service, which decodes requests with our own messages."""

    def run(encoded: bytes, context: grpc.ServicerContext) -> fnv1.RunFunctionResponse:
        try:
            request = RunFunctionRequest.FromString(encoded)
        except DecodeError:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is not a RunFunctionRequest")
        return runner.run(request)

    method: grpc.RpcMethodHandler[bytes, fnv1.RunFunctionResponse] = grpc.unary_unary_rpc_method_handler(
        run, response_serializer=fnv1.RunFunctionResponse.SerializeToString
    )
    return grpc.method_handlers_generic_handler(_SERVICE, {"RunFunction": method})


@contextmanager
def serving(
    address: str,
    creds: grpc.ServerCredentials | None,
    *,
    max_receive_bytes: int,
    options: Options = Options(),  # noqa: B008 - it is immutable
) -> Iterator[grpc.Server]:
    """Serve at an address until the block ends; without encryption if there are no credentials.

    ``options`` are those of the gateway's pods.
    Raises ``UserError``.
    """
    settings: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", max_receive_bytes),
        ("grpc.max_send_message_length", -1),
        # A second server at the same address would get half of the requests.
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.server(ThreadPoolExecutor(_THREADS, "request"), options=settings)
    server.add_generic_rpc_handlers((_handler(Runner(options=options)),))
    checks = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    try:
        if creds is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, creds)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"cannot listen at {address}: it is taken, or no address of this machine") from error
    server.start()
    for service in ("", _SERVICE):
        checks.set(service, health_pb2.HealthCheckResponse.SERVING)
    _log.info("serving at %s%s", address, "" if creds else ", without encryption")
    try:
        yield server
    finally:
        checks.enter_graceful_shutdown()
        server.stop(_GRACE_S).wait()
