"""Registration as it is carried out: in steps that a second run completes, and for one cluster only."""

import base64
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from modelplane.api import labels
from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.controllers import fleet_resources
from modelplane.install.registration.account_kubeconfigs import Address
from modelplane.install.registration.observed import Node, Observed, Published
from modelplane.install.registration.registering import Registration, Sides
from modelplane.install.registration.registration_proposal import Choices, Proposal, propose
from modelplane.install.waiting import Deadline, NotInTime
from modelplane.kube.client import Client
from modelplane.kube.errors import KubernetesError
from modelplane.user_error import UserError
from support.tokens import token

Object = dict[str, Any]

UID = "3a8df9b1-c462-47d1-bbdb-c896a85cfef2"
SERVER = "https://10.0.0.1:6443"
CLUSTERS = "/apis/modelplane.ai/v1alpha1/inferenceclusters"
SECRET = "/api/v1/namespaces/modelplane-system/secrets/gpu-1-kubeconfig"
SECRET_NAME = "gpu-1-kubeconfig"
GPU = Published("gpu.nvidia.com", {"type": "gpu"}, {"memory": "81559Mi"})


class Server:
    """An API server that keeps what is applied to it, and fails at one write if told so."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes: list[str] = []
        self.fails_at = -1
        self.conflicts = 0
        """Changes that are to be refused because another writer was first."""
        self.conditions: list[Object] = [{"type": "Ready", "status": "True"}]
        self._version = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if request.method == "GET":
            return self._read(path)
        if len(self.writes) == self.fails_at:
            self.fails_at = -1
            return httpx2.Response(500, json={"kind": "Status", "message": "it was interrupted"})
        body = json.loads(request.content)
        if "resourceVersion" in body.get("metadata", {}) and self.conflicts:
            self.conflicts -= 1
            return httpx2.Response(409, json={"kind": "Status", "message": "it was changed"})
        self.writes.append(path)
        if path.endswith("/token"):
            account = path.split("/")[-2]
            now = time.time()
            granted = token(f"system:serviceaccount:modelplane-system:{account}", iat=now, exp=now + 3600)
            return httpx2.Response(201, json={"kind": "TokenRequest", "status": {"token": granted}})
        return httpx2.Response(200, json=self._write(path, body))

    def _read(self, path: str) -> httpx2.Response:
        if path in self.objects:
            return httpx2.Response(200, json=self.objects[path])
        if path.rpartition("/")[2] in ("inferenceclusters", "namespaces"):
            items = [each for key, each in self.objects.items() if key.rpartition("/")[0] == path]
            found = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}
            return httpx2.Response(200, json=found)
        return httpx2.Response(404, json={"kind": "Status", "message": f'"{path}" not found'})

    def _write(self, path: str, body: Object) -> Object:
        before = self.objects.get(path, {"metadata": {"resourceVersion": "0"}})
        after = before | {key: value for key, value in body.items() if not isinstance(value, dict)}
        for part in (key for key, value in body.items() if isinstance(value, dict)):
            after[part] = before.get(part, {}) | body[part]
        if path.startswith(f"{CLUSTERS}/"):
            after["status"] = {"conditions": self.conditions}
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if after != before:
            self._version += 1
            after["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = after
        return after

    def client(self) -> Client:
        http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(self))
        return Client(http, "modelplane-cli", known=fleet_resources.find_known)

    @property
    def content(self) -> dict[str, Object]:
        """The objects without their versions, and without tokens."""
        plain = json.loads(json.dumps(self.objects))
        for each in plain.values():
            each["metadata"].pop("resourceVersion")
            if each["kind"] == "Secret":
                each["data"] = "a kubeconfig"
        return dict(plain)


def with_nodes() -> Server:
    """Return a cluster with two nodes."""
    server = Server()
    for name in ("a", "b"):
        metadata = {"name": name, "resourceVersion": "0"}
        server.objects[f"/api/v1/nodes/{name}"] = {"kind": "Node", "metadata": metadata}
    return server


@pytest.fixture
def plane() -> Server:
    return Server()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The cluster, which also answers those who come with a stored kubeconfig."""
    server = with_nodes()
    monkeypatch.setattr(Client, "from_kubeconfig", lambda *_arguments, **_options: server.client())
    return server


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return _address(tmp_path, server=SERVER)


def _address(folder: Path, **cluster: object) -> Address:
    path = folder / "kubeconfig"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "me", "user": {"exec": {"command": "/bin/true"}, "token": "my-own-token"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return Address.from_file(path, "")


def proposal(name: str = "gpu-1", uid: str = UID) -> Proposal:
    nodes = (Node("a", devices=(GPU,)), Node("b", devices=(GPU,)))
    return propose(Choices(name, {}), Observed(uid, "v1.34.1", nodes, dra_versions=("v1",)), load_catalogue())


async def register(
    proposed: Proposal, plane: Server, gpu: Server, address: Address, timeout_s: float = 30
) -> tuple[bool, list[str]]:
    said: list[str] = []
    async with plane.client() as control_plane, gpu.client() as cluster:
        sides = Sides(control_plane, cluster, address, 3600)
        changed = await Registration(proposed, sides, said.append, Deadline(timeout_s)).register()
    return changed, said


async def test_a_second_run_changes_nothing(plane: Server, gpu: Server, address: Address) -> None:
    changed, _ = await register(proposal(), plane, gpu, address)
    assert changed
    before = (json.dumps(plane.objects), json.dumps(gpu.objects))
    labeled = tuple(replace(node, labels={labels.POOL: "gpu-1x"}) for node in proposal().observed.nodes)
    again = proposal()
    [pool] = again.hardware.pools
    assert pool.name == "gpu-1x"
    again = propose(again.choices, replace(again.observed, nodes=labeled), load_catalogue())
    changed, said = await register(again, plane, gpu, address)
    assert not changed
    assert (json.dumps(plane.objects), json.dumps(gpu.objects)) == before
    assert said[-1] == 'InferenceCluster "gpu-1" is ready'


async def test_a_run_that_is_interrupted_at_any_write_is_completed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, address: Address
) -> None:
    whole = [Server(), with_nodes()]
    monkeypatch.setattr(Client, "from_kubeconfig", lambda *_arguments, **_options: whole[1].client())
    await register(proposal(), whole[0], whole[1], address)
    for side, complete in enumerate(whole):
        for write in range(len(complete.writes)):
            both = [Server(), with_nodes()]
            both[side].fails_at = write
            with pytest.raises(KubernetesError, match="it was interrupted"):
                await register(proposal(), both[0], both[1], address)
            await register(proposal(), both[0], both[1], address)
            assert [each.content for each in both] == [each.content for each in whole], (side, write)


@pytest.mark.parametrize(("conflicts", "is_written"), [(3, True), (10, False)])
async def test_a_change_of_the_status_meanwhile_is_no_failure_unless_there_is_no_end_of_them(
    plane: Server, gpu: Server, address: Address, conflicts: int, is_written: bool
) -> None:
    plane.objects[f"{CLUSTERS}/gpu-1"] = _registered("gpu-1")
    plane.conflicts = conflicts
    if not is_written:
        with pytest.raises(KubernetesError, match="the control plane: it was changed"):
            await register(proposal(), plane, gpu, address)
        return
    assert (await register(proposal(), plane, gpu, address))[0]
    found = plane.objects[f"{CLUSTERS}/gpu-1"]
    assert found["metadata"]["annotations"] == {labels.CLUSTER_UID: UID}
    assert [pool["name"] for pool in found["spec"]["nodePools"]] == ["gpu-1x"]


async def test_the_users_own_credential_is_not_stored(plane: Server, gpu: Server, address: Address) -> None:
    await register(proposal(), plane, gpu, address)
    text = base64.b64decode(plane.objects[SECRET]["data"]["kubeconfig"]).decode()
    content = yaml.safe_load(text)
    assert (sorted(content["users"][0]["user"]), content["clusters"][0]["cluster"]) == (
        ["token"],
        {"server": SERVER},
    )
    assert "my-own-token" not in text
    assert "exec" not in text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("server", "http://10.0.0.1"),
        ("insecure-skip-tls-verify", True),
        ("proxy-url", "http://proxy"),
        ("tls-server-name", "other"),
    ],
)
def test_an_address_that_the_controllers_would_not_use_is_refused(
    tmp_path: Path, field: str, value: object
) -> None:
    address = _address(tmp_path, **({"server": SERVER} | {field: value}))
    with pytest.raises(UserError, match=f"field .clusters\\[\\].cluster.{field}.: "):
        address.build_kubeconfig("a.b.c")


def test_the_authority_in_a_file_is_part_of_the_address(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("an authority")
    address = _address(tmp_path, **{"server": SERVER, "certificate-authority": "ca.crt"})
    assert base64.b64decode(address.fields["certificate-authority-data"]) == b"an authority"


def _registered(
    name: str, uid: str = "", secret: str = "gpu-1-kubeconfig", source: str = "Existing"
) -> Object:
    annotations = {labels.CLUSTER_UID: uid} if uid else {}
    return {
        "kind": "InferenceCluster",
        "metadata": {"name": name, "annotations": annotations, "resourceVersion": "1"},
        "spec": {"cluster": {"source": source, "existing": {"secretRef": {"name": secret}}}},
    }


def _secret(server: str) -> Object:
    address = Address({"server": server}, "a test")
    data = {"kubeconfig": base64.b64encode(address.build_kubeconfig("a.b.c").encode()).decode()}
    return {"kind": "Secret", "metadata": {"name": "gpu-1-kubeconfig", "resourceVersion": "1"}, "data": data}


@pytest.mark.parametrize(
    ("path", "found", "problem"),
    [
        pytest.param(
            f"{CLUSTERS}/gpu-1",
            _registered("gpu-1", "another"),
            "is a different cluster",
            id="of another cluster",
        ),
        pytest.param(
            f"{CLUSTERS}/gpu-2",
            _registered("gpu-2", UID),
            'as InferenceCluster "gpu-2"',
            id="of another name",
        ),
        pytest.param(
            f"{CLUSTERS}/gpu-1", _registered("gpu-1", source="GKE"), "is provisioned by", id="of a cloud"
        ),
        pytest.param(
            f"{CLUSTERS}/gpu-1", _registered("gpu-1", secret="mine"), "registered by hand", id="by hand"
        ),
        pytest.param(SECRET, _secret("https://10.0.0.9"), "for another API server", id="a Secret of another"),
        pytest.param(
            SECRET,
            {"kind": "Secret", "metadata": {"name": "gpu-1-kubeconfig", "resourceVersion": "1"}, "data": {}},
            "for another API server",
            id="a Secret of something else",
        ),
    ],
)
async def test_a_name_that_is_not_the_clusters_is_refused_before_anything_is_written(
    plane: Server, gpu: Server, address: Address, path: str, found: Object, problem: str
) -> None:
    plane.objects[path] = found
    with pytest.raises(UserError, match=problem):
        await register(proposal(), plane, gpu, address)
    assert (plane.writes, gpu.writes) == ([], [])


async def test_a_cluster_without_a_uid_or_with_a_problem_is_refused(
    plane: Server, gpu: Server, address: Address
) -> None:
    with pytest.raises(UserError, match="did not return the uid of namespace kube-system"):
        await register(proposal(uid=""), plane, gpu, address)
    old = replace(proposal(), observed=replace(proposal().observed, dra_versions=()))
    with pytest.raises(UserError, match="upgrade the cluster to Kubernetes"):
        await register(old, plane, gpu, address)
    assert (plane.writes, gpu.writes) == ([], [])


async def test_the_condition_that_holds_the_cluster_up_is_the_error(
    plane: Server, gpu: Server, address: Address
) -> None:
    plane.conditions = [
        {"type": "ClusterReady", "status": "True", "reason": "ClusterRunning"},
        {"type": "BackendReady", "status": "False", "reason": "Installing", "message": "1 of 8"},
    ]
    said = r'InferenceCluster "gpu-1": BackendReady is False \(Installing\): 1 of 8'
    with pytest.raises(NotInTime, match=said):
        await register(proposal(), plane, gpu, address, timeout_s=0)
