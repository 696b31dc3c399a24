"""The kubeconfig that Helm gets."""

import base64
from types import SimpleNamespace
from typing import Any

import pytest

from modelplane.api.clouds.cluster_origin import KubeconfigSecret
from modelplane.controllers.helm.helm_program import Host, Program

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def _host(**secrets: str) -> Host:
    """Return a host of a cluster whose kubeconfig is not a secret's."""
    data = {
        name: {"data": {"kubeconfig": base64.b64encode(text.encode()).decode()}}
        for name, text in secrets.items()
    }
    clusters: Any = SimpleNamespace(access=lambda _name: SimpleNamespace(kubeconfig={"of": "the cluster"}))
    return Host(Program(), clusters, data.get, lambda _cluster: None, lambda _uid: None)


def test_charts_on_the_control_plane_are_installed_by_its_installer_only() -> None:
    with pytest.raises(ValueError, match='no Secret "modelplane-installer" in namespace "modelplane-system"'):
        _host(other=KUBECONFIG).kubeconfig("", KubeconfigSecret(name="other"))
    found = _host(**{"modelplane-installer": KUBECONFIG}).kubeconfig("", None)
    assert found["users"] == [{"name": "u", "user": {"token": "t"}}]


def test_a_cluster_without_an_installer_is_reached_as_ever() -> None:
    assert _host().kubeconfig("east", None) == {"of": "the cluster"}
