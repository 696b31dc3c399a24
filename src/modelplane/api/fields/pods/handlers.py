"""Probes and lifecycle hooks of a container (core/v1 ``Probe``, ``LifecycleHandler``).

They have no host: a node would send their requests to any address.
"""

from enum import StrEnum
from typing import Annotated, Final

from modelplane.api.fields.pods.variables import Argument
from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about

_MAX_PORT: Final = 65535
_MAX_SECONDS: Final = 86400
_HOOK_SECONDS: Final = 120


class ExecAction(Model):
    """A command in the container."""

    command: Annotated[
        tuple[Argument, ...],
        about("Command and arguments, run without a shell.", min_length=1, max_length=64, atomic=True),
    ]


class Scheme(StrEnum):
    """Protocol of a request."""

    HTTP = "HTTP"
    HTTPS = "HTTPS"


_PORT = about("Port of the container.", ge=1, le=_MAX_PORT)


class HTTPGetAction(Model):
    """An HTTP request to the pod. Status codes from 200 to 399 are a success."""

    path: Annotated[
        str, about("Path of the request.", min_length=1, max_length=1024, pattern="^/[!-~]*$")
    ] = "/"
    port: Annotated[int, _PORT]
    scheme: Annotated[Scheme, about("HTTP or HTTPS. The certificate is not verified.")] = Scheme.HTTP


class TCPSocketAction(Model):
    """A TCP connection to the pod."""

    port: Annotated[int, _PORT]


class SleepAction(Model):
    """A pause."""

    seconds: Annotated[int, about("Length of the pause, in seconds.", ge=1, le=_HOOK_SECONDS)]


class Probe(Model):
    """A probe of a container, with the defaults of Kubernetes."""

    __rules__ = (
        Rule(
            "[has(self.httpGet), has(self.tcpSocket), has(self.exec)].filter(given, given).size() == 1",
            "set exactly one of httpGet, tcpSocket and exec",
        ),
    )

    http_get: Annotated[HTTPGetAction, about("Probe with an HTTP request.")] | None = None
    tcp_socket: Annotated[TCPSocketAction, about("Probe with a TCP connection.")] | None = None
    exec: Annotated[ExecAction, about("Probe with a command. Exit code 0 is a success.")] | None = None
    initial_delay_seconds: (
        Annotated[
            int,
            about(
                "Seconds from the start of the container to the first probe. Default: 0.",
                ge=0,
                le=_MAX_SECONDS,
            ),
        ]
        | None
    ) = None
    period_seconds: (
        Annotated[int, about("Seconds between probes. Default: 10.", ge=1, le=_MAX_SECONDS)] | None
    ) = None
    timeout_seconds: (
        Annotated[int, about("Seconds after which a probe times out. Default: 1.", ge=1, le=_MAX_SECONDS)]
        | None
    ) = None
    success_threshold: (
        Annotated[
            int,
            about(
                "Consecutive successes after a failure until the probe succeeds. Default: 1.",
                ge=1,
                le=_MAX_SECONDS,
            ),
        ]
        | None
    ) = None
    failure_threshold: (
        Annotated[
            int, about("Consecutive failures until the probe fails. Default: 3.", ge=1, le=_MAX_SECONDS)
        ]
        | None
    ) = None


class Handler(Model):
    """A lifecycle hook."""

    __rules__ = (
        Rule(
            "[has(self.httpGet), has(self.exec), has(self.sleep)].filter(given, given).size() == 1",
            "set exactly one of httpGet, exec and sleep",
        ),
    )

    http_get: Annotated[HTTPGetAction, about("Send an HTTP request.")] | None = None
    exec: Annotated[ExecAction, about("Run a command.")] | None = None
    sleep: Annotated[SleepAction, about("Pause.")] | None = None


class Lifecycle(Model):
    """Hooks of a container."""

    post_start: Annotated[Handler, about("Hook that runs after the container has started.")] | None = None
    pre_stop: (
        Annotated[
            Handler,
            about(
                "Hook that runs before the container receives SIGTERM, within the 120 seconds that a "
                "pod has to stop. Not allowed on the engine, where Modelplane drains requests."
            ),
        ]
        | None
    ) = None
