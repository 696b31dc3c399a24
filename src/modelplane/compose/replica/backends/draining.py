"""Draining: what an engine needs to finish its requests when its pod is stopped, alone or in a gang.

Most servers finish their requests after SIGTERM. vLLM aborts them, unless ``--shutdown-timeout`` gives it
time (v0.18.0 and later; vLLM pull request 36666). A vLLM that cannot be given the flag keeps serving for a
while before the signal.

LeaderWorkerSet stops all pods of a group together when it replaces the group or is deleted itself, and the
leader needs its workers until its requests are finished. In an update, the workers are stopped only once the
leader is gone. So a worker waits while it has a TCP connection with the leader. Every engine of several pods
has one: with the store of torch.distributed, Ray's control service, MPI's ssh, or the sockets of data
parallelism. A leader that finishes its requests may accept no connection any more, so none is tried.

The leader's name is resolved once. The pod that replaces the leader gets the same name, and the old workers
have no connection with that pod.

A leader that aborts its requests at SIGTERM keeps serving for a while first, unless its engine does not
listen: a group whose leader has failed is replaced at once.
"""

import re
from dataclasses import dataclass
from typing import Final

from modelplane.api.fields.pods.containers import Container
from modelplane.compose.replica.engine_command_lines import find_flag, runs

WAIT_S: Final = 60
"""Longest time for which a worker waits."""

_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash"})

WORKER_SHELL: Final = f"""
found=$(getent hosts "$LWS_LEADER_ADDRESS")
case $? in 0) ;; 2) exit 0 ;; *) exec sleep {WAIT_S} ;; esac
set -- $found
case $1 in
*:*)
  left=${{1%%::*}} right=
  case $1 in *::*) right=${{1#*::}} ;; esac
  IFS=:
  set -- $right
  count=$#
  set -- $left
  while [ $(($# + count)) -lt 8 ]; do set -- "$@" 0; done
  set -- "$@" $right
  leader=
  while [ $# -gt 0 ]; do
    leader=$leader$(printf %08X $(((0x$2 & 255) << 24 | 0x$2 >> 8 << 16 | (0x$1 & 255) << 8 | 0x$1 >> 8)))
    shift 2
  done
  ;;
*)
  IFS=.
  set -- $1
  leader=$(printf %02X%02X%02X%02X "$4" "$3" "$2" "$1")
  ;;
esac
left={WAIT_S}
while [ $left -gt 0 ] && grep -q "$leader:[0-9A-F]* 01 " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
  sleep 1
  left=$((left - 1))
done
"""
"""For a POSIX shell. Without ``getent``, it waits for the whole time."""

WORKER_PYTHON: Final = f"""
import os, socket, time

leader = set()
try:
    for family, _, _, _, address in socket.getaddrinfo(os.environ["LWS_LEADER_ADDRESS"], None):
        packed = socket.inet_pton(family, address[0])
        words = (packed[at : at + 4][::-1] for at in range(0, len(packed), 4))
        leader.add(b"".join(words).hex().upper())
except socket.gaierror:
    pass


def is_connected():
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            with open(table) as lines:
                for remote, state in (line.split()[2:4] for line in lines):
                    if state == "01" and remote.split(":")[0].endswith(tuple(leader)):
                        return True
    return False


end = time.monotonic() + {WAIT_S}
while time.monotonic() < end and is_connected():
    time.sleep(1)
"""
"""The same for Python, in an image that may have no shell."""

_LEADER_SHELL: Final = """
left={pause_s}
while [ $left -gt 0 ] && grep -q ":{port:04X} [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
  sleep 1
  left=$((left - 1))
done
"""

_LEADER_PYTHON: Final = """
import os, time


def listens():
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            with open(table) as lines:
                for line in lines:
                    _, local, _, state = line.split()[:4]
                    if state == "0A" and local.endswith(":{port:04X}"):
                        return True
    return False


end = time.monotonic() + {pause_s}
while time.monotonic() < end and listens():
    time.sleep(1)
"""

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


def worker_hook(container: Container) -> list[str]:
    """Return the command of a worker's ``preStop`` hook."""
    return _command(container, WORKER_SHELL, WORKER_PYTHON)


def leader_hook(container: Container, port: int, pause_s: int) -> list[str]:
    """Return the command of the hook of a leader whose engine listens on a port."""
    programs = (text.format(port=port, pause_s=pause_s) for text in (_LEADER_SHELL, _LEADER_PYTHON))
    return _command(container, *programs)


def is_vllm(image: str) -> bool:
    """Return True if an image is one of vLLM, by its name."""
    return _IMAGE.fullmatch(image) is not None


def draining(container: Container) -> Draining:
    """Return what an engine needs. A command of its author is not changed."""
    image = _IMAGE.fullmatch(container.image)
    if image is None and not runs(container, *_SERVE) and not runs(container, *_MODULE):
        return Draining()
    if find_flag(container, _TIMEOUT) not in (None, "0"):
        return Draining()
    version = (int(image[1]), int(image[2])) if image and image[1] else (0, 0)
    if container.command or version < _FIRST or find_flag(container, _TIMEOUT) is not None:
        return Draining(_SERVING_PAUSE_S)
    return Draining(arguments=(f"{_TIMEOUT}={GRACE_S - _PAUSE_S - _TEARDOWN_S}",))


def _command(container: Container, shell: str, python: str) -> list[str]:
    """Return the command that runs one of two equal programs by what the image of a container has.

    A shell or a Python that starts the engine is there. Other images are taken to have ``sh``.
    """
    program = container.command[0] if container.command else ""
    name = program.rpartition("/")[2]
    if name.rstrip("0123456789.") == "python":
        return [program, "-c", python]
    return [program if name in _SHELLS else "sh", "-c", shell]
