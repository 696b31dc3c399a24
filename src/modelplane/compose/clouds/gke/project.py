"""The Google Cloud project of a cluster: that of its settings, or else of its provider configuration."""

from typing import Any

from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.api.schema.untyped import get_map
from modelplane.compose.clouds.site import ACCOUNT_KEY, Site

UNKNOWN = "the project: set spec.project, or the projectID of the provider configuration"
"""In messages."""

POOL_OF_PROJECT = ".svc.id.goog"
"""End of the workload identity pool of a project. Source: GKE, "About Workload Identity Federation"."""


def given(site: Site[GKECluster]) -> dict[str, Any]:
    """Return the field that names the project; none leaves it to the provider configuration."""
    project = site.owner.spec.project
    return {"project": project} if project else {}


def known(site: Site[GKECluster]) -> str:
    """Return the project; empty if it is not known yet.

    A cluster that exists already does not follow a change of the provider configuration.
    """
    if site.owner.spec.project:
        return site.owner.spec.project
    if existing := of_cluster(site):
        return existing
    for config in site.request.found(ACCOUNT_KEY):
        return str(config.get("spec", {}).get("projectID", ""))
    return ""


def of_cluster(site: Site[GKECluster]) -> str:
    """Return the project that the cluster was composed for; empty if it was not yet."""
    spec = get_map(site.request.observed, "cluster", "spec", "forProvider")
    pool = str(spec.get("workloadIdentityConfig", {}).get("workloadPool", ""))
    return pool.removesuffix(POOL_OF_PROJECT)
