"""Mount paths of processes of this machine, by the names of the root and by what the machine has."""

import sys
from pathlib import Path

import pytest

import modelplane
from modelplane.kubelet.volumes import mounts

HOME, FLEET = Path("/people/me"), Path("/fleets/one")
CLOSED = frozenset({HOME, FLEET, *mounts.list_programs({"PATH": "/srv/tools/bin:relative:/bin"})})


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/data", id="data"),
        pytest.param("/data/deep/below", id="below data"),
        pytest.param("/mnt", id="mnt, which every machine has"),
        pytest.param("/mnt/models", id="the path of a ModelCache"),
        pytest.param("/models", id="models"),
        pytest.param("/cache/hub", id="below cache"),
        pytest.param("/dev/shm", id="shared memory"),
        pytest.param("/scratch-of-a-test", id="a new path"),
        pytest.param("/scratch-of-a-test/a/b", id="far below a new path"),
        pytest.param("/srv/models-of-a-test", id="new, in a directory for data"),
        pytest.param("/people-of-a-test", id="a name that begins like that of the home's parent"),
    ],
)
def test_paths_for_volumes_and_new_paths_are_accepted(path: str) -> None:
    assert mounts.find_problem(path, CLOSED) is None


SYSTEM = "the path belongs to the system"
FLEETS = "the path belongs to the fleet, its programs, or the user who started it"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        *(
            pytest.param(f"/{name}", SYSTEM, id=name)
            for name in ("etc", "bin", "sbin", "root", "home", "proc", "sys", "dev", "tmp", "run", "var")
        ),
        pytest.param("/lib", SYSTEM, id="lib"),
        pytest.param("/lib64", SYSTEM, id="lib64, on a machine without one too"),
        pytest.param("/libx32/new", SYSTEM, id="a directory of libraries that the machine does not have"),
        pytest.param("/usr", FLEETS, id="usr, which has the programs"),
        pytest.param("/ETC", SYSTEM, id="another case"),
        pytest.param("/etc/ld.so.preload.d", SYSTEM, id="new, below etc"),
        pytest.param("/etc/ssl/new", SYSTEM, id="new, far below etc"),
        pytest.param("/lib/x86_64-linux-gnu/new", SYSTEM, id="new, where libraries are searched"),
        pytest.param("/opt/new", SYSTEM, id="new, where software is installed"),
        pytest.param("/var/lib/new", SYSTEM, id="new, below var"),
        pytest.param("/home/another/new", SYSTEM, id="new, in a home"),
        pytest.param("/proc/self/root/data", SYSTEM, id="through proc"),
        pytest.param("/dev/shm-of-a-test", SYSTEM, id="a device"),
        pytest.param("/tmp/torchinductor_root", SYSTEM, id="a cache of code below tmp"),
        pytest.param("/people", FLEETS, id="above the home"),
        pytest.param("/people/me", FLEETS, id="the home"),
        pytest.param("/people/me/.cache/new", FLEETS, id="below the home"),
        pytest.param("/fleets/one/agent/models", FLEETS, id="the fleet's models"),
        pytest.param("/fleets", FLEETS, id="above the fleet"),
        pytest.param("/srv/tools/bin", FLEETS, id="a directory that is searched for programs"),
        pytest.param("/srv/tools/lib/new", FLEETS, id="beside such a directory"),
        pytest.param(sys.prefix, FLEETS, id="the environment"),
        pytest.param(f"{sys.prefix}/lib/new", FLEETS, id="below the environment"),
        pytest.param(str(Path(sys.prefix).parent), FLEETS, id="above the environment"),
        pytest.param(modelplane.__path__[0], FLEETS, id="the agent's packages"),
        pytest.param(f"{modelplane.__path__[0]}/kubelet/volumes", FLEETS, id="a package of the agent"),
    ],
)
def test_places_of_the_machine_are_refused(path: str, why: str) -> None:
    found = mounts.find_problem(path, CLOSED)
    assert found in {SYSTEM, FLEETS}
    # Python itself may be installed there.
    assert found == why or path in {"/lib", "/lib64", "/bin", "/sbin", "/root", "/home"}


@pytest.mark.parametrize(
    ("path", "writes", "reads"),
    [
        pytest.param("/data/models", True, True, id="below data"),
        pytest.param("/mnt", True, True, id="mnt"),
        pytest.param("/srv/models", True, True, id="a directory for data"),
        pytest.param("/scratch", True, True, id="a directory of nobody"),
        pytest.param("/tmp/one/two", True, True, id="far below tmp"),
        pytest.param("/people/me/models", False, True, id="below the home"),
        pytest.param("/people", False, True, id="above the home"),
        pytest.param("/fleets/one", False, True, id="the fleet"),
        pytest.param("/srv/tools/bin", False, True, id="programs"),
        pytest.param("/ETC", False, True, id="etc in another case"),
        pytest.param("/lib32", False, True, id="libraries"),
        pytest.param("/", False, False, id="the whole machine"),
        pytest.param("/tmp", False, False, id="tmp, with the sockets of everyone"),
        pytest.param("/tmp/.X11-unix", False, False, id="sockets of the desktop"),
        pytest.param("/Run/user/1000", False, False, id="sockets of a user"),
    ],
)
def test_a_path_of_the_machine_is_a_volume_where_nothing_of_it_looks(
    path: str, *, writes: bool, reads: bool
) -> None:
    found = {
        read_only: mounts.find_host_path_problem(Path(path), CLOSED, read_only=read_only)
        for read_only in (False, True)
    }
    assert {False: not found[False], True: not found[True]} == {False: writes, True: reads}


def test_a_path_that_the_machine_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_OF_THE_MACHINE", frozenset())
    (tmp_path / "there").mkdir()
    (tmp_path / "dangling").symlink_to("/nowhere-of-a-test")
    found = {
        each: mounts.find_problem(f"{tmp_path}/{each}", frozenset()) for each in ("there", "dangling", "new")
    }
    assert found == {
        "there": "the path exists on the machine itself",
        "dangling": "the path exists on the machine itself",
        "new": None,
    }


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("data", "/etc", id="a directory for volumes that is a link"),
        pytest.param("data", "/people/me", id="a link to the home"),
        pytest.param("data/me", "/people", id="the home behind a link"),
    ],
)
def test_a_link_is_judged_by_where_it_leads(
    link: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_FOR_VOLUMES", (tmp_path / "data",))
    (tmp_path / "data").symlink_to(target)
    assert mounts.find_problem(str(tmp_path / link), CLOSED) in {SYSTEM, FLEETS}


def test_a_directory_for_volumes_is_refused_where_the_programs_are_in_it() -> None:
    closed = frozenset({Path("/data/me/checkout")})
    found = {path: mounts.find_problem(path, closed) for path in ("/data", "/data/me", "/data/models")}
    assert found == {"/data": FLEETS, "/data/me": FLEETS, "/data/models": None}


def test_the_programs_are_those_of_the_environment_and_of_the_variables() -> None:
    variables = {
        "PATH": "/a/bin:/b/tools::.",
        "LD_LIBRARY_PATH": "/c/lib",
        "CUDA_HOME": "/d/cuda",
        "VIRTUAL_ENV": "/e/venv",
        "HF_HOME": "/data/hub",
    }
    found = {str(each) for each in mounts.list_programs(variables)}
    assert {"/a/bin", "/a", "/b/tools", "/c/lib", "/d/cuda", "/e/venv", sys.prefix} <= found
    assert found.isdisjoint({"/", ".", "/data/hub", "/b", "/c"})


def test_programs_in_the_home_do_not_make_the_home_one_of_their_directories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/people/me")
    found = mounts.list_programs({"PATH": "/people/me/bin:/people/me/.local/bin"})
    assert {Path("/people/me/bin"), Path("/people/me/.local")} <= found
    assert Path("/people/me") not in found


def container(*paths: str) -> dict[str, object]:
    return {"name": "engine", "volumeMounts": [{"name": "v", "mountPath": path} for path in paths]}


@pytest.mark.parametrize("path", ["/etc", "/etc/", "//etc", "///etc//", "/./etc", "/etc/."])
def test_one_path_is_refused_in_each_of_its_forms(path: str) -> None:
    (refusal,) = mounts.find_refusals([container("/data", path)], CLOSED)
    assert refusal.reason == "UnsupportedPod"
    assert refusal.message == (
        f'volume "v" cannot be mounted at "{path}" for a process of this machine: the path belongs to the '
        "system: use a new path, or one below /data, /mnt, /models or /cache, start a container runtime "
        "(docker, podman or nerdctl), or allow commands on this machine itself with --host-commands"
    )


def test_the_volume_that_admission_adds_is_no_choice_of_a_pod() -> None:
    added = container("/var/run/secrets/kubernetes.io/serviceaccount")
    assert list(mounts.find_refusals([added], CLOSED)) == []
