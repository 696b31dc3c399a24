"""``modelplane logs`` and ``explain`` against a fleet that runs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.local.supervision import locks
from support.fleets import Fleet
from support.patience import PATIENCE_S
from support.service_accounts import kubeconfig, kubectl

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
SERVING = "llama.cpp launcher: serving model"

IN_TEAM = ("-n", "ml-team")


@pytest.fixture(scope="module")
def served(fleet: Fleet) -> Iterator[Fleet]:
    fleet.kubectl("apply", "-f", str(EXAMPLE))
    fleet.wait_until_served("first-answer", "ml-team")
    yield fleet
    fleet.kubectl("delete", "md,ms", "--all", "-n", "ml-team", "--timeout=180s")


@pytest.fixture(scope="module")
def stranger(served: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of somebody who may see models, and no Secret."""
    kubectl(served, "create", "serviceaccount", "stranger", "-n", "modelplane-system")
    kubectl(served, "create", "clusterrole", "sees-models", "--verb=get,list", "--resource=*.modelplane.ai")
    subject = "--serviceaccount=modelplane-system:stranger"
    kubectl(served, "create", "clusterrolebinding", "stranger", "--clusterrole=sees-models", subject)
    return kubeconfig(served, "stranger", tmp_path_factory.mktemp("stranger") / "kubeconfig")


def replica(fleet: Fleet) -> str:
    return fleet.kubectl("get", "mr", "-n", "ml-team", "-o", "jsonpath={.items[0].metadata.name}")


def test_what_can_be_named_is_listed(served: Fleet) -> None:
    processes = [each["name"] for each in json.loads(served.modelplane("status", "-o", "json"))["processes"]]
    assert served.modelplane("logs") == (
        f"Processes of the fleet in {served.home.root}:\n"
        f"  {', '.join(processes)}\n"
        "Objects:\n"
        "  md/gemma -n ml-team\n"
        "  ms/first-answer -n ml-team\n"
        f"  mr/{replica(served)} -n ml-team\n"
    )


def test_a_process_shows_what_it_logs(served: Fleet) -> None:
    for options in ((), ("--since", "1d")):
        before = served.home.log("agent").read_text()
        shown = served.modelplane("logs", "agent", *options)
        # It may log something meanwhile.
        assert shown.startswith(before)
        assert served.home.log("agent").read_text().startswith(shown)


@pytest.mark.parametrize("kind", ["md", "ms", "mr"])
def test_an_object_shows_what_the_engines_behind_it_log(served: Fleet, kind: str) -> None:
    name = {"md": "gemma", "ms": "first-answer", "mr": replica(served)}[kind]
    shown = served.modelplane("logs", f"{kind}/{name}", *IN_TEAM)
    assert SERVING in shown
    assert (
        served.modelplane("logs", f"{kind}/{name}", *IN_TEAM, "--tail", "1")
        == shown.splitlines(keepends=True)[-1]
    )


def test_an_engine_that_has_not_died_has_no_earlier_log(served: Fleet) -> None:
    said = served.modelplane("logs", "md/gemma", *IN_TEAM, "--previous", check=False)
    assert said.startswith("cannot read the log of local/gemma-")
    assert said.endswith(" not found\n")


def test_what_is_followed_goes_on_over_the_death_of_whatever_it_comes_through(served: Fleet) -> None:
    address = served.kubectl("get", "ms", "first-answer", "-n", "ml-team", "-o", "jsonpath={.status.address}")
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "modelplane.cli.main",
            "logs",
            "md/gemma",
            *IN_TEAM,
            "--follow",
            "--tail",
            "1",
        ],
        env=os.environ | {"MODELPLANE_HOME": str(served.home.root), "KUBECONFIG": ""},
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as following:
        assert following.stdout is not None
        # Else a line that does not come would be waited for.
        late = threading.Timer(PATIENCE_S, following.kill)
        late.start()
        lines = iter(following.stdout)
        assert next(lines).strip()
        for name in ("control-plane", "agent"):
            pid = locks.find_holder(served.home.lock(name))
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            until_answered(address)
            assert any("stop processing" in line for line in lines)
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE_S) == 130
        late.cancel()


def until_answered(address: str) -> None:
    body = json.dumps({"model": "gemma", "prompt": "The capital", "max_tokens": 2}).encode()
    request = urllib.request.Request(
        f"{address}/v1/completions", body, headers={"content-type": "application/json"}
    )
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                assert response.status == 200
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def test_explain_says_the_same_of_a_fleet_that_runs_as_of_its_dump(served: Fleet, tmp_path: Path) -> None:
    dump = tmp_path / "fleet.yaml"
    well = {"md/gemma": "placed", "ms/first-answer": "ready", f"mr/{replica(served)}": "ready"}

    def dumped() -> str:
        return served.kubectl("get", "modelplane", "-A", "-o", "yaml")

    deadline = time.monotonic() + PATIENCE_S
    while True:
        before = dumped()
        live = {name: served.modelplane("explain", name, *IN_TEAM, "-o", "json") for name in well}
        # What was killed answers a moment before the fleet says that it does.
        if dumped() == before and all(json.loads(live[name])[key] for name, key in well.items()):
            break
        assert time.monotonic() < deadline, live
    dump.write_text(before)
    for name, said in live.items():
        assert said == served.modelplane("explain", name, *IN_TEAM, "-o", "json", "--fleet", str(dump))


def test_explain_follows_a_service_to_the_replica_that_answers(served: Fleet) -> None:
    service = json.loads(served.modelplane("explain", "ms/first-answer", *IN_TEAM, "-o", "json"))
    assert [(each["name"], each["percent"]) for each in service["endpoints"]] == [(replica(served), 100.0)]
    told = json.loads(served.modelplane("explain", f"mr/{replica(served)}", *IN_TEAM, "-o", "json"))
    assert (told["cluster"], told["deployment"], told["placement"]["state"]) == ("local", "gemma", "stays")
    assert [each["service"] for each in told["services"]] == ["first-answer"]


def test_explain_exits_with_2_where_a_replica_of_a_fleet_that_runs_has_no_place(served: Fleet) -> None:
    patch = '{"spec":{"replicas":2}}'
    served.kubectl("patch", "md", "gemma", "-n", "ml-team", "--type=merge", "-p", patch)
    try:
        said = served.modelplane("explain", "md/gemma", *IN_TEAM, check=False)
        assert said.startswith('ModelDeployment "ml-team/gemma": 1 of 2 replicas placed; 1 cluster: ')
    finally:
        served.kubectl("apply", "-f", str(EXAMPLE))


def test_who_may_not_read_a_clusters_secret_is_told_so_in_one_sentence(served: Fleet, stranger: Path) -> None:
    said = served.modelplane("logs", "md/gemma", *IN_TEAM, "--kubeconfig", str(stranger), check=False)
    assert said == (
        'cannot read the pods on cluster "local": secrets "local-kubeconfig" is forbidden: '
        'User "system:serviceaccount:modelplane-system:stranger" cannot get resource "secrets" '
        'in API group "" in the namespace "modelplane-system": '
        "use kubectl with a kubeconfig of that cluster\n"
    )


def test_who_may_see_models_may_have_them_explained(served: Fleet, stranger: Path) -> None:
    said = served.modelplane("explain", "md/gemma", *IN_TEAM, "--kubeconfig", str(stranger))
    assert said.startswith('ModelDeployment "ml-team/gemma": 1 of 1 replicas placed\n')


def test_who_may_see_nothing_is_told_so_in_one_sentence(served: Fleet, tmp_path: Path) -> None:
    nobody = kubeconfig(served, "default", tmp_path / "kubeconfig")
    said = served.modelplane("explain", "md/gemma", *IN_TEAM, "--kubeconfig", str(nobody), check=False)
    assert said == (
        "Error: cannot read the fleet from the control plane: inferenceclusters.modelplane.ai is forbidden: "
        'User "system:serviceaccount:modelplane-system:default" cannot list resource "inferenceclusters" '
        'in API group "modelplane.ai" at the cluster scope: '
        "ask the cluster's administrator for that permission, or use another --kubeconfig\n"
    )
