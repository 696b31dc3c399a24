"""Prefill and decode by two engines of one machine, as the example's page tells it."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import openai
import psutil
import pytest

from modelplane.local.home import Home
from support.fleets import Fleet
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "08-prefill-and-decode" / "model-deployment.yaml"
IN_TEAM = ("-n", "ml-team")
PICKER = "modelplane.kubelet.engines.endpoint_picker"
_BEFORE_ARGUMENTS = 5


@pytest.fixture(scope="module")
def divided(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet whose one node has two devices, with the example on it."""
    started = Fleet(Home(tmp_path_factory.mktemp("divided")), kubernetes_binary)
    try:
        started.modelplane("up", "--cpu-devices", "2", "--container-engine", "none")
        started.kubectl("apply", "-f", str(EXAMPLE))
        started.wait_until_served("divided", "ml-team")
        yield started
    finally:
        started.modelplane("down")


@pytest.fixture
def client(divided: Fleet) -> openai.OpenAI:
    address = divided.kubectl("get", "ms/divided", *IN_TEAM, "-o", "jsonpath={.status.address}")
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def say(client: openai.OpenAI) -> str:
    """Stream an answer to its end, and return it."""
    stream = client.chat.completions.create(
        model="gemma",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=8,
        stream=True,
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def pickers_of(fleet: Fleet) -> set[int]:
    """Return the processes of the pickers of a fleet's only pool."""
    pickers = set()
    for record in fleet.home.root.rglob("engine.json"):
        with suppress(psutil.Error):
            process = psutil.Process(json.loads(record.read_text())["pid"])
            # The process that starts a picker has the command of the picker in its own.
            if PICKER in process.cmdline()[:_BEFORE_ARGUMENTS]:
                pickers.add(process.pid)
    return pickers


def test_a_request_is_prefilled_then_decoded_and_streamed(divided: Fleet, client: openai.OpenAI) -> None:
    steps: list[str] = []

    def logged() -> bool:
        # A picker that has not seen the prefill pod yet has the decode engine do both.
        assert say(client)
        logs = divided.kubectl("logs", *IN_TEAM, "-l", "llm-d.ai/role=decode", "-c", "pd-sidecar")
        steps[:] = [line for line in logs.splitlines() if ": prefill at " in line or ": decode at " in line]
        return [": prefill at " in line for line in steps[-2:]] == [True, False]

    until(logged, "the sidecar tells what it did")
    identities = [line.split(": ")[1] for line in steps[-2:]]
    assert identities[0] == identities[1]
    assert steps[-2].endswith(": 200")


def test_a_killed_picker_is_replaced_and_costs_no_service(divided: Fleet, client: openai.OpenAI) -> None:
    until(lambda: len(pickers_of(divided)) == 2, "both pickers run")
    killed = min(pickers_of(divided))
    os.kill(killed, signal.SIGKILL)

    def answers() -> bool:
        try:
            return bool(say(client))
        except openai.InternalServerError:
            return False  # Envoy has sent the body to the process that ended

    until(answers, "the other picker is asked")
    until(lambda: len(pickers_of(divided) - {killed}) == 2, "the picker is started again")
    divided.kubectl("wait", "--for=condition=Ready", "mr", "--all", *IN_TEAM, "--timeout=180s")
    until(answers, "the pool answers with its new picker")
