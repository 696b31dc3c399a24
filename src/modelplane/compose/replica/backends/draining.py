"""Draining: what an engine needs to finish its requests when its pod is stopped.

Most servers finish their requests after SIGTERM. vLLM aborts them, unless ``--shutdown-timeout`` gives it
time (v0.18.0 and later; vLLM pull request 36666). A vLLM that cannot be given the flag keeps serving for a
while before the signal.
"""

import re
from dataclasses import dataclass
from typing import Final

from modelplane.api.fields.pods.containers import Container
from modelplane.compose.replica.engine_flags import flag, runs

GRACE_S: Final = 120
"""Time that a stopping pod has in all (``terminationGracePeriodSeconds``)."""

_PAUSE_S: Final = 5
"""Time for which a stopping engine accepts requests, until every gateway has removed it."""

_TEARDOWN_S: Final = 15
"""Time that an engine has to free its devices after the last request."""

_SERVING_PAUSE_S: Final = 60
"""Time for which an engine keeps serving that aborts its requests after the signal."""

_TIMEOUT: Final = "--shutdown-timeout"
_SERVE: Final = ("vllm", "serve")
_MODULE: Final = ("-m", "vllm.entrypoints.openai.api_server")
_IMAGE: Final = re.compile(r"(?:.*/)?vllm(?:-[a-z0-9-]+)?(?::v(\d+)\.(\d+)[^@]*|:[^@]*)?(?:@.*)?")
"""An image of vLLM in any registry, with the version of its tag."""
_FIRST: Final = (0, 18)
"""First version of vLLM that has the flag."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Additions to a serving container."""

    pause_s: int = _PAUSE_S
    """Time between the end of the pod's endpoint and SIGTERM, in seconds."""
    arguments: tuple[str, ...] = ()


UNTIL_0_3: Final = Draining()
"""Draining as versions up to 0.3.0 composed it for every engine."""


def is_vllm(image: str) -> bool:
    """Return True if an image is one of vLLM, by its name."""
    return _IMAGE.fullmatch(image) is not None


def draining(container: Container) -> Draining:
    """Return what an engine needs. A command of its author is not changed."""
    image = _IMAGE.fullmatch(container.image)
    if image is None and not runs(container, *_SERVE) and not runs(container, *_MODULE):
        return Draining()
    if flag(container, _TIMEOUT) not in (None, "0"):
        return Draining()
    version = (int(image[1]), int(image[2])) if image and image[1] else (0, 0)
    if container.command or version < _FIRST or flag(container, _TIMEOUT) is not None:
        return Draining(_SERVING_PAUSE_S)
    return Draining(arguments=(f"{_TIMEOUT}={GRACE_S - _PAUSE_S - _TEARDOWN_S}",))
