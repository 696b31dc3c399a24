"""The gateway module in the directory of an Envoy.

Each Envoy has a copy of its own, which only its start replaces: a running process keeps its module. An Envoy
that cannot load it runs without, and serves no listener that needs it.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from modelplane.gateway.envoy.envoy_names import LISTENERS, WITH_MODULE
from modelplane.host.file_system import write_private

BOOTSTRAP = "bootstrap.json"
"""Envoy's first configuration, which names the file of the listeners."""

STATE = {"modelplane": {"module": 2}}
"""Metadata of an Envoy's node that say which module it runs; that of release 0.9 has none."""

_FOLDER = "modules"
_TRIAL = (
    *("--mode", "validate"),
    *("--service-node", "trial", "--service-cluster", "trial"),
    *("--log-level", "info"),
)
_TRIAL_S = 60.0
_MATCHED = re.compile(r"Dynamic module ABI version \S+ matched")


def place(directory: Path, library: Path | None, envoy: Path | None) -> str | None:
    """Bring the module into the directory of an Envoy that does not run; return why it has none, else None.

    ``library`` is None if there is none. One that ``envoy`` cannot load is not kept.
    """
    from modelplane.gateway.envoy import module_filters  # noqa: PLC0415 - heavy, and only to start an Envoy

    ours = directory / _FOLDER / f"lib{module_filters.NAME}.so"
    if library is None or envoy is None:
        ours.unlink(missing_ok=True)
        return "the gateway module's library does not exist: build it with `make gateway-module`"
    content = library.read_bytes()
    if not (ours.exists() and ours.read_bytes() == content):
        ours.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(ours, content)
    if problem := _refused(directory, envoy):
        ours.unlink()
        return problem
    return None


def build_environment(directory: Path) -> dict[str, str]:
    """Return the environment in which Envoy finds the module."""
    return {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(directory / _FOLDER)}


def choose_listeners_file(directory: Path, *, has_module: bool) -> str:
    """Return the file from which Envoy is to read its listeners.

    An Envoy that has just got the module keeps the file that is there until there is one for the module.
    """
    existing = [path for path in (WITH_MODULE, LISTENERS) if (directory / path).exists()]
    chosen = WITH_MODULE if has_module else LISTENERS
    return existing[0] if has_module and existing else chosen


def find_listeners_file(directory: Path) -> str:
    """Return the file from which the Envoy of a prepared directory reads its listeners."""
    bootstrap = json.loads((directory / BOOTSTRAP).read_text())
    return str(bootstrap["dynamic_resources"]["lds_config"]["path_config_source"]["path"]).removeprefix("./")


def is_new(directory: Path) -> bool:
    """Return True if the Envoy of a prepared directory runs the module of this release."""
    try:
        bootstrap = json.loads((directory / BOOTSTRAP).read_text())
    except (OSError, ValueError):
        return False
    return bool(bootstrap.get("node", {}).get("metadata") == STATE)


def find_missing(directory: Path) -> str | None:
    """Return why the Envoy of a directory runs without the module; None if it has it."""
    try:
        path = find_listeners_file(directory)
    except (OSError, ValueError, KeyError) as error:
        return f"the gateway's Envoy has not been started: {error}"
    if path == WITH_MODULE:
        return None
    return (
        "the gateway's Envoy runs without its module: build it with `make gateway-module`, or install a "
        "Modelplane wheel, which includes the module; then restart the gateway"
    )


def _refused(directory: Path, envoy: Path) -> str | None:
    """Return why an Envoy cannot load the module of a directory; None if it can."""
    # Heavy, and only to start an Envoy.
    from modelplane.gateway.envoy import listeners, module_filters  # noqa: PLC0415 - as above
    from modelplane.gateway.route_table import Listener  # noqa: PLC0415 - as above

    tried = Listener("trial", "127.0.0.1", 0)
    listener = listeners.build_listener(tried, with_module=True)
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"].insert(0, module_filters.build_front(tried))
    del manager["rds"]  # its file does not exist yet
    manager["route_config"] = {"name": "trial"}
    # Not in a file: Envoy must be able to restart on a full disk.
    trial = json.dumps({"static_resources": {"listeners": [listener]}})
    try:
        done = subprocess.run(
            [envoy, *_TRIAL, "--config-yaml", trial],
            env={**os.environ, **build_environment(directory)},
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"Envoy did not report within {_TRIAL_S:.0f} s whether it can load the gateway module"
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        return f"Envoy cannot load the gateway module: {lines[-1][:500] if lines else 'no output'}"
    if not _MATCHED.search(done.stderr):
        return (
            "the gateway module was built for another Envoy version: build it again with `make "
            "gateway-module`"
        )
    return None
