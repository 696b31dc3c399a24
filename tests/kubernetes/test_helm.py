"""Helm releases: the linked helm, against a real API server, with charts from the loopback interface."""

import asyncio
import base64
import os
import signal
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.clouds.cluster_origin import KubeconfigSecret
from modelplane.compose.cluster.cluster_kubeconfig import INSTALLER
from modelplane.compose.composition import Composition, Desired
from modelplane.compose.readiness import condition_of, is_ready, is_true
from modelplane.controllers.helm import helm_program
from modelplane.controllers.helm.helm_program import HelmFailed, Host, Program
from modelplane.controllers.helm.release_control import Releases, place_of
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube import kubeconfig_secret, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from support.charts import Repository, package
from support.fleets import ControlPlane
from support.patience import PATIENCE_S
from support.service_accounts import kubeconfig

pytestmark = pytest.mark.kubernetes

VALUES = ("message", "refused", "hook", "agent")


@pytest.fixture(scope="module")
def repository(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    archive = package(kubernetes_binary, tmp_path_factory.mktemp("chart"))
    with Repository(archive).serving() as serving:
        yield serving


class Recorded(Host):
    """A host that records the command lines of helm."""

    lines: list[tuple[str, ...]]

    async def run(self, line: tuple[str, ...], *others: Any) -> None:
        self.lines.append(line)
        await super().run(line, *others)


class Bench:
    """Releases of one owner, on API servers that are one."""

    def __init__(self, plane: ControlPlane, client: Client, repository: Repository, namespace: str) -> None:
        self.client, self.repository, self.namespace = client, repository, namespace
        self.plane, self.installer = plane, ""
        self.kubeconfig = kubeconfig_secret.parse_kubeconfig(
            plane.kubeconfig.read_bytes(), "kubeconfig", "the file"
        )
        self.secrets: dict[str, Object] = {}
        self.lines: list[tuple[str, ...]] = []
        """The command lines of helm."""
        self.helm = Program((str(plane.binary), "helm"))
        self.changed = asyncio.Event()
        self.releases = self.begin()
        self._on: set[str] = set()

    def begin(self) -> Releases:
        """Begin as controllers do, with no memory."""
        access = SimpleNamespace(kubeconfig=self.kubeconfig)
        clusters: Any = SimpleNamespace(access=lambda _name: access, problem=lambda _name: "")
        host = Recorded(self.helm, clusters, self.secrets.get, self._installer, self._tell)
        host.lines = self.lines
        self.releases = Releases(host, first_retry_s=3600)
        return self.releases

    def _installer(self, _cluster: str) -> KubeconfigSecret | None:
        return KubeconfigSecret(name=self.installer) if self.installer else None

    def _tell(self, _uid: str) -> None:
        self.changed.set()

    @property
    def owner(self) -> Object:
        return {
            "kind": "ServingStack",
            "metadata": {
                "name": "stack",
                "uid": f"uid-{self.namespace}",
                "annotations": {labels.HELM_RELEASES: ",".join(sorted(self._on))},
            },
        }

    def release(self, key: str, cluster: str = "east", path: str = "charts", **spec: Any) -> Desired:
        repository = f"http://{self.repository.host}/{path}"
        values = {each: spec.pop(each) for each in VALUES if each in spec}
        chart = {"name": "demo", "repository": repository, "version": "1.0.0"} | spec.pop("chart", {})
        wanted = {"chart": chart, "namespace": self.namespace, "values": values} | spec
        manifest = {
            "apiVersion": "helm.m.crossplane.io/v1beta1",
            "kind": "Release",
            "metadata": {"name": key, "namespace": "modelplane-system"},
            "spec": {"forProvider": wanted},
        }
        return Desired(key, manifest, is_ready, cluster)

    def want(self, *children: Desired) -> None:
        """Ask for releases, and for no others."""
        self._on |= {"/".join(each) for child in children if (each := place_of(child))}
        for child in children:
            self.releases.want(self.owner, child)
        self.releases.prune(self.owner, Composition(children))

    async def until(self, key: str, holds: Callable[[Object], bool]) -> Object:
        """Return a release once it is as it should be."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self.changed.clear()
                seen = self.releases.observed(self.owner).get(key, {})
                if seen and holds(seen):
                    return seen
                await self.changed.wait()

    async def until_gone(self, *keys: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not self.releases.observed(self.owner).keys().isdisjoint(keys):
                self.changed.clear()
                await self.changed.wait()

    async def message(self, release: str) -> str:
        settings = await self.client.get(resources.CONFIG_MAPS, f"{release}-settings", self.namespace)
        return settings["data"]["message"] if settings else ""


@pytest.fixture
async def bench(
    own_control_plane: ControlPlane, repository: Repository, request: pytest.FixtureRequest
) -> AsyncIterator[Bench]:
    namespace = f"helm-{zlib.crc32(request.node.name.encode())}"
    async with Client.from_kubeconfig(str(own_control_plane.kubeconfig)) as client:
        prepared = Bench(own_control_plane, client, repository, namespace)
        yield prepared
        await prepared.releases.close()


def settled(release: Object) -> bool:
    return is_ready(release) and is_true(release, "Synced")


def failed(release: Object) -> bool:
    return str(condition_of(release, "Synced")["reason"]) == "ReconcileError"


async def test_a_release_is_installed_upgraded_and_rolled_back(bench: Bench) -> None:
    bench.want(bench.release("demo", message="one"))
    installed = await bench.until("demo", settled)
    assert installed["status"]["atProvider"] == {
        "state": "deployed",
        "revision": 1,
        "releaseDescription": "Install complete",
    }
    assert await bench.message("demo") == "one"
    [record] = (await bench.client.list(resources.SECRETS, bench.namespace, labels="owner=helm")).items
    of_children = {labels.MANAGED_BY, labels.OWNER_UID}
    assert not of_children & record["metadata"]["labels"].keys(), "it would be deleted as a child"
    bench.want(bench.release("demo", message="one"))
    bench.want(bench.release("demo", message="two"))
    await bench.until("demo", lambda seen: settled(seen) and seen["status"]["atProvider"]["revision"] == 2)
    assert [line[0] for line in bench.lines] == ["upgrade", "upgrade"], "what is unchanged costs no process"
    bench.want(bench.release("demo", message="three", refused="chosen"))
    back = await bench.until("demo", lambda seen: failed(seen) and bench.lines[-1][0] == "rollback")
    assert "not an address chosen" in condition_of(back, "Synced")["message"]
    assert is_ready(back)
    assert await bench.message("demo") == "two"


async def test_releases_are_uninstalled_one_by_one_the_last_installed_first(bench: Bench) -> None:
    for key in ("base", "middle", "top"):
        bench.want(*(bench.release(each) for each in ("base", "middle", "top")[: len(bench.lines) + 1]))
        await bench.until(key, settled)
    forged = {
        labels.RELEASE_OWNER: bench.owner["metadata"]["uid"],
        labels.CHILD: "forged",
        "owner": "helm",
        "name": "forged",
        "version": "1",
        "status": "deployed",
    }
    metadata = {"name": "sh.helm.release.v1.forged.v1", "namespace": "default", "labels": forged}
    await bench.client.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1"}
    )
    bench.want(bench.release("middle"))
    await bench.until_gone("base", "top")
    assert "forged" not in bench.releases.observed(bench.owner), "its removal would delete what it lists"
    assert [line[:2] for line in bench.lines[3:]] == [("uninstall", "top"), ("uninstall", "base")]
    left = await bench.client.list(resources.CONFIG_MAPS, bench.namespace)
    assert {item["metadata"]["name"] for item in left.items} >= {"middle-settings"}
    assert not {"top-settings", "base-settings"} & {item["metadata"]["name"] for item in left.items}


def _kill_helm() -> None:
    """Kill the helm processes of this process, as nothing can prevent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                line = (folder / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == os.getpid() and b"upgrade" in line:
                os.kill(int(folder.name), signal.SIGKILL)


async def _pending(bench: Bench, release: str) -> None:
    """Wait until helm waits for a hook that never ends."""
    async with asyncio.timeout(PATIENCE_S):
        while not await bench.client.get(resources.JOBS, f"{release}-hook", bench.namespace):
            await asyncio.sleep(0.05)


async def test_what_a_killed_helm_leaves_is_repaired(bench: Bench) -> None:
    bench.want(bench.release("demo", message="one", hook=True))
    await _pending(bench, "demo")
    _kill_helm()
    # Nothing was ever installed: what is left is removed.
    interrupted = await bench.until("demo", lambda seen: failed(seen) and bench.lines[-1][0] == "uninstall")
    assert "killed by signal 9" in condition_of(interrupted, "Synced")["message"]
    assert not is_ready(interrupted)
    bench.want(bench.release("demo", message="one"))
    await bench.until("demo", settled)
    await bench.client.delete(resources.JOBS, "demo-hook", bench.namespace)
    bench.want(bench.release("demo", message="two", hook=True))
    await _pending(bench, "demo")
    _kill_helm()
    await bench.releases.close()
    bench.lines.clear()
    # The controllers start again, and find an upgrade that nobody carries out.
    bench.begin()
    bench.want(bench.release("demo", message="one"))
    await bench.until("demo", settled)
    assert bench.lines[0][0] == "rollback"
    assert await bench.message("demo") == "one"


async def test_a_change_does_not_wait_for_the_run_before_it(bench: Bench) -> None:
    bench.want(bench.release("demo", message="one", hook=True))
    await _pending(bench, "demo")
    bench.want(bench.release("demo", message="two", agent=False, wait=True))
    await bench.until("demo", settled)
    assert await bench.message("demo") == "two"
    await bench.client.delete(resources.JOBS, "demo-hook", bench.namespace)
    bench.want(bench.release("demo", message="three", hook=True))
    await _pending(bench, "demo")
    bench.want()
    await bench.until_gone("demo")


async def test_a_chart_is_read_from_an_oci_registry(bench: Bench) -> None:
    repository = f"oci://{bench.repository.host}/charts"
    bench.want(bench.release("demo", chart={"repository": repository}, plainHTTP=True))
    await bench.until("demo", settled)


@pytest.mark.parametrize(("path", "cause"), [("missing", "404"), ("corrupt", "unable to load chart archive")])
async def test_a_wrong_repository_is_a_condition(bench: Bench, path: str, cause: str) -> None:
    bench.want(bench.release("demo", path=path))
    seen = await bench.until("demo", failed)
    assert cause in condition_of(seen, "Synced")["message"]
    assert not is_ready(seen)


async def test_a_slow_repository_delays_no_other_cluster(bench: Bench) -> None:
    bench.repository.held.clear()
    bench.repository.let_go.clear()
    bench.want(bench.release("slow", "east", "slow"), bench.release("quick", "west"))
    await asyncio.to_thread(bench.repository.held.wait, PATIENCE_S)
    await bench.until("quick", settled)
    assert condition_of(bench.releases.observed(bench.owner)["slow"], "Synced")["reason"] == "Installing"
    bench.repository.let_go.set()
    await bench.until("slow", settled)


async def test_a_release_of_others_is_left_alone(bench: Bench) -> None:
    bench.want(bench.release("demo", message="theirs"))
    await bench.until("demo", settled)
    await bench.releases.close()
    bench.lines.clear()
    bench.begin()
    another = bench.release("demo", message="ours")
    stranger = {**bench.owner, "metadata": {**bench.owner["metadata"], "uid": "uid-x", "name": "other"}}
    bench.releases.want(stranger, another)
    async with asyncio.timeout(PATIENCE_S):
        while not (seen := bench.releases.observed(stranger).get("demo")) or not seen.get("status"):
            await asyncio.sleep(0.05)
        while condition_of(bench.releases.observed(stranger)["demo"], "Synced")["reason"] == "Waiting":
            await asyncio.sleep(0.05)
    seen = bench.releases.observed(stranger)["demo"]
    assert condition_of(seen, "Synced")["reason"] == "NotModelplanes"
    assert "belongs to another owner: uninstall it with helm" in condition_of(seen, "Ready")["message"]
    bench.releases.prune(stranger, Composition())
    await asyncio.sleep(0)
    assert bench.lines == []
    assert await bench.message("demo") == "theirs"


async def test_the_identity_that_serves_cannot_install_a_chart_and_the_one_that_installs_can(
    bench: Bench, tmp_path: Path
) -> None:
    for manifest in cluster_requirements.build_manifests(installer=True):
        await bench.client.apply(manifest)
    for account in (INFERENCE_CLUSTER, INSTALLER):
        content = kubeconfig(bench.plane, account, tmp_path / account).read_bytes()
        bench.secrets[account] = {"data": {"kubeconfig": base64.b64encode(content).decode()}}
    bench.installer = INFERENCE_CLUSTER
    bench.want(bench.release("demo"))
    refused = await bench.until("demo", lambda seen: condition_of(seen, "Synced")["reason"] == "Unreadable")
    assert "secrets is forbidden" in condition_of(refused, "Synced")["message"]
    serving = kubeconfig_secret.parse_kubeconfig(
        (tmp_path / INFERENCE_CLUSTER).read_bytes(), "kubeconfig", "the file"
    )
    line = ("upgrade", "demo", "demo", "--install", "--repo", f"http://{bench.repository.host}/charts")
    with pytest.raises(HelmFailed, match="forbidden"):
        await helm_program.run_helm(bench.helm, line, serving, {}, limit_s=PATIENCE_S)
    bench.installer = INSTALLER
    await bench.releases.close()
    bench.begin()
    bench.want(bench.release("demo"))
    await bench.until("demo", settled)
