"""The tour as its pages tell it, every line of theirs in order, on three clusters of this machine.

The tests are steps of one story: each goes on where the one before it has ended.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from modelplane.kube.resources import Object
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle
from support.fleets import Fleet
from support.load import Load
from support.patience import LOOK_S, PATIENCE_S
from support.rolling import stand_in
from support.simulated_clouds import SimulatedClouds
from support.terminals import build_environment, open_terminal, write_programs
from support.third_party_crds import definitions
from support.transcripts import Step, lines_for_a_shell, read_page

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "03-deploying-a-model" / "2-model-deployment.yaml"
CLUSTERS = ("local-1", "local-2", "local-3")
EJECTED_S = 3.0
"""By then nobody is sent to a region that has gone; what is asked later must be answered."""


@dataclass(frozen=True, slots=True)
class Tourist:
    """A reader with a terminal."""

    fleet: Fleet
    folder: Path

    def run(self, script: str) -> str:
        """Run lines for a shell in the root of the repository, and return what they print."""
        done = self._done(script)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}\n{self._evidence()}"
        return done.stdout

    def _evidence(self) -> str:
        """Return what the clusters tell of their pods, and the ends of the engines' logs."""
        told = [self._done(f"kubectl --context {each} get pods,events -A").stdout for each in CLUSTERS]
        files = self.fleet.home.root.glob("clusters/*/agent/pods/*/engine/*/*")
        logs = (f"{each}:\n{each.read_text(errors='replace')[-2000:]}" for each in files if each.is_file())
        return "\n".join([*told, *logs])

    def _done(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=os.environ | build_environment(self.fleet.home, self.folder),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    def read(self, page: str) -> str:
        """Take every step of a page, compare what each prints with the page, and return it."""
        return self.take(page, *read_page(readme(page)))

    def take(self, page: str, *blocks: tuple[Step, ...], instead: Mapping[str, str] | None = None) -> str:
        """Take steps of a page in one shell, some of them with other commands."""
        with open_terminal(self.fleet.home, self.folder, home_shown="~/modelplane-tour") as terminal:
            try:
                return "".join(terminal.follow(readme(page), block, instead or {}) for block in blocks)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self._evidence()}") from None


def readme(page: str) -> Path:
    return ROOT / "examples" / page / "README.md"


def at_a_terminal(fleet: Fleet, kubernetes_binary: Path, folder: Path) -> Tourist:
    """Return a reader of a fleet, with the commands of the pages in a folder."""
    write_programs(folder, kubernetes_binary)
    return Tourist(fleet, folder)


@pytest.fixture(scope="module")
def tourist(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tourist]:
    folder = tmp_path_factory.mktemp("tour")
    reader = at_a_terminal(Fleet(Home(folder / "home"), kubernetes_binary), kubernetes_binary, folder)
    try:
        yield reader
    finally:
        reader.run("modelplane down --purge")


def test_the_platform_is_built(tourist: Tourist) -> None:
    start, *rest = read_page(readme("02-build-the-platform"))
    # What makes the virtual environment, and names the home, is done already.
    done = dict.fromkeys((step.command for step in start[:3]), "true")
    # Some of the steps below have a program of this machine in the place of an engine.
    up = start[3].command
    tourist.take("02-build-the-platform", start, instead=done | {up: f"{up} --host-commands"})
    assert tourist.run("kubectl get ic,ig -o name") == "", "publishing them is the platform team's"
    tourist.take("02-build-the-platform", *rest)


def test_a_model_is_deployed(tourist: Tourist) -> None:
    tourist.read("03-deploying-a-model")


def test_the_platform_grows_and_nothing_moves(tourist: Tourist) -> None:
    before = tourist.run("kubectl get mr,pods -A -o name")
    tourist.read("04-scale-the-platform")
    assert tourist.run("kubectl get mr,pods -A -o name") == before


def test_the_model_is_served_from_two_regions(tourist: Tourist) -> None:
    tourist.read("05-scale-the-model")


def test_a_cluster_is_drained_under_load_and_back_and_no_request_fails(tourist: Tourist) -> None:
    address = tourist.run("kubectl get ms qwen -n ml-team -o jsonpath='{.status.address}'")
    plan = tourist.run("modelplane cluster drain us-east --dry-run")
    assert re.search(r"ml-team/qwen-demo +1 new +eu-central", plan), plan
    with Load(address).flowing() as load:
        load.until_answered(10)
        told = tourist.run("modelplane cluster drain us-east --timeout 4m")
        assert placed_on(tourist, "qwen-demo") == "eu-central"
        assert placed_on(tourist, "qwen-west") == "us-west"
        assert "cluster us-east is draining: no replicas remain" in tourist.run("modelplane status")
        drained = tourist.run("kubectl get ic us-east -o jsonpath='{.status.drain}'")
        tourist.run("modelplane cluster uncordon us-east")
        left = tourist.run("kubectl get ic us-east -o jsonpath='{.spec.taints}{.spec.poolTaints}'")
        assert left.replace("[]", "") == ""
        pool = tourist.run("kubectl get ic eu-central -o jsonpath='{.spec.nodePools[0].name}'")
        tourist.run(f"modelplane cluster drain eu-central --pool {pool} --timeout 4m")
        assert placed_on(tourist, "qwen-demo") == "us-east"
        tourist.run(f"modelplane cluster uncordon eu-central --pool {pool}")
        load.until_answered(20)
    assert load.failures == []
    assert told.rstrip().endswith('Drained cluster "us-east"')
    assert json.loads(drained) == {"left": 0, "moving": 0, "blocked": 0}


def test_nodes_are_taken_back_under_load_and_no_request_fails(tourist: Tourist) -> None:
    address = tourist.run("kubectl get ms qwen -n ml-team -o jsonpath='{.status.address}'")
    # From here on, no step is about engines: the stand-in is asked as often, answers for as long, and leaves
    # the machine's cores to the fleet.
    image = engine()["image"] + "-stand-in"
    serve_with(tourist, stand_in(delay=0.2, pause=0.1) | {"image": image})
    with Load(address).flowing() as load:
        load.until_answered(10)
        told = leave(tourist, "us-east", "local-1", "taint node {} modelplane.ai/eviction-notice=:NoSchedule")
        assert placed_on(tourist, "qwen-demo") == "eu-central"
        leave(tourist, "eu-central", "local-3", "annotate node {} modelplane.ai/eviction-notice=")
        assert placed_on(tourist, "qwen-demo") == "us-east"
        load.until_answered(20)
    assert load.failures == []
    assert re.search(r"1 node is being reclaimed: \S+ by \S+ \(taint modelplane.ai/eviction-notice\)", told)


def engine() -> Object:
    """Return the container of the model that the pages deploy."""
    engines = yaml.safe_load(MODEL.read_text())["spec"]["engines"]
    [container] = engines[0]["members"][0]["template"]["spec"]["containers"]
    return dict(container)


def serve_with(tourist: Tourist, container: Object) -> None:
    """Have both deployments serve with another container, and wait until they do."""
    engines = yaml.safe_load(MODEL.read_text())["spec"]["engines"]
    engines[0]["members"][0]["template"]["spec"]["containers"] = [container]
    for name in ("qwen-demo", "qwen-west"):
        change(tourist, {"engines": engines}, name)
    image = f"'{{.spec.template.spec.containers[0].image}}'={container['image']}"
    for cluster in CLUSTERS[:2]:
        kubectl = f"kubectl --context {cluster} -n ml-team"
        tourist.run(f"{kubectl} wait deployments --all --for=jsonpath={image} --timeout=180s")
        tourist.run(f"{kubectl} rollout status deployments --timeout=180s")
    tourist.run("kubectl wait --for=condition=Ready md,ms --all -n ml-team --timeout=180s")


def leave(tourist: Tourist, region: str, cluster: str, notice: str) -> str:
    """Give notice of a cluster's node until its replicas have left; return what the InferenceCluster says."""
    kubectl = f"kubectl --kubeconfig {tourist.fleet.home.get_cluster(cluster).kubeconfig}"
    [node] = tourist.run(f"{kubectl} get nodes -o jsonpath='{{.items[*].metadata.name}}'").split()
    observe = f"kubectl patch ic {region} --type merge -p " + """'{"spec":{"capacitySource":"%s"}}'"""
    ours = f"-n ml-team -l modelplane.ai/deployment=qwen-demo,modelplane.ai/cluster={region}"
    tourist.run(observe % "Observed")
    tourist.run(f"{kubectl} {notice.format(node)}")
    tourist.run(f"kubectl wait --for=condition=NodesKept=False ic {region} --timeout=180s")
    told = tourist.run(f"kubectl describe ic {region}")
    tourist.run(f"kubectl wait --for=delete mr {ours} --timeout=240s")
    tourist.run(f"{kubectl} {notice.format(node).partition('=')[0]}-")
    tourist.run(f"kubectl wait --for=condition=NodesKept ic {region} --timeout=180s")
    # Capacity that returns counts after a minute, and what is declared at once.
    tourist.run(observe % "Declared")
    return told


def placed_on(tourist: Tourist, deployment: str) -> str:
    """Return the clusters of a deployment's replicas."""
    replicas = f"kubectl get mr -n ml-team -l modelplane.ai/deployment={deployment}"
    return tourist.run(f"{replicas} -o jsonpath='{{.items[*].spec.clusterName}}'").strip()


def end_abruptly(home: Home, cluster: str) -> None:
    """Kill everything of a cluster at once, and let nothing of it start again."""
    home.find_hold(cluster).touch()
    leader = lifecycle.find_leader(home)
    assert leader is not None
    os.kill(leader, signal.SIGSTOP)
    try:
        for pid in everything_of(home, cluster):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        os.kill(leader, signal.SIGCONT)
        os.kill(leader, signal.SIGHUP)


def everything_of(home: Home, cluster: str) -> list[int]:
    ours = str(home.get_cluster(cluster).root)
    pids = [
        each.pid for each in lifecycle.list_statuses(home) if each.name.startswith(f"{cluster}-") and each.pid
    ]
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(ours in argument for argument in process.cmdline()) or process.cwd().startswith(ours):
                pids.append(process.pid)
    return pids


def ready(tourist: Tourist, kind: str, name: str) -> str:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    return tourist.run(f"kubectl get {kind} {name} -n ml-team -o jsonpath='{path}'").strip()


def test_a_region_that_is_lost_under_load_is_not_asked_any_more_and_reported(tourist: Tourist) -> None:
    address = tourist.run("kubectl get ms qwen -n ml-team -o jsonpath='{.status.address}'")
    with Load(address).flowing() as load:
        load.until_answered(10)
        assert load.failures == []
        lost_at = time.monotonic()
        end_abruptly(tourist.fleet.home, "local-2")
        load.until_answered(20)
        while ready(tourist, "md", "qwen-west") == "True":
            assert time.monotonic() < lost_at + PATIENCE_S, tourist.run("kubectl get ic,md -A")
            time.sleep(LOOK_S)
        told = tourist.run("kubectl describe md qwen-west -n ml-team")
        tourist.run("modelplane up")
        tourist.run("kubectl wait --for=condition=Ready ic,md --all -n ml-team --timeout=180s")
        load.until_answered(20)
    # A stream that has begun cannot be begun again elsewhere.
    assert [(round(at - lost_at, 1), why) for at, why in load.failures if at > lost_at + EJECTED_S] == []
    assert len(load.failures) <= 2, load.failures
    assert 'cannot observe the replicas on cluster "us-west", which can still be serving' in told


def test_a_lost_region_is_replaced_where_the_deployment_asks_for_it(tourist: Tourist) -> None:
    address = tourist.run("kubectl get ms qwen -n ml-team -o jsonpath='{.status.address}'")
    ours = "-n ml-team -l modelplane.ai/deployment=qwen-west"
    elsewhere = f"{ours},modelplane.ai/cluster!=us-west"
    before = tourist.run(f"kubectl get mr {ours} -o name").strip()
    change(tourist, {"failover": {"after": "10s"}, "clusterSelector": None})
    with Load(address).flowing() as load:
        load.until_answered(10)
        lost_at = time.monotonic()
        end_abruptly(tourist.fleet.home, "local-2")
        tourist.run(f"kubectl wait --for=create mr {elsewhere} --timeout=240s")
        tourist.run(f"kubectl wait --for=condition=Ready mr {elsewhere} --timeout=240s")
        told = tourist.run("kubectl describe md qwen-west -n ml-team; kubectl describe ic us-west")
        explained = tourist.run("modelplane explain md/qwen-west -n ml-team")
        assert before in tourist.run(f"kubectl get mr {ours} -o name"), "it stays until it is seen again"
        load.until_answered(20)
        tourist.run("modelplane up")
        tourist.run(f"kubectl wait --for=delete {before} -n ml-team --timeout=240s")
        load.until_answered(20)
    assert [(round(at - lost_at, 1), why) for at, why in load.failures if at > lost_at + EJECTED_S] == []
    assert len(load.failures) <= 2, load.failures
    assert re.search(r"Reason: +Replacing\s", told)
    assert re.search(r"Reason: +Lost\s", told)
    assert 'InferenceCluster "us-west" is lost: the API server doesn\'t respond' in explained
    until_nothing(tourist, "kubectl get deployments,pods -n ml-team -o name --context local-2")
    # The next step loses the region again, and its page asks the model.
    west = {"matchLabels": {"modelplane.ai/region": "us-west"}}
    change(tourist, {"failover": None, "clusterSelector": west, "replicas": 0})
    tourist.run(f"kubectl wait --for=delete mr {ours} --timeout=240s")
    change(tourist, {"replicas": 1})
    tourist.run("kubectl wait --for=condition=Ready md/qwen-west -n ml-team --timeout=240s")
    serve_with(tourist, engine())


def change(tourist: Tourist, spec: dict[str, object], name: str = "qwen-west") -> None:
    patch = shlex.quote(json.dumps({"spec": spec}))
    tourist.run(f"kubectl patch md {name} -n ml-team --type=merge -p {patch}")


def test_a_region_is_lost_and_replaced_and_comes_back_and_all_is_cleaned_up(tourist: Tourist) -> None:
    *story, clean_up = read_page(readme("06-lose-a-region"))
    told = tourist.take("06-lose-a-region", *story)
    assert not re.search(r"^[45]\d\d$", told, re.MULTILINE)
    tourist.take("06-lose-a-region", clean_up[:-1])
    assert_nothing_is_left(tourist)


def assert_nothing_is_left(tourist: Tourist) -> None:
    until_nothing(tourist, "kubectl get md,mr,ms,me,ic -A -o name")
    for cluster in CLUSTERS:
        kinds = "deployments,pods,httproutes,resourceclaims"
        until_nothing(tourist, f"kubectl get {kinds} -n ml-team -o name --context {cluster}")


def until_nothing(tourist: Tourist, script: str) -> None:
    """Wait until a script prints nothing: what belongs to deleted objects is collected after them."""
    deadline = time.monotonic() + PATIENCE_S
    while left := tourist.run(script):
        assert time.monotonic() < deadline, left
        time.sleep(LOOK_S)


def for_this_machine(manifest: str) -> str:
    """Return a manifest of the tour on a cloud with a processor for each GPU, and llama.cpp for vLLM."""
    here = MODEL.read_text()
    container = here[here.index("image: ") :].replace("gemma\n", "Qwen/Qwen2.5-0.5B-Instruct\n")
    for pattern, replacement in (
        (r"gpu\.nvidia\.com", "cpu.modelplane.ai"),
        (r"23034Mi|20Gi", "1Gi"),
        (r"46068Mi|40960Mi|40Gi|35Gi", "2Gi"),
        (r"- name: gpu-\w+", "- name: local"),
        # Charts cannot be had here, and each cluster has a gateway.
        (r"(?m)^  nodePools:", "  servingStack: {profile: None}\n  nodePools:"),
        (r"(?s)image: vllm/.*", container),
    ):
        manifest = re.sub(pattern, replacement, manifest)
    return manifest


@pytest.mark.parametrize(
    ("page", "origin", "names", "made"),
    [
        pytest.param(
            "eks",
            "aws",
            ("eks-us-east", "eks-us-west", "eks-eu-central"),
            ("VPC", "Cluster", "NodeGroup"),
            id="AWS",
        ),
        pytest.param(
            "gke",
            "gcp",
            ("starter", "gpu-us-west", "gpu-us-east"),
            ("Network", "Cluster", "NodePool"),
            id="Google Cloud",
        ),
    ],
)
def test_the_tour_on_a_cloud_goes_over_simulated_providers(
    tourist: Tourist, page: str, origin: str, names: tuple[str, ...], made: tuple[str, ...]
) -> None:
    """The kubeconfigs of the simulated Google have a credential, so that none is exchanged for a token."""
    folder = tourist.folder / page
    shutil.copytree(ROOT / "examples" / "getting-started", folder)
    shutil.copy(ROOT / "examples" / "02-build-the-platform" / "inference-gateway.yaml", folder)
    for manifest in folder.glob("**/*.yaml"):
        manifest.write_text(for_this_machine(manifest.read_text()))
    kinds = tourist.folder / f"{page}-kinds.yaml"
    kinds.write_text(yaml.safe_dump_all(definitions(f"provider-upjet-{origin}")))
    tourist.run(f"kubectl apply --server-side -f {kinds} -o name")
    kubeconfigs = {
        name: tourist.run(f"kubectl config view --minify --flatten --raw --context {cluster}")
        for name, cluster in zip(names, CLUSTERS, strict=True)
    }

    def details(item: Object) -> dict[str, str]:
        if item["kind"] == "ServiceAccountKey":
            return {"private_key": "a key of Google"}
        return {"kubeconfig": kubeconfigs[item["metadata"]["ownerReferences"][0]["name"]]}

    with SimulatedClouds(str(tourist.fleet.home.kubeconfig), details) as clouds:
        told = "".join(
            tourist.run(block.replace("examples/getting-started", str(folder)))
            for block in lines_for_a_shell(readme(f"getting-started/{page}"))
        )
        until_nothing(tourist, "kubectl get managed -A -o name")
    assert_nothing_is_left(tourist)
    assert re.search(rf"^qwen-demo-\S+ +{names[0]} +True +True", told, re.MULTILINE)
    assert re.search(rf"qwen-west-\S+ +{names[1]} +True +True", told)
    assert '"role":"assistant"' in told
    assert "ClusterReady" in told
    assert clouds.failed, "the cloud has refused some at first"
    assert sorted(made, key=clouds.deleted.index, reverse=True) == list(made)


def test_the_fleet_is_taken_down(tourist: Tourist) -> None:
    *_, clean_up = read_page(readme("06-lose-a-region"))
    tourist.take("06-lose-a-region", clean_up[-1:])
    assert not tourist.fleet.home.root.exists()
