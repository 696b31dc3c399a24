"""Interface of a runtime: the seam between a pod's life and its execution.

An attempt belongs to the runtime that began it, and a pod stays with the runtime of its first attempt, even
if another one becomes available.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

from modelplane.kube.resources import Object
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.pods.probes import Answer
from modelplane.kubelet.pods.views import Waiting
from modelplane.kubelet.records import Attempt, ContainerDirectory, Exit

Tell = Callable[[Waiting], None]
"""Reports what a start is waiting for."""


class Runtime(Protocol):
    """One way to run the container of one pod."""

    async def start(self, pod: Object, container: ContainerDirectory, tell: Tell) -> Attempt:
        """Start the next attempt, or finish the start of one; raise ``CannotStart`` with the obstacle."""

    async def wait(self, attempt: Attempt) -> Exit:
        """Return how an attempt ended, once it has and its end is recorded."""

    async def terminate(self, attempt: Attempt) -> None:
        """Ask an attempt to end."""

    async def kill(self, attempt: Attempt) -> None:
        """End an attempt, whatever it takes."""

    async def ask(
        self, attempt: Attempt, handler: Mapping[str, Any], spec: Mapping[str, Any], timeout_s: float
    ) -> Answer:
        """Execute the handler of a probe or a hook, within a time limit in seconds."""

    def log(self, attempt: Attempt, selection: Selection, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Yield the log of an attempt; with ``follow``, until the attempt ends."""

    async def read_termination_message(self, attempt: Attempt) -> str | None:
        """Return the last lines that an attempt wrote, as short as a termination message must be."""

    def get_container_id(self, attempt: Attempt) -> str:
        """Return the ``containerID`` of an attempt."""

    def get_image_id(self, attempt: Attempt) -> str:
        """Return the ``imageID`` of an attempt; empty if unknown."""

    async def forget(self, attempt: Attempt) -> None:
        """Let go of everything that is kept of an attempt outside its directory, and end it if it runs."""
