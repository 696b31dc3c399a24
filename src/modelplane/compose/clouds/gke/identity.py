"""The identity for access to a GKE cluster: a service account, its key, and its role in the project."""

from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.compose.clouds.gke import project
from modelplane.compose.clouds.gke.kinds import PROJECT_IAM_MEMBER, SERVICE_ACCOUNT, SERVICE_ACCOUNT_KEY
from modelplane.compose.clouds.site import Parts, Site, Waiting

LONGEST_ACCOUNT = 30
"""Characters of a service account's id. Source: Google Cloud IAM, "Create service accounts"."""

ROLE = "roles/container.admin"
"""Access to the objects of clusters. It is a role in the project, so it reaches every cluster there, because
IAM has none for a single cluster. Source: GKE, "Create allow policies"."""

KEY = "private_key"
"""Key of the connection Secret. Source: provider-upjet-gcp, connection details of ServiceAccountKey."""


def compose(site: Site[GKECluster]) -> Parts:
    """Compose the service account, its key, and its role once its name is known."""
    account = site.name("sa", limit=LONGEST_ACCOUNT)
    # Of an object whose only field is taken back, server-side apply leaves null, which the schema refuses.
    about = {"displayName": site.owner.metadata.name}
    yield site.managed("service-account", SERVICE_ACCOUNT, {**about, **project.given(site)}, account)
    yield site.managed(
        "service-account-key",
        SERVICE_ACCOUNT_KEY,
        {"serviceAccountIdRef": {"name": account}},
        writeConnectionSecretToRef={"name": key_secret(site)},
    )
    member, in_project = site.text("service-account", "member"), project.known(site)
    if not in_project:
        yield Waiting("iam-binding", project.UNKNOWN)
    elif not member:
        yield Waiting("iam-binding", "the name of the service account, which Google Cloud reports")
    else:
        yield site.managed(
            "iam-binding", PROJECT_IAM_MEMBER, {"project": in_project, "role": ROLE, "member": member}
        )


def key_secret(site: Site[GKECluster]) -> str:
    """Return the name of the Secret with the key."""
    return site.name("sa-key")
