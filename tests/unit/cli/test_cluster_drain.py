"""``modelplane cluster cordon``, ``drain`` and ``uncordon``: what they own, and how they end."""

import copy
import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.api import labels
from modelplane.cli.main import main
from modelplane.install import api_server_choice
from modelplane.kube.http_messages import ObjectList
from modelplane.operations import cordons
from support.manifests import CLASS, DEPLOYMENT, cluster
from support.output_schemas import parsed

DRAIN, CORDON = labels.DRAIN, labels.UNSCHEDULABLE


class Server:
    """A control plane with an InferenceCluster, whose fields have owners as in server-side apply."""

    def __init__(self) -> None:
        self.field_manager = "modelplane-cli"
        self.generation = 1
        self.others: dict[str, list[dict[str, str]]] = {}
        """Taints of the whole cluster, by the manager that declares them."""
        self.own: dict[str, list[dict[str, str]]] = {"taints": [], "poolTaints": []}
        self.condition: dict[str, Any] = {}
        self.objects: list[dict[str, Any]] = []

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(cluster("west"))
        taints = {
            each["key"]: each for given in (*self.others.values(), self.own["taints"]) for each in given
        }
        found["spec"] |= {"taints": list(taints.values()), "poolTaints": self.own["poolTaints"]}
        fields = [
            _fields("modelplane-drain", self.own),
            *(_fields(name, {"taints": given}) for name, given in self.others.items()),
        ]
        found["metadata"] |= {"uid": "u", "generation": self.generation, "managedFields": fields}
        said = [{"type": "Drained", "observedGeneration": self.generation, **self.condition}]
        return found | {"status": {"conditions": said if self.condition else []}}

    async def get(self, _resource: object, name: str) -> dict[str, Any] | None:
        return self.cluster() if name == "west" else None

    async def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        assert manifest["metadata"] == {"name": "west", "uid": "u"}
        assert self.field_manager == "modelplane-drain"
        self.own = {"taints": [], "poolTaints": [], **copy.deepcopy(manifest["spec"])}
        self.generation += 1
        return self.cluster()

    async def list(self, resource: Any) -> ObjectList:
        return ObjectList(tuple(each for each in self.objects if each["kind"] == resource.kind), "1")


def _fields(manager: str, spec: dict[str, Any]) -> dict[str, Any]:
    lists: dict[str, Any] = {
        f"f:{name}": {f"k:{json.dumps(each)}": {".": {}} for each in items} for name, items in spec.items()
    }
    return {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": lists}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    started = Server()
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setattr(api_server_choice, "connect", lambda *_arguments: started)
    return started


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", *arguments])


def test_a_cordon_and_an_uncordon_of_a_pool_leave_that_of_the_cluster(server: Server) -> None:
    assert run("cordon", "west").output == 'Cordoned cluster "west": no new replicas are placed there\n'
    assert run("cordon", "west", "--pool", "pool").exit_code == 0
    taint = {"key": CORDON, "effect": "NoSchedule"}
    assert server.own == {"taints": [taint], "poolTaints": [{"pool": "pool", "key": CORDON}]}
    assert run("uncordon", "west", "--pool", "pool").output == 'Uncordoned pool "pool" of cluster "west"\n'
    assert server.own == {"taints": [taint], "poolTaints": []}


def test_the_taints_of_others_are_not_taken_over(server: Server) -> None:
    server.others["argocd"] = [{"key": DRAIN, "effect": "NoSchedule"}]
    assert run("cordon", "west", "--pool", "pool").exit_code == 0
    assert server.own["taints"] == []


def test_a_taint_that_another_manager_declares_is_no_silent_success(server: Server) -> None:
    server.others["argocd"] = [{"key": DRAIN, "effect": "NoSchedule"}]
    done = run("uncordon", "west")
    assert (done.exit_code, done.output) == (
        1,
        f'Error: cluster "west" still has the taint {DRAIN}, which argocd applies: remove the taint there\n',
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["north"], 'cluster "north" does not exist', id="no such cluster"),
        pytest.param(
            ["west", "--pool", "x"], 'cluster "west" has no pool "x": the pools are pool', id="no pool"
        ),
    ],
)
@pytest.mark.parametrize("command", ["cordon", "drain", "uncordon"])
@pytest.mark.usefixtures("server")
def test_what_is_not_there_is_not_made(command: str, arguments: list[str], said: str) -> None:
    done = run(command, *arguments)
    assert (done.exit_code, said in done.output) == (1, True)


@pytest.mark.parametrize(
    ("condition", "status", "said"),
    [
        pytest.param(
            {"status": "True", "reason": "Drained", "message": "no replicas remain"},
            0,
            ["  no replicas remain", 'Drained cluster "west"'],
            id="it has ended",
        ),
        pytest.param(
            {"status": "False", "reason": "Draining", "message": "1 replica remains: 1 moving, 0 blocked"},
            1,
            ["  1 replica remains: 1 moving, 0 blocked", "timed out after 0 s: 1 replica remains"],
            id="it takes longer",
        ),
        pytest.param(
            {"status": "False", "reason": "DrainBlocked", "message": "1 replica remains: no place"},
            2,
            [
                "timed out after 0 s: 1 replica remains: no place",
                "To stop it, run `modelplane cluster uncordon`",
            ],
            id="a replica has no other place",
        ),
        pytest.param(
            {"status": "False", "reason": "Draining", "message": "1 replica remains: \x1b[2Jgone"},
            1,
            ["  1 replica remains:  [2Jgone", "timed out after 0 s: 1 replica remains:  [2Jgone"],
            id="a tenant writes to the terminal",
        ),
        pytest.param(
            {"status": "True", "reason": "Drained", "message": "before", "observedGeneration": 1},
            1,
            ["the controllers have not reported the drain yet"],
            id="the condition is that of an earlier drain",
        ),
        pytest.param(
            {"status": "False", "reason": "NotRequested", "message": "the drain was ended"},
            1,
            ['someone else ended the drain of cluster "west"'],
            id="another operator has ended it",
        ),
    ],
)
def test_a_drain_ends_with_what_became_of_it(
    server: Server, condition: dict[str, Any], status: int, said: list[str]
) -> None:
    server.condition = condition
    done = run("drain", "west", "--timeout", "0")
    assert done.exit_code == status, done.output
    assert [each for each in said if each not in done.output] == []


def test_a_dry_run_says_what_would_move_where_and_writes_nothing(server: Server) -> None:
    pool = {"name": "pool", "nodes": 2, "devices": yaml.safe_load(CLASS)["spec"]["devices"]}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Available",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    published = {
        "gpuPools": [pool],
        "gateway": {"address": "192.0.2.1"},
        "capabilities": {"dra": True, "leaderWorkerSet": True, "inferencePool": True},
        "conditions": [ready],
    }
    server.objects = [yaml.safe_load(cluster(name)) | {"status": published} for name in ("west", "east")]
    server.objects += [yaml.safe_load(DEPLOYMENT.replace("replicas: 1", "replicas: 2")), _replica(ready)]
    done = run("drain", "west", "--dry-run", "-o", "json")
    document = parsed("plan", done.output)
    [deployment] = document["deployments"]
    assert [(each["state"], each["cluster"]) for each in deployment["replicas"]] == [
        ("new", "east"),
        ("new", "east"),
        ("leaves", "west"),
    ]
    assert (done.exit_code, server.generation) == (0, 1)
    assert "No replicas would move" in run("drain", "east", "--dry-run").output


def _replica(ready: dict[str, str]) -> dict[str, Any]:
    claim = {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 1, "selectors": []}
    member = {"role": "Standalone", "nodePoolName": "pool", "deviceRequests": [claim]}
    member |= yaml.safe_load(DEPLOYMENT)["spec"]["engines"][0]["members"][0]
    del member["nodeSelector"]
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": "qwen-west-0",
            "namespace": "ml-team",
            "labels": {labels.DEPLOYMENT: "qwen", labels.CLUSTER: "west", labels.REPLICA_INDEX: "0"},
        },
        "spec": {"clusterName": "west", "engines": [{"name": "qwen", "copies": 1, "members": [member]}]},
        "status": {"conditions": [ready]},
    }


def test_fields_of_others_that_look_alike_are_not_ours() -> None:
    fields: dict[str, Any] = {"f:spec": {"f:taints": {'k:{"effect":"NoSchedule","key":"team"}': {}, ".": {}}}}
    found = {"metadata": {"managedFields": [{"manager": cordons.MANAGER, "fieldsV1": fields}]}}
    assert list(cordons.list_owners(found)) == []


def test_what_is_closed_is_said_with_the_progress_of_a_drain() -> None:
    found = yaml.safe_load(cluster("west"))
    found["spec"] |= {
        "taints": [{"key": CORDON, "effect": "NoSchedule"}, {"key": "team", "effect": "NoSchedule"}],
        "poolTaints": [{"pool": "pool", "key": DRAIN}],
    }
    drained = {
        "type": "Drained",
        "status": "False",
        "reason": "Draining",
        "message": "1 replica remains",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert cordons.describe_closed(found | {"status": {"conditions": [drained]}}) == [
        "cluster west is cordoned",
        "pool pool of cluster west is draining: 1 replica remains",
    ]
    assert cordons.describe_closed(yaml.safe_load(cluster("west"))) == []
