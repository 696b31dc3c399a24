import asyncio
import socket
import stat
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import modelplane
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.kubelet.cannot_start import CannotStart
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import Recorder
from modelplane.kubelet.records import AgentDirectory, PodRecord
from modelplane.kubelet.runtime.container_environment import Sources
from modelplane.kubelet.volumes import volumes
from modelplane.kubelet.volumes.mounts import Mount

RECORD = PodRecord("ml-team", "qwen-0", "u-1", "127.77.1.2")


class Objects:
    """The objects of an API server, by kind and name."""

    def __init__(self, *objects: Object) -> None:
        self._objects = {(each["kind"], each["metadata"]["name"]): each for each in objects}

    async def get(self, resource: Resource, name: str, _namespace: str | None = None) -> Object | None:
        return self._objects.get((resource.kind, name))


def mounted(
    folder: Path,
    volume: dict[str, Any],
    *objects: Object,
    sources: Sources | None = None,
    host_commands: bool = False,
    **mount: Any,
) -> Mount:
    """Return how a container gets one volume."""
    client = cast("Client", Objects(*objects))
    machine = Machine(
        client, AgentDirectory(folder / "agent"), (), Recorder(client, "local"), host_commands=host_commands
    )
    container = {"name": "engine", "volumeMounts": [{"name": "v", "mountPath": "/x"} | mount]}
    pod = {
        "metadata": {"name": "qwen-0", "namespace": "ml-team", "uid": "u-1"},
        "spec": {"volumes": [{"name": "v"} | volume], "containers": [container]},
    }
    variables = {"POD": "qwen-0"}
    (found,) = asyncio.run(
        volumes.build_mounts(machine, pod, container, RECORD, variables, sources or Sources())
    )
    return found


def own(folder: Path) -> volumes.PodVolumes:
    return volumes.get_folder(AgentDirectory(folder / "agent").get_pod("u-1"))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


MAKERS = {
    "file": Path.touch,
    "directory": Path.mkdir,
    "socket": _socket,
    "link": lambda path: path.symlink_to("/dev/null"),
    "nothing": lambda _path: None,
}


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        ("", {"file", "directory", "socket", "link"}),
        ("Directory", {"directory"}),
        ("DirectoryOrCreate", {"directory", "nothing"}),
        ("File", {"file"}),
        ("FileOrCreate", {"file", "nothing"}),
        ("Socket", {"socket"}),
        ("CharDevice", {"link"}),
        ("BlockDevice", set()),
    ],
    ids=lambda value: (value or "any") if isinstance(value, str) else "",
)
def test_a_path_of_the_host_is_what_its_type_says(tmp_path: Path, kind: str, accepted: set[str]) -> None:
    found = set()
    for name, make in MAKERS.items():
        path = tmp_path / name
        make(path)
        try:
            mount = mounted(tmp_path, {"hostPath": {"path": str(path), "type": kind}}, host_commands=True)
        except CannotStart:
            continue
        assert mount == Mount(path, "/x", read_only=False)
        assert path.exists()
        found.add(name)
    assert found == accepted


def test_a_path_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "below")
    with pytest.raises(CannotStart) as caught:
        mounted(tmp_path, {"hostPath": {"path": path, "type": "DirectoryOrCreate"}})
    assert str(caught.value) == f'volume "v" cannot have "{path}": Not a directory'


def test_an_empty_folder_is_there_and_goes_with_its_pod(tmp_path: Path) -> None:
    mount = mounted(tmp_path, {"emptyDir": {}}, mountPath="/x/", readOnly=True)
    assert mount == Mount(own(tmp_path).make_empty("v"), "/x", read_only=True)
    assert mount.source.stat().st_mode & 0o777 == 0o777, "a container of any user may write"
    AgentDirectory(tmp_path / "agent").get_pod("u-1").remove()
    assert not mount.source.exists()


@pytest.mark.parametrize(
    ("volume", "target", "source"),
    [
        pytest.param({"emptyDir": {"medium": "Memory"}}, "/dev/shm", "/dev/shm", id="shared memory"),
        pytest.param({"emptyDir": {}}, "/dev/shm", "/dev/shm", id="shared memory, whatever the medium"),
        pytest.param({"emptyDir": {"medium": "Memory"}}, "/cache", "", id="memory elsewhere"),
    ],
)
def test_memory(tmp_path: Path, volume: dict[str, Any], target: str, source: str) -> None:
    expected = Path(source) if source else own(tmp_path).make_empty("v")
    mount = mounted(tmp_path, volume, mountPath=target)
    assert mount == Mount(expected, target, read_only=False, in_memory=True)


@pytest.mark.parametrize("target", ["/dev/shm", "/cache"])
def test_memory_of_a_size(tmp_path: Path, target: str) -> None:
    volume = {"emptyDir": {"medium": "Memory", "sizeLimit": "1.5Ki"}}
    assert mounted(tmp_path, volume, mountPath=target).size_bytes == 1536


def test_what_is_made_of_objects_is_its_owners_and_nothing_else_stays(tmp_path: Path) -> None:
    def fill(**data: str) -> Path:
        sources = Sources(config_maps={"settings": {"data": data}})
        mount = mounted(tmp_path, {"configMap": {"name": "settings"}}, sources=sources)
        assert mount.read_only
        return mount.source

    first = fill(a="1", b="2")
    assert stat.S_IMODE((first / "a").stat().st_mode) == 0o600
    with (first / "b").open() as open_before:
        second = fill(b="3")
        assert {path.name: path.read_text() for path in second.iterdir()} == {"b": "3"}
        assert open_before.read() == "2", "a file that is open stays as it was"
    assert stat.S_IMODE(second.stat().st_mode) == 0o700


def claim(phase: str = "Bound") -> Object:
    about = {"name": "weights", "namespace": "ml-team"}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": about,
        "spec": {"volumeName": "pvc-1"},
        "status": {"phase": phase},
    }


def persistent(**source: Any) -> Object:
    return {"kind": "PersistentVolume", "metadata": {"name": "pvc-1"}, "spec": source}


CLAIMED = {"persistentVolumeClaim": {"claimName": "weights", "readOnly": True}}


def test_a_claims_folder_is_made_once_its_pod_is_known_to_use_it(tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "volumes" / "pvc-1"
    made = persistent(local={"path": str(folder)})
    assert mounted(tmp_path, CLAIMED, claim(), made) == Mount(folder, "/x", read_only=True)
    assert folder.is_dir()
    assert own(tmp_path).claim("pvc-1").readlink() == folder


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param((), 'PersistentVolumeClaim "weights" does not exist: create it', id="no claim"),
        pytest.param(
            (claim("Pending"),),
            'PersistentVolumeClaim "weights" is not bound to a volume yet',
            id="a claim without a volume",
        ),
        pytest.param(
            (claim(), persistent(nfs={"server": "s"})),
            'PersistentVolumeClaim "weights" is bound to a volume that is not a folder on this machine: use '
            'one of the StorageClass "modelplane-local"',
            id="a volume from elsewhere",
        ),
        pytest.param(
            (claim(), persistent(hostPath={"path": "/no/such/path"})),
            'PersistentVolumeClaim "weights" is bound to "/no/such/path", which does not exist '
            "on this machine: make "
            "it",
            id="a folder that is not ours to make",
        ),
    ],
)
def test_a_claim_that_cannot_be_had_is_named(
    tmp_path: Path, objects: tuple[Object, ...], message: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        mounted(tmp_path, CLAIMED, *objects)
    assert str(caught.value) == message


def test_a_sub_path_is_made_below_its_volume_and_may_name_variables(tmp_path: Path) -> None:
    mount = mounted(tmp_path, {"emptyDir": {}}, subPathExpr="of/$(POD)")
    assert mount.source == own(tmp_path).make_empty("v") / "of" / "qwen-0"
    assert mount.source.is_dir()


@pytest.mark.parametrize(
    ("volume", "below", "message"),
    [
        pytest.param(
            {"hostPath": {"path": "/proc/self"}},
            "root/etc",
            'the subPath "root/etc" leads out of volume "v": name one within it',
            id="a link that leads out",
        ),
        pytest.param(
            {"configMap": {"name": "absent", "optional": True}},
            "key",
            'volume "v" has nothing at the subPath "key"',
            id="a key that is absent",
        ),
    ],
)
def test_a_sub_path_that_cannot_be(tmp_path: Path, volume: dict[str, Any], below: str, message: str) -> None:
    with pytest.raises(CannotStart) as caught:
        mounted(tmp_path, volume, subPath=below)
    assert str(caught.value) == message


def test_a_volume_is_in_use_until_what_mounts_it_has_settled(tmp_path: Path) -> None:
    directory = AgentDirectory(tmp_path / "agent")
    assert not volumes.is_in_use(directory, "pvc-1")
    folder = tmp_path / "agent" / "volumes" / "pvc-1"
    mounted(tmp_path, CLAIMED, claim(), persistent(local={"path": str(folder)}))
    assert not volumes.is_in_use(directory, "pvc-1"), "nothing runs yet"
    attempt = directory.get_pod("u-1").get_container("engine").make_attempt()
    assert volumes.is_in_use(directory, "pvc-1")
    assert not volumes.is_in_use(directory, "pvc-2")
    attempt.settle()
    assert not volumes.is_in_use(directory, "pvc-1")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(modelplane.__path__[0], id="the agent's packages"),
        pytest.param(str(Path(modelplane.__path__[0]).parents[1]), id="the checkout"),
        pytest.param(f"{modelplane.__path__[0]}/kubelet/volumes", id="one package"),
        pytest.param(sys.prefix, id="the environment"),
        pytest.param(f"/proc/self/root{sys.prefix}", id="the environment, through proc"),
    ],
)
def test_the_programs_of_the_machine_are_a_volume_that_can_only_be_read(tmp_path: Path, path: str) -> None:
    volume = {"hostPath": {"path": path}}
    with pytest.raises(CannotStart) as caught:
        mounted(tmp_path, volume)
    assert "which contains this machine's programs: set readOnly in its volumeMount" in str(caught.value)
    assert mounted(tmp_path, volume, readOnly=True).read_only


HOME = Path("~").expanduser()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/etc", id="etc"),
        pytest.param("/etc/ssl", id="below etc"),
        pytest.param("/var", id="var"),
        pytest.param("/opt", id="opt"),
        pytest.param("/proc/self/root/etc", id="etc, through proc"),
        pytest.param(str(HOME), id="the home"),
        pytest.param(f"{HOME}/new-of-a-test", id="below the home"),
    ],
)
def test_places_of_the_machine_are_volumes_that_can_only_be_read(tmp_path: Path, path: str) -> None:
    volume = {"hostPath": {"path": path}}
    if "new" in path:
        volume["hostPath"]["type"] = "DirectoryOrCreate"
    with pytest.raises(CannotStart, match="set readOnly in its volumeMount"):
        mounted(tmp_path, volume)
    assert not Path(f"{HOME}/new-of-a-test").exists(), "nothing is made there either"
    if Path(path).exists():
        assert mounted(tmp_path, volume, readOnly=True).read_only


@pytest.mark.parametrize("read_only", [False, True], ids=["written", "only read"])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/run", id="run, with the sockets of the system"),
        pytest.param("/var/run", id="run, through a link"),
        pytest.param("/proc", id="proc, with the settings of the kernel"),
        pytest.param("/proc/self/root/run", id="run, through proc"),
        pytest.param("/sys", id="sys"),
        pytest.param("/dev", id="dev"),
        pytest.param("/dev/null", id="a device"),
        pytest.param("/tmp/../dev", id="dev, by dots"),
    ],
)
def test_what_acts_on_the_machine_is_no_volume(tmp_path: Path, path: str, *, read_only: bool) -> None:
    with pytest.raises(CannotStart, match="the path reaches this machine's programs"):
        mounted(tmp_path, {"hostPath": {"path": path}}, readOnly=read_only)


@pytest.mark.parametrize("kind", ["", "Socket"])
def test_a_socket_of_the_machine_is_no_volume(tmp_path: Path, kind: str) -> None:
    """Who connects to a socket acts, also through a mount that can only be read."""
    there = tmp_path / "there"
    there.mkdir()
    _socket(there / "docker.sock")
    (there / "link").symlink_to("docker.sock")
    for name in ("docker.sock", "link"):
        volume = {"hostPath": {"path": str(there / name), "type": kind}}
        with pytest.raises(CannotStart, match="the path reaches this machine's programs"):
            mounted(tmp_path, volume, readOnly=True)
    with pytest.raises(CannotStart, match="the path reaches this machine's programs"):
        mounted(tmp_path, {"hostPath": {"path": str(there)}}, subPath="docker.sock", readOnly=True)


def test_a_volume_of_the_administrator_is_where_the_administrator_put_it(tmp_path: Path) -> None:
    """Who creates pods does not create PersistentVolumes."""
    objects = (claim(), persistent(hostPath={"path": "/etc/ssl"}))
    found = mounted(tmp_path, {"persistentVolumeClaim": {"claimName": "weights"}}, *objects)
    assert found == Mount(Path("/etc/ssl"), "/x", read_only=False)
    assert found.real == Path("/etc/ssl").resolve()


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_nothing_is_made_in_a_place_of_the_machine(tmp_path: Path, kind: str) -> None:
    volume = {"hostPath": {"path": "/etc/new-of-a-test", "type": kind}}
    with pytest.raises(CannotStart, match="the path belongs to the system"):
        mounted(tmp_path, volume, readOnly=True)
    assert not Path("/etc/new-of-a-test").exists()


def test_a_link_is_followed_once_when_a_volume_is_checked(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "there" / "sub").mkdir()
    volume = {"hostPath": {"path": str(tmp_path / "link")}}
    assert mounted(tmp_path, volume).real == tmp_path / "there"
    assert mounted(tmp_path, volume, subPath="sub").real == tmp_path / "there" / "sub"
