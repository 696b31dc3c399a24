"""``modelplane rollout``: progress, history, pause and undo of a deployment."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modelplane.api import labels
from modelplane.cli.main import main
from modelplane.install import api_server_choice
from modelplane.kube import timestamps
from modelplane.kube.errors import Conflict
from modelplane.kube.http_messages import ObjectList
from support.rollouts import BAD, BETTER, GOOD, SteppedRollout
from support.tokens import kubeconfig


class Server:
    """A control plane with one deployment and its revisions."""

    def __init__(self) -> None:
        self.run = SteppedRollout(3, {})
        for image in (GOOD, BETTER, BAD):
            self.run.edit(image)
            if image == BAD:
                self.run.reconcile()
                for key in self.run.replicas():
                    self.run.report(key)
                self.run.reconcile()
            else:
                self.run.settle()
        self.item = self.run.owner
        self.item["metadata"] |= {"resourceVersion": "7", "generation": 1}
        self.patch_body: dict[str, Any] = {}
        self.annotations: dict[str, str] = {}
        self.is_racing = False

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def list(self, resource: Any, _namespace: str | None) -> ObjectList:
        if resource.kind == "ModelDeployment":
            return ObjectList((copy.deepcopy(self.item),), "1")
        kept = [each for each in self.run.children.values() if each["kind"] == resource.kind]
        stranger = {"metadata": {"name": "of-another"}, "revision": 99, "data": {}}
        return ObjectList((*kept, stranger), "1")

    async def patch(self, _resource: object, name: str, body: dict[str, Any], namespace: str) -> None:
        metadata = dict(body["metadata"])
        assert (namespace, name, metadata.pop("resourceVersion")) == ("ml-team", "qwen", "7")
        if self.is_racing:
            raise Conflict(409, "Conflict", "it has been modified")
        self.patch_body = body.get("spec", {})
        self.annotations = metadata.get("annotations", {})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    (tmp_path / "kubeconfig").write_bytes(kubeconfig(namespace="ml-team", token="secret"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    made = Server()
    monkeypatch.setattr(api_server_choice, "connect", lambda *_arguments: made)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rollout", *arguments])


def image(patch: dict[str, Any]) -> str:
    text: str = patch["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
    return text


def test_the_status_is_the_condition_and_2_until_it_is_complete(server: Server) -> None:
    done = run("status", "md/qwen")
    assert (done.exit_code, done.stdout.partition(" on cluster")[2]) == (2, ' "east": ErrImagePull\n')
    assert done.stdout.startswith("1 of 3 replicas updated, waiting for replica ")
    server.item["metadata"]["generation"] = 2
    assert run("status", "qwen").stdout == "The controllers have not observed the last change yet\n"


def test_the_answers_of_a_canary_are_printed_with_the_time_that_they_are_of(server: Server) -> None:
    progressing = {
        "type": "Progressing",
        "status": "True",
        "reason": "CanaryRunning",
        "message": "canary step 1 of 2: new revision 4 answers",
        "observedGeneration": 1,
    }
    server.item["status"]["conditions"] = [progressing]
    server.item["metadata"]["managedFields"] = [
        {"manager": "kubectl", "time": "2036-01-01T00:00:00Z"},
        {"manager": "modelplane", "subresource": "status", "time": timestamps.format_ago(12)},
    ]
    said, as_of, _ = run("status", "md/qwen").stdout.split("\n")
    assert said == "canary step 1 of 2: new revision 4 answers"
    assert re.fullmatch(r"As of \S+ \(1[2-5] s ago\)\. The counts are updated every 30 seconds\.", as_of)


def _under_crossplane(server: Server, generation: int) -> None:
    """Let the status be as Crossplane writes that of a function: conditions without a generation."""
    conditions = [dict(each) for each in server.item["status"]["conditions"] if each["type"] != "Synced"]
    for each in conditions:
        each.pop("observedGeneration", None)
    synced = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
    conditions.append({**synced, "observedGeneration": generation})
    server.item["status"] = {**server.item["status"], "conditions": conditions}


def test_under_crossplane_its_own_condition_has_the_generation(server: Server) -> None:
    server.run.edit(GOOD)
    server.run.settle()
    server.item["metadata"]["generation"] = 4
    _under_crossplane(server, 3)
    done = run("status", "md/qwen")
    assert (done.exit_code, done.stdout) == (2, "The controllers have not observed the last change yet\n")
    _under_crossplane(server, 4)
    assert run("status", "md/qwen").exit_code == 0


def test_a_complete_rollout_is_status_0(server: Server) -> None:
    server.run.edit(GOOD)
    server.run.settle()
    done = run("status", "md/qwen")
    assert (done.exit_code, done.stdout) == (0, "3 of 3 replicas updated\n")


@pytest.mark.usefixtures("server")
def test_the_history_has_the_own_revisions_the_newest_first() -> None:
    rows = [line.split() for line in run("history", "md/qwen").stdout.splitlines()]
    assert [(row[0], row[2:]) for row in rows[1:]] == [
        ("3", [BAD, "current"]),
        ("2", [BETTER]),
        ("1", [GOOD]),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [pytest.param([], BETTER, id="the last"), pytest.param(["--to-revision", "1"], GOOD, id="by number")],
)
def test_undo_writes_the_template_back(server: Server, options: list[str], expected: str) -> None:
    done = run("undo", "md/qwen", *options)
    assert (done.exit_code, done.stderr, image(server.patch_body)) == (0, "", expected)
    assert set(server.patch_body) == {"engines", "modelCacheRef", "serving"}


def test_undo_leaves_nothing_of_the_template_that_it_replaces(server: Server) -> None:
    server.item["spec"] |= {
        "modelCacheRef": {"name": "weights"},
        "serving": {"mode": "Unified", "routing": "EndpointPicker"},
    }
    (first,) = (each for each in server.run.children.values() if each.get("revision") == 1)
    first["data"]["spec"]["serving"] = {"connector": "NIXL"}
    run("undo", "md/qwen", "--to-revision", "1")
    assert server.patch_body["modelCacheRef"] is None
    assert server.patch_body["serving"] == {"connector": "NIXL", "mode": None, "routing": None}
    run("undo", "md/qwen", "--to-revision", "2")
    assert server.patch_body["serving"] is None


def test_undo_of_a_template_writes_into_it(server: Server) -> None:
    spec = server.item["spec"]
    spec["template"] = {"spec": {"engines": spec.pop("engines")}}
    run("undo", "md/qwen")
    assert image(server.patch_body["template"]["spec"]) == BETTER


def test_undo_warns_of_a_tool_that_applies_the_object(server: Server) -> None:
    server.item["metadata"]["managedFields"] = [
        {"manager": "argocd-controller", "fieldsV1": {"f:spec": {}}},
        {"manager": "kubectl-client-side-apply", "fieldsV1": {"f:spec": {}}},
    ]
    assert run("undo", "md/qwen").stderr == (
        'warning: "argocd-controller" also applies this object and can overwrite the change: revert the '
        "change at its source\n"
    )


@pytest.mark.usefixtures("server")
def test_a_revision_that_is_not_kept_is_an_error_with_those_that_are() -> None:
    done = run("undo", "md/qwen", "--to-revision", "9")
    whole = (
        'ModelDeployment "qwen" in namespace "ml-team" no longer stores revision 9: the stored revisions '
        "are 3, 2, 1"
    )
    assert (done.exit_code, done.stderr) == (1, f"Error: {whole}\n")


@pytest.mark.parametrize(("command", "paused"), [("pause", True), ("resume", False)])
def test_pause_and_resume_write_one_field(server: Server, command: str, paused: bool) -> None:
    assert run(command, "md/qwen").exit_code == 0
    assert server.patch_body == {"rollout": {"paused": paused}}


def test_a_race_and_a_deployment_without_the_setting_are_errors(server: Server) -> None:
    server.is_racing = True
    called = 'Error: ModelDeployment "qwen" in namespace "ml-team"'
    assert run("pause", "md/qwen").stderr == f"{called} was changed in the meantime: run the command again\n"
    del server.item["spec"]["rollout"]
    hint = "doesn't set spec.rollout: set it, with {} for the defaults"
    for command in ("status", "history", "pause", "undo"):
        assert run(command, "md/qwen").stderr == f"{called} {hint}\n"


def test_promote_names_the_revision_whose_canary_is_skipped(server: Server) -> None:
    called = 'Error: ModelDeployment "qwen" in namespace "ml-team"'
    refused = run("promote", "md/qwen").stderr
    assert refused == f"{called} doesn't set spec.rollout.canary, so there are no steps to skip\n"
    server.item["spec"]["rollout"] = {"canary": {"steps": [{"weight": 5, "durationSeconds": 60}]}}
    done = run("promote", "md/qwen")
    current = server.item["status"]["rollout"]["revision"]
    assert done.stdout == f"Promoted revision {current} of md/qwen: the remaining steps are skipped\n"
    assert (server.annotations, server.patch_body) == ({labels.PROMOTED: current}, {})


def test_resume_begins_an_aborted_canary_again(server: Server) -> None:
    aborted = {
        "revision": server.item["status"]["rollout"]["revision"],
        "abortTime": "2026-06-01T00:00:00Z",
        "phase": "Aborted",
        "stableRevision": "1",
    }
    server.item["status"]["rollout"]["canary"] = aborted
    assert run("resume", "md/qwen").exit_code == 0
    assert server.annotations == {labels.RETRIED: "2026-06-01T00:00:00Z"}
    run("pause", "md/qwen")
    assert server.annotations == {}
    aborted["revision"] = "another"
    run("resume", "md/qwen")
    assert server.annotations == {}


def test_undo_in_a_canary_returns_to_the_revision_of_the_other_replicas(server: Server) -> None:
    (first,) = (each for each in server.run.children.values() if each.get("revision") == 1)
    stable = first["metadata"]["labels"][labels.REVISION]
    canary = {"phase": "Running", "revision": "x", "stableRevision": stable}
    server.item["status"]["rollout"]["canary"] = canary
    run("undo", "md/qwen")
    assert image(server.patch_body) == GOOD
