"""A kubeconfig in a Secret: its writer runs no program in the controllers and learns none of their files."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.controllers import fleet_resources
from modelplane.kube import kubeconfig_secret, resources
from support.attacked import Attacked

WHERE = 'Secret "west" in namespace "modelplane-system"'
SERVER = {"server": "https://10.0.0.1:6443", "certificate-authority-data": "Q0E="}
USER = {"token": "t"}
CREDENTIAL = "use a token, or client-certificate-data and client-key-data"
PROGRAM = f"it would run a program in the controllers: {CREDENTIAL}"
FILE = "it would read a file of the controllers"


def kubeconfig(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": SERVER if cluster is None else cluster}],
        "users": [{"name": "u", "user": USER if user is None else user}],
        **more,
    }


def read(content: Any) -> dict[str, Any]:
    return kubeconfig_secret.parse_kubeconfig(yaml.safe_dump(content).encode(), "kubeconfig", WHERE)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("exec", {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh"}, PROGRAM),
        (
            "auth-provider",
            {"name": "gcp", "config": {"cmd-path": "/bin/sh"}},
            f"it would run code of a cloud in the controllers: {CREDENTIAL}",
        ),
        ("tokenFile", "/var/run/secrets/kubernetes.io/serviceaccount/token", f"{FILE}: use token"),
        ("client-certificate", "/etc/passwd", f"{FILE}: use client-certificate-data"),
        ("client-key", "/etc/passwd", f"{FILE}: use client-key-data"),
        ("as", "system:admin", "it is not one that Modelplane reads: remove it"),
        ("impersonate", "system:admin", "it is not one that Modelplane reads: remove it"),
        ("token", ["t"], "it is not text: put the value in quotes"),
    ],
)
def test_a_user_has_nothing_but_a_credential(field: str, value: object, why: str) -> None:
    with pytest.raises(ValueError, match="not accepted") as refused:
        read(kubeconfig(user={**USER, field: value}))
    path = f"users[].user.{field}"
    assert str(refused.value) == f"key \"kubeconfig\" of {WHERE} is not accepted, field '{path}': {why}"


ADDRESS = "it is not an https:// address: use that of the API server"


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("certificate-authority", "/etc/passwd", f"{FILE}: use certificate-authority-data"),
        ("proxy-url", "http://10.0.0.9:3128", "it would send the credential through a proxy: remove it"),
        (
            "insecure-skip-tls-verify",
            True,
            "it would send the credential to an unverified server: use certificate-authority-data",
        ),
        (
            "tls-server-name",
            "other",
            "the certificate is verified for the host in server: use a name of the certificate there",
        ),
        ("server", "http://10.0.0.1:6443", ADDRESS),
        ("server", "https://user:s3cret@10.0.0.1", ADDRESS),
        ("server", "https://", ADDRESS),
        ("server", "https://[::1", ADDRESS),
        ("server", "file:///etc/passwd", ADDRESS),
        ("server", "", ADDRESS),
    ],
)
def test_a_cluster_is_verified_and_reached_directly(field: str, value: object, why: str) -> None:
    with pytest.raises(ValueError, match="not accepted") as refused:
        read(kubeconfig(cluster={**SERVER, field: value}))
    path = f"clusters[].cluster.{field}"
    assert str(refused.value) == f"key \"kubeconfig\" of {WHERE} is not accepted, field '{path}': {why}"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            kubeconfig(users=[{"name": "u", "user": USER}, {"name": "u", "user": {"exec": {}}}]),
            "does not have one user of the name",
        ),
        (kubeconfig(users=[]), "does not have one user of the name"),
        (kubeconfig(users={"u": USER}), "does not have one user of the name"),
        (kubeconfig(clusters=[{"name": "c", "cluster": "c"}]), "does not have one cluster of the name"),
        (kubeconfig() | {"current-context": ["x"]}, "has no current-context"),
        (kubeconfig() | {"current-context": "y"}, "does not have one context of the name"),
        (kubeconfig(extensions="x" * kubeconfig_secret.LARGEST), "is larger than 256 KiB"),
    ],
)
def test_an_ambiguous_or_huge_kubeconfig_is_refused(content: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(content)


def test_merged_aliases_take_no_memory() -> None:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 30)]
    with pytest.raises(ValueError, match="is not a kubeconfig"):
        kubeconfig_secret.parse_kubeconfig("\n".join(lines).encode(), "kubeconfig", WHERE)


def test_only_what_is_accepted_is_passed_on() -> None:
    content = kubeconfig(
        {**SERVER, "insecure-skip-tls-verify": False, "proxy-url": "", "extensions": [{"name": "m"}]},
        {**USER, "client-certificate-data": "Yw==", "client-key-data": "aw==", "exec": None},
        preferences={"colors": True},
    )
    content["users"].append({"name": "admin", "user": {"exec": {"command": "/bin/sh"}}})
    content["contexts"].append({"name": "admin", "context": {"cluster": "c", "user": "admin"}})
    accepted = {**USER, "client-certificate-data": "Yw==", "client-key-data": "aw=="}
    assert read(content) == kubeconfig(SERVER, accepted)


@pytest.mark.kubernetes
@pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning")
async def test_controllers_run_no_program_and_keep_the_replicas_of_the_cluster(
    fleet: Attacked, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    config = yaml.safe_load(fleet.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "/bin/sh",
            "args": ["-c", f"touch {ran}"],
        }
    }
    hostile = {"kubeconfig": base64.b64encode(yaml.safe_dump(config).encode()).decode()}
    async with fleet.controllers():
        await fleet.deploy("model", "team")
        await fleet.until_placed("model", "team")
        before = await fleet.workloads("team")
        assert before
        await fleet.client.patch(resources.SECRETS, "test-kubeconfig", {"data": hostile}, "modelplane-system")
        # The connection that is there stays, and the cluster says what will not be used again.
        said = await fleet.until_said(fleet_resources.INFERENCE_CLUSTERS, "test", "ClusterReady", "exec")
        assert (said["status"], said["reason"]) == ("True", "CredentialExpiring")
    async with fleet.controllers():
        said = await fleet.until_said(
            fleet_resources.INFERENCE_CLUSTERS, "test", "ClusterReady", "exec", status="False"
        )
        assert said["reason"] == "Unreachable"
        assert said["message"].endswith(
            'key "kubeconfig" of Secret "test-kubeconfig" in namespace "modelplane-system" is not accepted, '
            f"field 'users[].user.exec': {PROGRAM}"
        )
        assert await fleet.workloads("team") == before
    assert not ran.exists()


@pytest.mark.kubernetes
@pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning")
async def test_an_expired_credential_keeps_the_replicas_and_says_how_to_register_again(
    fleet: Attacked,
) -> None:
    config = yaml.safe_load(fleet.kubeconfig.read_text())
    valid = base64.b64encode(fleet.kubeconfig.read_bytes()).decode()
    config["users"][0]["user"] = {"token": "expired"}
    expired = base64.b64encode(yaml.safe_dump(config).encode()).decode()

    async def put(content: str) -> None:
        data = {"data": {"kubeconfig": content}}
        await fleet.client.patch(resources.SECRETS, "test-kubeconfig", data, "modelplane-system")

    cluster = (fleet_resources.INFERENCE_CLUSTERS, "test", "ClusterReady")
    async with fleet.controllers():
        await put(valid)
        await fleet.deploy("kept", "kept")
        await fleet.until_placed("kept", "kept")
        before = await fleet.workloads("kept")
        await put(expired)
        said = await fleet.until_said(*cluster, "may have expired", status="False")
        assert said["message"].endswith(
            "the API server does not accept the credential, which may have expired: store a new kubeconfig "
            'in Secret "test-kubeconfig" in namespace "modelplane-system", with the commands that '
            "`modelplane install --inference-cluster` prints"
        )
        assert await fleet.workloads("kept") == before
        await put(valid)
        await fleet.until_said(*cluster, "the API server answers", status="True")
        assert await fleet.workloads("kept") == before
