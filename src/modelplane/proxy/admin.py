"""Envoy's administration interface, over its Unix socket."""

import http.client
import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from modelplane.gateway.envoy.envoy_names import CLUSTERS, MUTUAL_TLS, ROUTES, TLS
from modelplane.host import sockets
from modelplane.host.errors import LocalError
from modelplane.proxy import module

ADMIN_SOCKET = "admin.sock"
_ADMIN_TIMEOUT_S = 2.0


def find_reload_problem(directory: Path) -> str | None:
    """Return the files that Envoy has rejected; None if none. Raises ``LocalError`` without an answer."""
    counts = read_stats(directory, "[.]update_(rejected|failure|time)$")
    sources = {CLUSTERS: "cluster_manager.cds", module.find_listeners_file(directory): "listener_manager.lds"}
    sources |= {f"{ROUTES}{path.name}": f".rds.{path.stem}" for path in (directory / ROUTES).glob("*.json")}
    for folder in (TLS, MUTUAL_TLS):
        sources |= {
            f"{folder}{path.name}": f"sds.{path.stem}" for path in (directory / folder).glob("*.json")
        }
    refused = [
        path
        for path, source in sorted(sources.items())
        if any(_of(counts, f"{source}.{outcome}") for outcome in ("update_rejected", "update_failure"))
        and _of(counts, f"{source}.update_time") < int((directory / path).stat().st_mtime * 1000)
    ]
    if not refused:
        return None
    return (
        f"Envoy rejected {', '.join(refused)} and keeps the previous configuration: for the reason, see "
        "Envoy's log"
    )


def _of(counts: Mapping[str, int], name: str) -> int:
    """Return the largest counter whose name ends so."""
    return max((count for counter, count in counts.items() if counter.endswith(name)), default=0)


def find_obstacle(directory: Path) -> str | None:
    """Return the reason why Envoy takes no requests; None while it does."""
    try:
        state = _ask(directory, "/ready").decode().strip()
    except LocalError as error:
        return str(error)
    return None if state == "LIVE" else f"Envoy is not ready: the state is {state}"


def count_requests(directory: Path, listener: str) -> int:
    """Return the number of a listener's requests in progress. Raises ``LocalError`` without an answer."""
    return sum(read_stats(directory, f"^http[.]{re.escape(listener)}[.]downstream_rq_active$").values())


def read_stats(directory: Path, pattern: str) -> dict[str, int]:
    """Return Envoy's counters and gauges with names that a regular expression (RE2) matches."""
    try:
        counters = json.loads(_ask(directory, f"/stats?format=json&filter={quote(pattern)}"))["stats"]
    except (ValueError, KeyError) as error:
        raise LocalError(f"cannot query Envoy: {error}: see Envoy's log") from error
    return {counter["name"]: counter["value"] for counter in counters if "name" in counter}


def reopen_logs(directory: Path) -> None:
    """Have Envoy open the paths of its access logs again. Raises ``LocalError`` without an answer."""
    _ask(directory, "/reopen_logs", "POST")


def read_prometheus(directory: Path, pattern: str) -> str:
    """Return Envoy's metrics with names that a regular expression (RE2) matches, as Prometheus reads them."""
    return _ask(directory, f"/stats/prometheus?filter={quote(pattern)}").decode()


def _ask(directory: Path, path: str, method: str = "GET") -> bytes:
    connection = _AdminConnection(find_admin_socket(directory))
    try:
        connection.request(method, path)
        return connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        raise LocalError(f"cannot query Envoy: {error}: see Envoy's log") from error
    finally:
        connection.close()


def find_admin_socket(directory: Path) -> Path:
    """Return the Unix socket of Envoy's administration interface; only its owner can open it."""
    return directory / ADMIN_SOCKET


class _AdminConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ADMIN_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Open the socket file instead of a TCP connection."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_ADMIN_TIMEOUT_S)
        sockets.connect(self.sock, self._path)
