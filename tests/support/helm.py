"""Helm releases in tests: none at all, charts of the project's own, and servers of charts."""

from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.helm.helm_program import Host, Program
from modelplane.controllers.helm.release_control import Releases


def no_releases(clusters: Clusters) -> Releases:
    """Return releases that no owner asks for."""
    return Releases(Host(Program(), clusters, lambda _name: None, lambda _cluster: None, lambda _uid: None))
