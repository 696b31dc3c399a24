"""Files of a running Envoy.

Each file is replaced atomically, in an order in which no file refers to a resource
that does not exist yet. If Envoy rejects a file, it keeps its configuration;
``admin.find_reload_problem`` tells.
"""

from collections.abc import Mapping
from pathlib import Path

from modelplane.gateway.envoy.envoy_files import find_transition, select_listeners
from modelplane.gateway.envoy.file_names import CLUSTERS, LISTENERS, MUTUAL_TLS, WITH_MODULE
from modelplane.gateway.envoy.filters.module_filters import PRIVATE
from modelplane.host.private_files import write_private
from modelplane.proxy import module

_ORDER = {CLUSTERS: 0, LISTENERS: 2, WITH_MODULE: 2}


def write(directory: Path, files: Mapping[str, str]) -> bool:
    """Write the files that ``envoy_files.render_files`` returns to a directory; return True if any changed.

    Of the listeners, those are written that are for the module that the Envoy of the directory runs.
    A cluster that routes leave in this call stays until the next call, so after True a second call,
    a moment later, removes it.
    """
    current = _current(directory)
    own = select_listeners(files, has_new_module=module.is_new(directory))
    desired = find_transition(own, current)
    changed = sorted((path for path in desired if current.get(path) != desired[path]), key=_order)
    for path in changed:
        (directory / path).parent.mkdir(mode=0o700, exist_ok=True)
        write_private(directory / path, desired[path])
    gone = current.keys() - desired.keys()
    for path in gone:
        (directory / path).unlink(missing_ok=True)
    return bool(changed or gone)


def _order(path: str) -> tuple[int, str]:
    """Order files so that none refers to a later one: secrets, clusters, routes, listeners."""
    return -1 if path.startswith((PRIVATE, MUTUAL_TLS)) else _ORDER.get(path, 1), path


def _current(directory: Path) -> dict[str, str]:
    """Return the current files, by their path from the directory, also those of earlier versions."""
    paths = (*(directory / path for path in _ORDER), *directory.glob("*/*.json"))
    return {
        path.relative_to(directory).as_posix(): path.read_text(errors="replace")
        for path in paths
        if path.is_file()
    }
