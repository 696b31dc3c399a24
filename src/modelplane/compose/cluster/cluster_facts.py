"""Facts of a cluster: what its caller knows of the connection, the gateway and the health of it."""

from typing import TypeAlias

import msgspec

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.compose.composition import Request, Silence
from modelplane.deciders.cluster_health import Watched
from modelplane.gateway.mutual_tls import Link


class Credential(msgspec.Struct, frozen=True):
    """A cluster's credential that expires."""

    expires: str
    """Time at which it expires (RFC 3339); empty if only the installer's expires."""
    problem: str = ""
    """The reason for which nothing replaces it, with the remedy; empty while there is time."""
    installer: str = ""
    """The same about the credential that installs charts, as a sentence that names it."""


class ClusterFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of an InferenceCluster reads beside objects."""

    kubeconfig_problem: str | None = None
    """The reason for which its kubeconfig cannot be used; None if it can."""
    credential: Credential | None = None
    """Its credential; None if it is not known to expire."""
    silence: Silence | None = None
    """The connection error that writing or reading its objects ended with, where Crossplane does both."""
    observes_capacity: bool = False
    """True if the caller watches the nodes and devices of clusters: the controllers."""
    gateway_answer: str | None = None
    """Cause for which its gateway does not answer; empty if it answers.

    None where nothing asks it: under Crossplane, offline, and a gateway that no serving stack made.
    """
    mutual_tls: Link | None = None
    """Mutual TLS to it; None where nothing issues certificates: under Crossplane, and offline."""
    watched: Watched | None = None
    """Failover as it concerns the cluster.

    None where nothing watches clusters: under Crossplane, and while no deployment has failover.
    """


ClusterRequest: TypeAlias = Request[InferenceCluster, ClusterFacts]
