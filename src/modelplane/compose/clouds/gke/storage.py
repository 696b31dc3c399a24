"""The storage of a GKE cluster for model caches: Filestore, whose API the project has to have."""

from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.compose.clouds.gke import project
from modelplane.compose.clouds.gke.kinds import PROJECT_SERVICE
from modelplane.compose.clouds.site import Parts, Site

FILESTORE_API = "file.googleapis.com"
"""The API of Filestore. Source: Filestore, "Before you begin"."""

STAYS_ENABLED = {"disableOnDestroy": False}
"""Others in the project may use the API too. Source: Terraform google provider, ``project_service``."""


def compose(site: Site[GKECluster]) -> Parts:
    """Enable the API of Filestore."""
    yield site.managed(
        "projectservice-filestore",
        PROJECT_SERVICE,
        {**project.given(site), **STAYS_ENABLED, "service": FILESTORE_API},
    )
