"""Canaries on a fleet of this machine: real Envoy, real pods, and clients that ask all the time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleets import Fleet
from support.load import Load
from support.rolling import Deployed, fleet_of, stand_in

pytestmark = pytest.mark.kubernetes

ROLLOUT = {
    "canary": {
        "steps": [{"weight": 30, "durationSeconds": 1}, {"weight": 60, "durationSeconds": 1}],
        "abortOn": {"errorRate": "10%", "latencyRatio": "3", "minRequests": 15},
    }
}


@pytest.fixture(scope="module")
def fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_of(tmp_path_factory.mktemp("canary"), kubernetes_binary, "--cpu-devices=4") as running:
        yield running


def test_a_good_revision_is_promoted_and_bad_ones_are_stopped_under_load(fleet: Fleet) -> None:
    deployed = Deployed(fleet, "chat", 3, ROLLOUT)
    deployed.apply(stand_in(delay=0.02))
    deployed.until_complete()
    [good] = deployed.by_revision()

    with Load(deployed.address(), pause_s=0.02).flowing() as load:
        load.until_answered(20)
        with deployed.phases_of_canary() as phases:
            deployed.apply(stand_in(delay=0.021))
            deployed.until_complete()
        assert "Running" in phases
        [better] = deployed.by_revision()
        assert better != good
    assert load.failures == []

    with Load(deployed.address(), pause_s=0.02).flowing() as load:
        load.until_answered(20)
        deployed.apply(stand_in(delay=0.02, errors=0.5))
        said = deployed.until_said("the canary of revision ")
        assert "answers of the new revision are errors, more than 10%; of the old revision, 0% of" in said
        deployed.until_serving({better: 2})
        load.until_answered(20)  # those that were sent before have ended
        failed = len(load.failures)
        load.until_answered(20)
        assert deployed.rollout("undo").startswith("Rolled back md/chat to the template of revision 2")
        deployed.until_serving({better: 3})
        assert len(load.failures) == failed, "no request goes to what was stopped"

    with Load(deployed.address(), pause_s=0.02).flowing() as load:
        deployed.apply(stand_in(delay=1.0))
        said = deployed.until_said("the canary of revision ")
        assert "an answer of the new revision takes" in said
        deployed.until_serving({better: 2})
    assert load.failures == []
    assert "CanaryAborted" in deployed.get("events", "--field-selector=type=Warning")
