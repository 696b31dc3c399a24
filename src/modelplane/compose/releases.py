"""Releases: a Helm chart on a cluster, as an object of provider-helm.

The controllers carry it out themselves; under Crossplane provider-helm does.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.schema.untyped import get_map
from modelplane.compose.composition import Desired
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.readiness import condition_of, is_ready
from modelplane.compose.workload_kinds import RELEASE

WAIT_TIMEOUT: Final = "10m"
"""Time for the objects of a chart to become ready, before the attempt counts as failed."""

ROLLBACK_LIMIT: Final = 3
"""Attempts at a version, each undone if it fails. A change of the release allows as many again."""


class Chart(NamedTuple):
    """A chart."""

    name: str
    repository: str
    """Address of its repository: ``https://`` or ``oci://``."""

    @property
    def address(self) -> str:
        """Its address without a version."""
        return f"{self.repository}/{self.name}"


def release(
    key: str,
    chart: Chart,
    *,
    name: str,
    version: str,
    namespace: str,
    values: Mapping[str, Any],
    cluster: str,
) -> Desired:
    """Return a release of a chart on a cluster, ready once all of its objects are."""
    manifest: Object = {
        "apiVersion": RELEASE.api_version,
        "kind": RELEASE.kind,
        "metadata": {
            "name": name,
            "namespace": SYSTEM_NAMESPACE,
            # A name of the chart's own, so that the names that the chart derives are short.
            "annotations": {labels.EXTERNAL_NAME: f"mp-{chart.name}"},
        },
        "spec": {
            "forProvider": {
                "chart": {"name": chart.name, "repository": chart.repository, "version": version},
                "namespace": namespace,
                "values": dict(values),
                "wait": True,
                "waitTimeout": WAIT_TIMEOUT,
            },
            "rollbackLimit": ROLLBACK_LIMIT,
        },
    }
    return Desired(key, manifest, is_ready, cluster)


def problem(release: Object) -> str | None:
    """Return the error of a release; None if it has none."""
    synced = condition_of(release, SYNCED)
    if synced.get("status") == "False":
        return str(synced.get("message") or synced.get("reason"))
    reported = get_map(release, "status", "atProvider")
    if reported.get("state") != "failed":
        return None
    said = reported.get("releaseDescription") or condition_of(release, READY).get("message")
    return str(said or "the release failed")


def progress(release: Object) -> str:
    """Return what is being done about a release that is not ready; empty if nothing is reported."""
    reported = get_map(release, "status", "atProvider")
    return str(condition_of(release, READY).get("message") or reported.get("releaseDescription") or "")


def merge_values(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with others over them: maps are merged, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        known: Any = result.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        result[key] = merge_values(known, value) if both else value
    return result
