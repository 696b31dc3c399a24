import base64
from pathlib import Path
from typing import Any

import pytest
from lightkube.config import kubeconfig, models

from modelplane.kube import resources
from modelplane.kube.client import Client
from support.api_server import Wire, listening


async def test_a_pod_reads_its_token_again_when_it_is_no_longer_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    wire.taken = "bearer old"
    async with listening(wire) as (host, port):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        # Only TLS is left out of what a pod has.
        monkeypatch.setattr(
            kubeconfig, "Cluster", lambda server, **_: models.Cluster(server.replace("https", "http"))
        )
        (tmp_path / "namespace").write_text("n")
        (tmp_path / "token").write_text("old")
        async with Client.in_cluster(account=tmp_path) as client:
            await client.get(resources.PODS, "p", "n")
            (tmp_path / "token").write_text("new")
            wire.taken = "bearer new"
            await client.get(resources.PODS, "p", "n")
    assert wire.authorizations == ["bearer old", "bearer old", "bearer new"]


@pytest.mark.parametrize(
    ("files", "host", "cause"),
    [
        pytest.param((), "10.0.0.1", "No such file or directory: '.*token'", id="no service account"),
        pytest.param(
            ("token", "namespace", "ca.crt"), "", "there is no KUBERNETES_SERVICE_HOST", id="no pod at all"
        ),
    ],
)
def test_where_there_is_no_service_account_the_error_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], host: str, cause: str
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"cannot use a pod's service account: .*{cause}"):
        Client.in_cluster(account=tmp_path)


def _kubeconfig(**user: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }


_NO_PEM = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    "kubeconfig",
    [
        pytest.param({}, id="nothing in it"),
        pytest.param(_kubeconfig() | {"current-context": "other"}, id="a context that is not there"),
        pytest.param(_kubeconfig() | {"users": []}, id="a user that is not there"),
        pytest.param(
            _kubeconfig(**{"client-certificate-data": _NO_PEM, "client-key-data": _NO_PEM}),
            id="a certificate that is none",
        ),
        pytest.param(_kubeconfig(**{"client-certificate": "/nowhere"}), id="a file that is not there"),
    ],
)
def test_an_unusable_kubeconfig_is_one_kind_of_error(kubeconfig: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cannot use the kubeconfig: .+"):
        Client.from_kubeconfig(kubeconfig)
