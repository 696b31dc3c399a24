"""Names of Envoy's files and of the types of its messages, apart from what writes them.

Those who only look for the files need no more.
"""

from collections.abc import Iterable

ENVOY = "type.googleapis.com/envoy."
CONFIG = f"{ENVOY}config."
HTTP_FILTERS = f"{ENVOY}extensions.filters.http."
RESOURCE_MONITORS = f"{ENVOY}extensions.resource_monitors."

LISTENERS = "lds.json"
"""The listeners of an Envoy without the module, but for those that only the module can guard."""

WITH_MODULE = "lds-with-module.json"
"""The listeners of an Envoy with the module. As published, they are for the module of release 0.9."""

WITH_NEW_MODULE = "lds-with-module-2.json"
"""The listeners for the module of this release, which are written in their place if Envoy has it."""

CLUSTERS = "cds.json"

HELD = "held/"  # prefix of the name of a service, for the requests that it has held

ROUTES = "routes/"
"""Directory of the routes, one file for each listener."""

TLS = "tls/"
"""Directory of the certificates."""

MUTUAL_TLS = "mutual-tls/"
"""Directory of the gateway's own certificate, and of the authorities of clusters."""


def has_tls(paths: Iterable[str]) -> bool:
    """Return True if the files of an Envoy have certificates, so that clients use https."""
    return any(path.startswith(TLS) for path in paths)
