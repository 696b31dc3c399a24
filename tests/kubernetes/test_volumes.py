"""Volumes of pods that run as processes of the host, read by those processes at their mountPaths."""

import errno
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.runtime.other_processes import Process
from modelplane.kubelet.runtime.shim import TIMESTAMP_WIDTH, read_identity
from modelplane.kubelet.volumes import provisioning, volumes
from modelplane.local.kubernetes import cluster_objects
from support import ordinary_user
from support.files import holding
from support.fleets import ControlPlane
from support.node_agent import Agent, is_running, pod, python, running, status_of
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

SLEEP = "import time; time.sleep(1000)"
TELL = """
import json, os, stat, sys
def tell(path):
    if os.path.isdir(path):
        return {name: tell(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    try:
        with open(path, "ab"):
            writable = True
    except OSError as error:
        writable = error.errno
    with open(path) as file:
        return [file.read(), writable]
print(json.dumps({path: tell(path) for path in sys.argv[1:]}))
"""


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: a node that these tests leave behind is nobody else's."""
    return own_control_plane


@pytest.fixture
async def agent(control_plane: Any, client: Client) -> AsyncIterator[Agent]:
    for manifest in (*cluster_objects.build_cluster_roles(), *provisioning.build_storage_classes()):
        await client.apply(manifest)
    async with running(control_plane.home, control_plane.binary, client) as started:
        yield started


@pytest.fixture
async def objects(client: Client) -> AsyncIterator[None]:
    """A ConfigMap and a Secret."""
    made = (
        {"kind": "ConfigMap", "data": {"a.conf": "a", "run": "r"}, "binaryData": {"b": "/w=="}},
        {"kind": "Secret", "stringData": {"token": "hush", "other": "o"}},
    )
    for each in made:
        metadata = {"name": "made", "namespace": "default"}
        await client.create({"apiVersion": "v1", "metadata": metadata} | each)
    yield
    for resource in (resources.CONFIG_MAPS, resources.SECRETS):
        await client.delete(resource, "made", "default")


def claim(name: str, **spec: Any) -> Object:
    wanted = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": wanted | spec,
    }


def teller(*paths: str, **fields: Any) -> Object:
    """Return a container that prints what is at some paths."""
    return python(TELL, **fields) | {"command": [sys.executable, "-u", "-c", TELL, *paths]}


def mounting(name: str, container: Object, **mounted: Any) -> Object:
    """Return a pod that mounts volumes, each given as the volume and its mount, and that ends by itself."""
    entries = [{"name": key} | fields for key, (_, fields) in mounted.items()]
    described = [{"name": key} | volume for key, (volume, _) in mounted.items()]
    return pod(name, container | {"volumeMounts": entries}, volumes=described, restartPolicy="Never")


def at(path: str, **fields: Any) -> Object:
    return {"mountPath": path} | fields


def _ended(found: Object) -> bool:
    return "terminated" in status_of(found).get("state", {})


async def told(agent: Agent, manifest: Object) -> Any:
    """Run a pod to its end and return what it printed."""
    await agent.create(manifest)
    found = await agent.pod(manifest["metadata"]["name"], _ended)
    lines = [line[TIMESTAMP_WIDTH + 1 :] for line in agent.attempt(found).log.read_text().splitlines()]
    assert status_of(found)["state"]["terminated"]["exitCode"] == 0, lines
    return json.loads("\n".join(lines))


def _present(*paths: str) -> list[str]:
    """Return which of some paths this machine has."""
    return [path for path in paths if os.path.lexists(path)]


def _refusal(found: Object) -> Object:
    waiting: Object = status_of(found).get("state", {}).get("waiting", {})
    return waiting if "message" in waiting else {}


@pytest.mark.usefixtures("objects")
async def test_every_kind_of_volume_is_at_its_mount_path(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("on the host")
    await agent.create(claim("kept"))
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    name = {"path": "name/of-pod", "fieldRef": {"fieldPath": "metadata.name"}}
    token = {"secret": {"name": "made", "items": [{"key": "token", "path": "t"}]}}
    await told(
        agent,
        mounting(
            "writer",
            python("print(open('/claim/x', 'w').write('kept'))"),
            kept=({"persistentVolumeClaim": {"claimName": "kept"}}, at("/claim")),
        ),
    )
    manifest = mounting(
        "teller",
        teller(
            "/no/such/config",
            "/etc/no-such/one",
            "/secret",
            "/told",
            "/mixed",
            "/host",
            "/claim",
            "/empty",
            "/memory",
        ),
        config=(
            {"configMap": {"name": "made", "items": [{"key": "a.conf", "path": "deep/a"}]}},
            at("/no/such/config"),
        ),
        one=({"configMap": {"name": "made", "defaultMode": 0o755}}, at("/etc/no-such/one", subPath="run")),
        secret=({"secret": {"secretName": "made", "defaultMode": 0o400}}, at("/secret")),
        told=({"downwardAPI": {"items": [label, name]}}, at("/told")),
        mixed=(
            {"projected": {"sources": [token, {"configMap": {"name": "absent", "optional": True}}]}},
            at("/mixed"),
        ),
        host=({"hostPath": {"path": str(tmp_path), "type": "Directory"}}, at("/host")),
        claim=({"persistentVolumeClaim": {"claimName": "kept"}}, at("/claim", readOnly=True)),
        empty=({"emptyDir": {}}, at("/empty")),
        memory=({"emptyDir": {"medium": "Memory"}}, at("/memory")),
    )
    found = await told(agent, manifest)
    no = errno.EROFS
    assert found == {
        "/no/such/config": {"deep": {"a": ["a", no]}},
        "/etc/no-such/one": ["r", no],
        "/secret": {"other": ["o", no], "token": ["hush", no]},
        "/told": {"labels": ['test="teller"', no], "name": {"of-pod": ["teller", no]}},
        "/mixed": {"t": ["hush", no]},
        "/host": {"there": ["on the host", True]},
        "/claim": {"x": ["kept", no]},
        "/empty": {},
        "/memory": {},
    }
    assert _present("/no", "/etc/no-such", "/secret", "/told", "/mixed", "/host", "/claim") == []


@pytest.mark.usefixtures("objects")
async def test_what_secrets_hold_is_its_owners_alone_and_goes_before_the_pod(agent: Agent) -> None:
    manifest = mounting("secretive", python(SLEEP), s=({"secret": {"secretName": "made"}}, at("/secret")))
    manifest["metadata"]["finalizers"] = ["test.example/held"]
    await agent.create(manifest)
    found = await agent.pod("secretive", is_running)
    directory = agent.directory.get_pod(found["metadata"]["uid"])
    # That of the API server is etcd's, which is as private.
    found_in = holding(agent.home.root, b"hush")
    ours = [path for path in found_in if not path.is_relative_to(agent.home.etcd)]
    assert ours == [volumes.get_folder(directory).write_files("s") / "token"]
    private = [stat.S_IMODE(path.stat().st_mode) for path in (ours[0], ours[0].parent, agent.directory.path)]
    assert private == [0o600, 0o700, 0o700]
    await agent.client.delete(resources.PODS, "secretive", "default")

    async def cleared() -> bool:
        return not volumes.get_folder(directory).path.exists()

    await eventually(cleared)
    held = await agent.client.get(resources.PODS, "secretive", "default")
    assert held is not None
    await agent.client.patch(resources.PODS, "secretive", {"metadata": {"finalizers": []}}, "default")
    await agent.gone("secretive")
    await agent.forgotten(found)


@pytest.mark.parametrize(
    ("volume", "mount", "message"),
    [
        pytest.param(
            {"configMap": {"name": "absent"}},
            at("/x"),
            'cannot fill volume "v": ConfigMap "absent" does not exist: create it, or mark it optional',
            id="a ConfigMap that does not exist",
        ),
        pytest.param(
            {"hostPath": {"path": "/no/such/path"}},
            at("/x"),
            'volume "v" requires the file or directory "/no/such/path" on this machine: make it',
            id="a path that the machine has not",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "absent"}},
            at("/x"),
            'PersistentVolumeClaim "absent" does not exist: create it',
            id="a claim that does not exist",
        ),
        pytest.param(
            {"hostPath": {"path": "/proc/self"}},
            at("/x", subPath="root"),
            'the subPath "root" leads out of volume "v": name one within it',
            id="a subPath that is a link out of its volume",
        ),
        pytest.param(
            {"hostPath": {"path": "/proc/self/fd"}},
            at("/etc/passwd"),
            'cannot mount "/proc/self/fd" at "/etc/passwd": Not a directory',
            id="a directory over a file",
        ),
    ],
)
async def test_what_cannot_be_mounted_is_said_and_nothing_runs(
    agent: Agent, volume: Object, mount: Object, message: str
) -> None:
    await agent.create(mounting("hopeless", python(SLEEP), v=(volume, mount)))
    found = await agent.pod("hopeless", _refusal)
    assert _refusal(found)["message"] == message
    assert agent.directory.get_pod(found["metadata"]["uid"]).get_container("engine").list_attempts() == ()


async def test_each_pod_with_volumes_has_a_tmp_of_its_own_which_starts_empty(agent: Agent) -> None:
    source = "import os; print(os.path.exists('/tmp/left')); open('/tmp/left', 'w'); raise SystemExit(1)"
    first = mounting("first", python(source), e=({"emptyDir": {}}, at("/e")))
    first["spec"]["restartPolicy"] = "OnFailure"
    await agent.create(first)
    again = await agent.pod("first", lambda found: status_of(found).get("restartCount") == 1)
    attempt = agent.attempt(again)
    await eventually(lambda: _says(attempt.log, "False"))
    assert _present("/tmp/left") == []


async def _says(log: Path, words: str) -> bool:
    return words in log.read_text()  # noqa: ASYNC240 - a small file


def _mounts_of(pid: int) -> str:
    return Path(f"/proc/{pid}/mountinfo").read_text()


@pytest.mark.parametrize("stubborn", [False, True], ids=["asked to end", "killed"])
async def test_an_agent_that_was_killed_takes_over_a_pod_with_mounts(
    agent: Agent, tmp_path: Path, stubborn: bool
) -> None:
    (tmp_path / "weights").write_text("heavy")
    source = "import signal, subprocess, sys, time\n"
    source += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    source += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
    source += "print(open('/no-such/weights').read())\n" + SLEEP
    host = ({"hostPath": {"path": str(tmp_path)}}, at("/no-such"))
    manifest = mounting("adopted", python(source), host=host)
    manifest["spec"]["terminationGracePeriodSeconds"] = 2
    before = _mounts_of(os.getpid())
    await agent.create(manifest)
    found = await agent.pod("adopted", is_running)
    attempt = agent.attempt(found)
    engine = attempt.engine
    assert engine is not None
    await eventually(lambda: _says(attempt.log, "heavy"))
    (child,) = [Process(each.pid, read_identity(each.pid)) for each in psutil.Process(engine.pid).children()]
    assert " /no-such " in _mounts_of(engine.pid)
    agent.end(signal.SIGKILL)
    await agent.start()
    assert engine.alive
    assert is_running(await agent.pod("adopted", is_running))
    assert _mounts_of(os.getpid()) == before, "the machine's own mounts are as they were"
    await agent.client.delete(resources.PODS, "adopted", "default")
    await agent.gone("adopted")
    assert (engine.alive, child.alive) == (False, False)


async def test_a_pod_with_mounts_that_was_deleted_while_no_agent_ran_is_ended(agent: Agent) -> None:
    await agent.create(mounting("orphan", python(SLEEP), e=({"emptyDir": {}}, at("/e"))))
    found = await agent.pod("orphan", is_running)
    engine = agent.attempt(found).engine
    assert engine is not None
    agent.end(signal.SIGKILL)
    await agent.client.delete(resources.PODS, "orphan", "default", grace_period_s=0)
    await agent.start()
    await agent.forgotten(found)
    assert not engine.alive


def _as_ordinary_user(namespaces: int) -> tuple[str, ...]:
    return (sys.executable, ordinary_user.__file__, str(namespaces))


@pytest.mark.usefixtures("objects")
async def test_an_ordinary_user_has_volumes_too(agent: Agent) -> None:
    agent.end()
    agent.before = _as_ordinary_user(100)
    await agent.start()
    manifest = mounting(
        "ordinary",
        teller("/no/such", "/secret"),
        config=({"configMap": {"name": "made", "items": [{"key": "run", "path": "r"}]}}, at("/no/such")),
        secret=({"secret": {"secretName": "made"}}, at("/secret")),
    )
    no = errno.EROFS
    assert await told(agent, manifest) == {
        "/no/such": {"r": ["r", no]},
        "/secret": {"other": ["o", no], "token": ["hush", no]},
    }


async def test_where_the_kernel_refuses_only_pods_with_volumes_wait(agent: Agent) -> None:
    agent.end()
    agent.before = _as_ordinary_user(0)
    await agent.start()
    shared = mounting("shared", python(SLEEP), m=({"emptyDir": {"medium": "Memory"}}, at("/dev/shm")))
    await agent.create(mounting("mounting", python(SLEEP), e=({"emptyDir": {}}, at("/e"))))
    await agent.create(shared)
    await agent.create(pod("plain", python(SLEEP)))
    for name in ("shared", "plain"):
        assert is_running(await agent.pod(name, is_running))
    found = await agent.pod("mounting", _refusal)
    message = (
        "the pod's volumes cannot be mounted: the kernel allows private mounts only for root, because "
        "user.max_user_namespaces is 0 (cannot enter a mount namespace: No space left on device): set it "
        "with `sudo sysctl -w user.max_user_namespaces=15000`, remove the volumeMounts, or use a cluster "
        "whose nodes have a container runtime"
    )
    assert _refusal(found) == {"reason": "NamespaceRefused", "message": message}
    conditions = {each["type"]: each for each in found["status"]["conditions"]}
    assert conditions["PodReadyToStartContainers"]["message"] == message
    agent.end()
    agent.before = ()
    await agent.start()
    assert is_running(await agent.pod("mounting", is_running))
