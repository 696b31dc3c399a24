"""Parts of long-running commands: their log, health endpoint, and connection to the API server."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.kube.fence import Fence
    from modelplane.kube.resources import Known
    from modelplane.telemetry.metric_definitions import Program, Sample

_CHATTY = ("httpx2", "httpcore2", "hpack")
"""Loggers that log every request, and that of HTTP/2's header compression, which logs credentials."""


def _json() -> logging.Formatter:
    from modelplane.telemetry.traces import JsonFormatter

    return JsonFormatter()


FORMATS: Mapping[str, Callable[[], logging.Formatter]] = {
    "text": lambda: logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"),
    "json": _json,
}
"""Log formats: plain text, or one JSON object a line."""


def log_to_stderr(*, debug: bool = False, format: str = "text") -> None:  # noqa: A002 - as logging has it
    """Log to standard error, one line each, with its time."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATS[format]())
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler])
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def connect(
    kubeconfig: str | None, *, fence: "Fence | None" = None, known: "Known | None" = None
) -> "Client":
    """Return a client from a kubeconfig, or without one from this pod's service account."""
    from modelplane.kube import resources
    from modelplane.kube.client import Client

    known = known or resources.find_known
    try:
        if kubeconfig is None:
            return Client.connect_in_cluster(fence=fence, known=known)
        return Client.from_kubeconfig(kubeconfig, fence=fence, known=known)
    except ValueError as error:
        outside = f'correct "{kubeconfig}", or set --kubeconfig to another file'
        remedy = "outside a pod, set --kubeconfig" if kubeconfig is None else outside
        raise UserError(f"{error}: {remedy}") from error


@contextmanager
def serve_health(
    address: str | None,
    program: "Program",
    ready: Callable[[], str | None],
    observe: "Callable[[], Iterable[Sample]]" = tuple,
) -> Iterator[None]:
    """Serve health and metrics inside the block, if an address is given.

    ``ready`` and ``observe`` are called in any thread.
    """
    if address is None:
        yield
        return
    from modelplane.telemetry import metrics, server

    loop = asyncio.get_running_loop()
    registry = metrics.build_registry(program, observe)
    with server.serve(address, alive=server.watch_loop(loop), ready=ready, registry=registry):
        yield
