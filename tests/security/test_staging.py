"""A server of weights that takes its time holds no processor for long, and takes no other team's turn."""

import hashlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import API_VERSION
from modelplane.api.model_cache import ModelCache
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cache import cache_coverage
from modelplane.compose.cache.model_cache import compose, requirements
from modelplane.compose.cache.staging_program import SOURCES_PROGRAM
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.facts import CacheFacts

DAY_S = 24 * 3600
HOPELESS = 65


def never(_connection: socket.socket) -> None:
    """Accept, and answer nothing."""
    time.sleep(60)


def headers_byte_by_byte(connection: socket.socket) -> None:
    """Send a header that never ends, each byte in time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        connection.sendall(b"a")
        time.sleep(0.05)


def body_byte_by_byte(connection: socket.socket) -> None:
    """Send a file of a gigabyte, each byte in time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        connection.sendall(b"a")
        time.sleep(0.05)


def redirects(connection: socket.socket) -> None:
    """Lead in a circle."""
    connection.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )


def huge(connection: socket.socket) -> None:
    """Claim to send a petabyte."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n")
    time.sleep(60)


def absurd(connection: socket.socket) -> None:
    """Claim a length of ten thousand digits."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 10_000 + b"\r\n\r\n")
    time.sleep(60)


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve every connection by a function."""

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            answer(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/weights"


def program() -> str:
    """Return the program with times of seconds in the place of minutes."""
    text = SOURCES_PROGRAM
    for written, here in (
        ("DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0)", "DELAYS_S = (0.01,)"),
        ("SLOWEST = (64 << 10, 60.0)", "SLOWEST = (64 << 10, 0.5)"),
        ("TIMEOUT_S = 60.0", "TIMEOUT_S = 0.5"),
        ("DESCRIBED_S = 300.0", "DESCRIBED_S = 0.5"),
    ):
        assert text.count(written) == 1
        text = text.replace(written, here)
    return text


def http(url: str) -> dict[str, Any]:
    return {"http": {"files": [{"path": "w", "url": url, "sha256": hashlib.sha256(b"weights").hexdigest()}]}}


def oci(url: str) -> dict[str, Any]:
    registry = url.partition("://")[2].partition("/")[0]
    return {"oci": {"registry": registry, "repository": "team/weights", "reference": "v1", "plainHttp": True}}


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (never, 1, "timed out"),
        (headers_byte_by_byte, 1, "cannot reach"),
        (body_byte_by_byte, 1, "less than 65536 bytes"),
        (redirects, HOPELESS, "answers 302"),
        (huge, HOPELESS, "larger than sizeGiB"),
        (absurd, HOPELESS, ""),
    ],
)
def test_a_server_that_takes_its_time_ends_the_attempt(
    tmp_path: Path, answer: Callable[[socket.socket], None], code: int, said: str
) -> None:
    with serving(answer) as url:
        done = subprocess.run(
            [sys.executable, "-E", "-P", "-c", program(), str(tmp_path), ".marker", str(HOPELESS)],
            env={
                "SOURCE": json.dumps(http(url)),
                "ARTIFACT": "a",
                "LIMIT": str(1 << 30),
                "MODELPLANE_CACHE_ALLOW_LOCAL": "1",
            },
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert said in done.stderr


def cache(number: int, namespace: str, *, phase: str = "Pending", size_gib: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelCache",
        "metadata": {
            "name": f"c-{number:02}",
            "namespace": namespace,
            "uid": f"{namespace}-{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "source": "HTTP",
            "http": {"files": [{"path": "w", "url": "https://slow.example/w", "sha256": "0" * 64}]},
            "sizeGiB": size_gib,
        },
        "status": {"clusters": [{"name": "gpu", "phase": phase}]},
    }


CLUSTER = {
    "apiVersion": API_VERSION,
    "kind": "InferenceCluster",
    "metadata": {"name": "gpu", "uid": "gpu"},
    "spec": {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "gpu"}}}},
    "status": {"cache": {"storageClassName": "shared"}},
}


def composed(item: dict[str, Any], caches: list[dict[str, Any]], **observed: Any) -> Composition:
    owner = decode_as(ModelCache, item)
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": item["metadata"]["namespace"],
            "labels": {"modelplane.ai/managed-by": "modelplane"},
        },
    }
    found: dict[str, Any] = {each.key: () for each in requirements(owner)}
    found |= {"clusters": (CLUSTER,), "caches": tuple(caches)}
    found |= {key: (namespace,) for key in found if key.startswith("namespace")}
    result = compose(Request(owner, observed, found, CacheFacts()))
    assert isinstance(result, Composition)
    return result


def jobs(result: Composition) -> list[Mapping[str, Any]]:
    children = (each.manifest for each in result.children if isinstance(each, Desired))
    return [each for each in children if each["kind"] == "Job"]


def test_sixty_caches_of_a_team_take_two_turns_and_another_team_has_its_own() -> None:
    many = [cache(number, "crowd") for number in range(60)]
    made = {each["metadata"]["name"]: composed(each, many) for each in many}
    assert [name for name, result in made.items() if jobs(result)] == ["c-00", "c-01"]
    last = made["c-59"]
    assert last.status["clusters"][0]["message"] == cache_coverage.WAITING
    assert last.unsatisfied, "it is composed again when another cache of the namespace changes"
    assert jobs(composed(cache(0, "team"), [cache(0, "team")]))


def test_a_turn_passes_on_and_is_not_taken_back() -> None:
    many = [
        cache(number, "crowd", phase=phase) for number, phase in enumerate(("Ready", "Failed", "Pending"))
    ]
    third = cache(3, "crowd")
    assert jobs(composed(third, [*many, third])), "caches that are staged, or cannot be, have no turn"
    many = [cache(number, "crowd") for number in range(4)]
    [job] = jobs(composed(many[3], []))
    assert jobs(composed(many[3], many, **{"hydrate-gpu": job})), "a Job that is there keeps its turn"


@pytest.mark.parametrize(("size_gib", "days"), [(1, 1), (500, 2), (100_000, 3)])
def test_a_job_ends_whatever_size_is_claimed(size_gib: int, days: int) -> None:
    [job] = jobs(composed(cache(0, "crowd", size_gib=size_gib), []))
    assert 3600 < job["spec"]["activeDeadlineSeconds"] <= days * DAY_S
