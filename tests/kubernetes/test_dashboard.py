"""The dashboard and `modelplane top` over a real API server."""

import re
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from modelplane.compose.conditions import Condition
from modelplane.controllers.condition_events import Recorder
from modelplane.dashboard.fleet_view import Watched
from modelplane.dashboard.snapshot import EVENT, build_timeline
from modelplane.kube import events, timestamps
from modelplane.kube.client import Client
from support.fleets import ControlPlane
from support.telemetry import fetch

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: other modules leave clusters on the common one."""
    return own_control_plane


def modelplane(control_plane: ControlPlane, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "modelplane.cli.main", *arguments]
    return subprocess.Popen(
        [*command, "--kubeconfig", str(control_plane.kubeconfig)], stdout=subprocess.PIPE, text=True
    )


async def test_only_events_of_the_controllers_are_watched(client: Client) -> None:
    owner = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "seen", "namespace": "default", "uid": "a"},
    }
    await Recorder(client).record(owner, Condition("ReplicasScheduled", True, "Scheduled", "1 of 1"))
    about = {"apiVersion": "v1", "kind": "Namespace", "name": "other"}
    other = events.build_event(
        about,
        at=timestamps.format_now_micro(),
        warning=False,
        reason="Other",
        action="Other",
        note="",
        controller="other.example/one",
        instance="one",
    )
    await client.create(other)

    watched = Watched(client, datetime.now(UTC))
    async with watched.keep_current(30):
        snapshot = watched.take_snapshot()

        assert watched.list_problems() == ()
    assert {item["reportingController"] for item in snapshot.list_objects(EVENT)} == {
        "modelplane.ai/controller"
    }
    assert [(each.name, each.reason) for each in build_timeline(snapshot) if each.name == "seen"] == [
        ("seen", "Scheduled")
    ]


def test_the_command_serves_the_address_that_it_prints(control_plane: ControlPlane) -> None:
    with modelplane(control_plane, "dashboard", "--port", "0") as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(
                r"Open http://(127\.0\.0\.1:(\d+))/\?key=(\S+)", process.stdout.readline().strip()
            )
            assert found is not None
            address, port, key = found.groups()
            status, _, body = fetch(address, "/", Cookie=f"modelplane-{port}={key}")
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait() == 130

    assert status == 200
    assert b"This fleet has no clusters yet" in body


def test_top_prints_the_fleet_once(control_plane: ControlPlane) -> None:
    with modelplane(control_plane, "top", "--once") as process:
        assert process.stdout is not None
        printed = process.stdout.read()

    assert process.returncode == 0
    assert printed.split() == [
        *printed.split()[:4],
        "Clusters",
        "none",
        "Deployments",
        "none",
        "Services",
        "none",
    ]
