"""Rolling edits on three clusters of this machine under load: no request fails, and a bad edit stops.

Six replicas are llama.cpp with a model, and twenty a small server in an engine's place. They take minutes.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fleets import Fleet
from support.load import Load
from support.rolling import Deployed, fleet_of, llama, stand_in

pytestmark = pytest.mark.scale


@pytest.fixture(scope="module")
def fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("rolling")
    with fleet_of(folder, kubernetes_binary, "--clusters=3", "--cpu-devices=8") as running:
        yield running


def updated(said: str) -> int:
    """Return the number of replicas that a status says are updated."""
    found = re.match(r"(\d+) of ", said)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(
    ("replicas", "unavailable", "deadline_s", "containers", "pause_s"),
    [
        pytest.param(
            20,
            "20%",
            30,
            [stand_in(delay=0.02), stand_in(delay=0.03), stand_in(delay=0.04)],
            0.02,
            id="twenty small servers",
        ),
        pytest.param(
            6,
            1,
            60,
            [llama(ctx_size=512), llama(ctx_size=640), llama(ctx_size=768)],
            1.0,
            id="six engines",
        ),
    ],
)
def test_no_request_fails_while_an_edit_reaches_every_replica(
    fleet: Fleet,
    replicas: int,
    unavailable: int | str,
    deadline_s: int,
    containers: list[dict[str, Any]],
    pause_s: float,
) -> None:
    first, second, third = containers
    budget = 4 if unavailable == "20%" else 1
    rollout = {"maxUnavailable": unavailable, "progressDeadlineSeconds": deadline_s}
    deployed = Deployed(fleet, f"of-{replicas}", replicas, rollout)
    deployed.apply(first)
    deployed.until_complete()
    assert len({each["spec"]["clusterName"] for each in deployed.items("mr")}) == 3

    with Load(deployed.address(), pause_s=pause_s).flowing() as load:
        load.until_answered(10)
        deployed.apply(second)
        deployed.until_complete()
        [good] = deployed.by_revision()
        edited = load.answers

        deployed.apply(third)
        deployed.until_said("", lambda said: 0 < updated(said) < replicas)
        deployed.rollout("pause")
        paused = deployed.until_said("", lambda said: "The rollout is paused" in said)
        load.until_answered(20)
        assert deployed.rollout("status") == paused
        deployed.rollout("resume")
        deployed.until_complete()
        assert (
            deployed.rollout("undo")
            == f"Rolled back md/{deployed.name} to the template of revision 2: " + (second["image"])
        )
        deployed.until_complete()
        assert deployed.by_revision() == {good: replicas}

        deployed.apply({"name": "engine", "image": "registry.example/missing:1"})
        said = deployed.until_said(
            f"{budget} of {replicas} replicas updated", lambda said: "No progress" in said
        )
        assert 'waits for replica "' in said
        assert "missing" in said
        deployed.until_serving({good: replicas - budget})
        load.until_answered(20)
        deployed.rollout("undo")
        deployed.until_complete()
        deployed.until_serving({good: replicas})
        load.until_answered(10)
    told = f"{replicas} replicas: {load.answers} answers, {edited} of them in the first edit"
    print(told)  # noqa: T201 - the figures are what the run is for
    assert load.failures == []
    deployed.delete()
