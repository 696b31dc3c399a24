"""``modelplane function`` as a process of its own, and calls of it over gRPC."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import grpc
import psutil
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from support.patience import PATIENCE_S

_ANY_SIZE = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
METHOD = "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction"
"""The one call of the protocol."""


class FunctionProcess:
    """One process of the function; nothing of it is left when the context ends."""

    def __init__(
        self,
        log: Path,
        *arguments: str,
        credentials: grpc.ChannelCredentials | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.address = f"127.0.0.1:{_free_port()}"
        self._log = log
        self._arguments = arguments or ("--insecure",)
        self._credentials = credentials
        self._environment = dict(os.environ if environment is None else environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: grpc.Channel | None = None

    def __enter__(self) -> "FunctionProcess":
        self.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._disconnect()

    @property
    def pid(self) -> int:
        """The process."""
        if self._process is None:
            raise RuntimeError("the function does not run")
        return self._process.pid

    @property
    def channel(self) -> grpc.Channel:
        """A connection to it."""
        if self._channel is None:
            raise RuntimeError("the function does not run")
        return self._channel

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self._spawn()
        self._disconnect()
        self._channel = self.connect(self._credentials)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=PATIENCE_S)
        except grpc.FutureTimeoutError:
            self.stop()
            raise AssertionError(f"the function does not answer: {self.log}") from None

    def ends(self) -> int:
        """Start the process where it cannot run; return its exit status."""
        return self._spawn().wait(timeout=PATIENCE_S)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "modelplane.cli.main", "function", "--address", self.address]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process

    def connect(self, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
        """Return a new connection, with credentials of one's own or none."""
        if credentials is None:
            return grpc.insecure_channel(self.address, options=_ANY_SIZE)
        return grpc.secure_channel(self.address, credentials, options=_ANY_SIZE)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the process. Calls fail from then on."""
        if self._process is not None:
            if self._process.poll() is None:
                os.kill(self._process.pid, number)
            self._process.wait(timeout=PATIENCE_S)
            self._process = None

    def restart(self) -> None:
        """Kill the process, and start another at the same address."""
        self.stop()
        self.start()

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def run(self, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        """Call the function as Crossplane does."""
        return call(self.channel, request)

    def resident_mib(self) -> float:
        """Return how much memory the process has."""
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20


def call(
    channel: grpc.Channel, request: fnv1.RunFunctionRequest, timeout_s: float = PATIENCE_S
) -> fnv1.RunFunctionResponse:
    """Call the function over a connection."""
    method = channel.unary_unary(
        METHOD,
        request_serializer=fnv1.RunFunctionRequest.SerializeToString,
        response_deserializer=fnv1.RunFunctionResponse.FromString,
    )
    answer: fnv1.RunFunctionResponse = method(request, timeout=timeout_s)
    return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
