"""The first example, as its README tells it, on a real fleet."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from kubernetes.test_tour import at_a_terminal, readme
from modelplane.host.errors import LocalError
from modelplane.proxy import admin, gateway_metrics
from modelplane.telemetry import metric_definitions
from support.fleets import PROCESSES, Fleet, find_engines
from support.patience import PATIENCE_S
from support.transcripts import read_page

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
POLL_S = 0.5
"""Between two looks with a command, each of which takes a quarter of a second on a core."""
PROMPT = "The capital of France is"


def _address(fleet: Fleet) -> str:
    return fleet.kubectl("get", "ms", "first-answer", "-n", "ml-team", "-o", "jsonpath={.status.address}")


def _answer(fleet: Fleet) -> str:
    with openai.OpenAI(
        base_url=f"{_address(fleet)}/v1", api_key="none", max_retries=0, timeout=150
    ) as client:
        answer = client.chat.completions.create(
            model="gemma",
            messages=[{"role": "user", "content": PROMPT}],
            max_tokens=12,
            temperature=0,
            seed=7,
        )
    return answer.choices[0].message.content or ""


def _ready(fleet: Fleet) -> None:
    fleet.wait_until_served("first-answer", "ml-team")


def _condition(fleet: Fleet, type_: str) -> dict[str, str]:
    deployment = json.loads(fleet.kubectl("get", "md", "gemma", "-n", "ml-team", "-o", "json"))
    found: list[dict[str, str]] = deployment.get("status", {}).get("conditions", [])
    return next((condition for condition in found if condition["type"] == type_), {})


def _until(fleet: Fleet, type_: str, status: str, timeout_s: float = PATIENCE_S) -> dict[str, str]:
    deadline = time.monotonic() + timeout_s
    while (condition := _condition(fleet, type_)).get("status") != status:
        assert time.monotonic() < deadline, condition
        time.sleep(POLL_S)
    return condition


@pytest.fixture(scope="module")
def served(fleet: Fleet) -> Iterator[Fleet]:
    fleet.kubectl("apply", "-f", str(EXAMPLE))
    _ready(fleet)
    yield fleet
    fleet.kubectl("delete", "md,ms", "--all", "-n", "ml-team", "--timeout=180s")


def test_the_openai_client_gets_tokens(served: Fleet) -> None:
    assert _answer(served).strip()


def test_the_usage_of_the_service_is_summed(served: Fleet) -> None:
    before = _requests(served)
    _answer(served)
    deadline = time.monotonic() + PATIENCE_S
    while _requests(served) <= before:
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def _requests(fleet: Fleet) -> int:
    groups = json.loads(fleet.modelplane("usage", "-o", "json"))["groups"]
    return next((each["requests"] for each in groups if each["service"] == "ml-team/first-answer"), 0)


def test_the_openai_client_gets_a_stream(served: Fleet) -> None:
    with openai.OpenAI(
        base_url=f"{_address(served)}/v1", api_key="none", max_retries=0, timeout=60
    ) as client:
        pieces = [
            piece.choices[0].delta.content
            for piece in client.chat.completions.create(
                model="gemma",
                messages=[{"role": "user", "content": "Tell me a story about a dragon."}],
                max_tokens=32,
                temperature=0,
                seed=7,
                stream=True,
            )
            if piece.choices and piece.choices[0].delta.content
        ]
    assert len(pieces) > 3, "a stream comes in pieces"
    assert "".join(pieces).strip()


@pytest.mark.usefixtures("module_library")
def test_one_url_leads_to_the_model_that_a_request_names(served: Fleet) -> None:
    (url,) = re.findall(r"or (http://\S+/v1) with model NAMESPACE/SERVICE", served.modelplane("status"))
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
        assert "ml-team/first-answer" in [each.id for each in client.models.list()]
        for model in ("ml-team/first-answer", "first-answer"):
            answer = client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": PROMPT}], max_tokens=4, seed=7
            )
            assert answer.choices[0].message.content
        _grant(served, {"name": "gemma", "service": "ml-team/first-answer", "namespaces": ["*"]})
        deadline = time.monotonic() + PATIENCE_S
        while "gemma" not in [each.id for each in client.models.list()]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    _grant(served)


def _grant(fleet: Fleet, *aliases: dict[str, Any]) -> None:
    patch = json.dumps({"spec": {"aliases": aliases or None}})
    fleet.kubectl("patch", "ig", "default", "--type=merge", "-p", patch)


@pytest.mark.usefixtures("module_library")
def test_a_request_for_a_deployment_at_zero_waits_until_it_is_scaled_up(served: Fleet) -> None:
    _hold(served, {"timeoutSeconds": 300})
    served.kubectl("scale", "md/gemma", "-n", "ml-team", "--replicas=0")
    served.kubectl("wait", "--for=delete", "me", "--all", "-n", "ml-team", "--timeout=180s")
    message = "{.status.conditions[?(@.type=='RoutingReady')].message}"
    waits = "requests wait up to 300 s for a replica, at most 100 at the same time"
    said = f"--for=jsonpath={message}=no endpoints to route to; {waits}"
    served.kubectl("wait", said, "ms/first-answer", "-n", "ml-team", "--timeout=180s")
    with ThreadPoolExecutor() as pool:
        cut_off = _until_held(served, pool)
        pid = _status(served)["envoy"]["pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(openai.APIConnectionError):
            cut_off.result(PATIENCE_S)
        asking = _until_held(served, pool)
        served.kubectl("scale", "md/gemma", "-n", "ml-team", "--replicas=1")
        assert asking.result(PATIENCE_S).strip()
    assert _held(served) == "0"
    _hold(served, None)
    _ready(served)


AUTOSCALER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceAutoscaler",
    "metadata": {"name": "gemma", "namespace": "ml-team"},
    "spec": {
        "deploymentRef": {"name": "gemma"},
        "minReplicas": 0,
        "maxReplicas": 1,
        "targets": {"requestsPerReplica": 4},
        "windows": {"scaleDownSeconds": 30, "scaleToZeroSeconds": 5},
    },
}


@pytest.mark.usefixtures("module_library")
def test_a_held_request_starts_the_first_replica_and_silence_ends_the_last(
    served: Fleet, tmp_path: Path
) -> None:
    _hold(served, {"timeoutSeconds": 300})
    manifest = tmp_path / "autoscaler.json"
    manifest.write_text(json.dumps(AUTOSCALER))
    served.kubectl("apply", "-f", str(manifest))
    _replicas(served, 0)
    served.kubectl("wait", "--for=delete", "me", "--all", "-n", "ml-team", "--timeout=180s")
    assert _answer(served).strip()
    measured = "--for=jsonpath={.status.coldStartSeconds}"
    served.kubectl("wait", measured, "ia/gemma", "-n", "ml-team", "--timeout=180s")
    _replicas(served, 0)
    _until_described(
        served,
        "ScaledUp .*from 0 to 1: a load of .* on average needs 1 replica",
        "ScaledDown .*from 1 to 0: no requests for 5 s",
    )
    served.kubectl("wait", "--for=condition=ScalingActive", "ia/gemma", "-n", "ml-team", "--timeout=180s")
    # Paused, it leaves the number to others.
    pause = '{"spec":{"paused":true}}'
    served.kubectl("patch", "ia", "gemma", "-n", "ml-team", "--type=merge", "-p", pause)
    said = "--for=jsonpath={.status.conditions[?(@.type=='ScalingActive')].reason}=Paused"
    served.kubectl("wait", said, "ia/gemma", "-n", "ml-team", "--timeout=180s")
    served.kubectl("scale", "md/gemma", "-n", "ml-team", "--replicas=1")
    _hold(served, None)
    _ready(served)
    served.kubectl("delete", "ia", "gemma", "-n", "ml-team")
    assert served.kubectl("get", "md", "gemma", "-n", "ml-team", "-o", "jsonpath={.spec.replicas}") == "1"


def _until_described(fleet: Fleet, *events: str) -> None:
    """Wait for events of the autoscaler, which are written beside what they tell of."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        described = fleet.kubectl("describe", "ia", "gemma", "-n", "ml-team")
        if all(re.search(each, described) for each in events):
            return
        assert time.monotonic() < deadline, described
        time.sleep(POLL_S)


CROWD = int(os.environ.get("MODELPLANE_CROWD", "30"))
"""Requests that wait together; `make crowd` has 200, which take minutes."""


@pytest.mark.usefixtures("module_library")
def test_a_crowd_of_held_requests_is_answered_by_the_replica_that_it_starts(
    served: Fleet, tmp_path: Path
) -> None:
    _hold(served, {"timeoutSeconds": 600, "maxRequests": CROWD})
    served.kubectl("scale", "md/gemma", "-n", "ml-team", "--replicas=0")
    served.kubectl("wait", "--for=delete", "me", "--all", "-n", "ml-team", "--timeout=180s")
    envoy = psutil.Process(int(str(_status(served)["envoy"]["pid"])))
    streams, before = _streams(served), envoy.memory_info().rss
    manifest = tmp_path / "autoscaler.json"
    manifest.write_text(json.dumps(AUTOSCALER))
    answers, waiting, seconds = asyncio.run(_crowd(served, envoy, manifest))
    assert all(answers), "every request that was held has an answer"
    # A request that is held has its buffers and those of its connection.
    assert waiting - before < CROWD * (1 << 20)
    deadline = time.monotonic() + PATIENCE_S
    while _streams(served) - streams < CROWD:
        assert time.monotonic() < deadline, "each stream has a time to its first token"
        time.sleep(POLL_S)
    _replicas(served, 0)
    # Else the service is still ready by the replica that leaves.
    served.kubectl("wait", "--for=delete", "me", "--all", "-n", "ml-team", "--timeout=180s")
    served.kubectl("delete", "ia", "gemma", "-n", "ml-team")
    served.kubectl("scale", "md/gemma", "-n", "ml-team", "--replicas=1")
    _hold(served, None)
    _ready(served)
    sys.stderr.write(f"first token after {seconds:.1f} s, {(waiting - before) >> 10} KiB for {CROWD} held\n")


async def _crowd(fleet: Fleet, envoy: psutil.Process, autoscaler: Path) -> tuple[list[str], int, float]:
    """Ask until all requests wait, and then let them start a replica.

    Returns the answers, Envoy's memory while all wait, and the seconds from the start to the first token.
    """
    first: list[float] = []
    options: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": 3 * PATIENCE_S}

    async def ask(client: openai.AsyncOpenAI, number: int) -> str:
        text = ""
        messages: list[Any] = [{"role": "user", "content": f"{PROMPT} {number}"}]
        stream = await client.chat.completions.create(
            model="gemma", messages=messages, max_tokens=4, stream=True
        )
        async for event in stream:
            first.append(time.monotonic())
            text += (event.choices[0].delta.content or "") if event.choices else ""
        return text

    async with openai.AsyncOpenAI(base_url=f"{_address(fleet)}/v1", **options) as client:
        asking = [asyncio.create_task(ask(client, number)) for number in range(CROWD)]
        while await asyncio.to_thread(_held, fleet) != str(CROWD):
            assert not any(task.done() for task in asking)
            await asyncio.sleep(POLL_S)
        memory, begun = envoy.memory_info().rss, time.monotonic()
        await asyncio.to_thread(fleet.kubectl, "apply", "-f", str(autoscaler))
        answers = await asyncio.gather(*asking)
    return answers, memory, min(first) - begun


def _streams(fleet: Fleet) -> float:
    """Return the streams that have a time to their first token."""
    return sum(
        sample.value
        for sample in gateway_metrics.read_samples(fleet.home.envoy)
        if sample.metric is metric_definitions.GATEWAY_FIRST_TOKEN and sample.bucket != metric_definitions.SUM
    )


def _replicas(fleet: Fleet, count: int) -> None:
    wanted = f"--for=jsonpath={{.spec.replicas}}={count}"
    fleet.kubectl("wait", wanted, "md/gemma", "-n", "ml-team", "--timeout=180s")


def _until_held(fleet: Fleet, pool: ThreadPoolExecutor) -> "Future[str]":
    """Ask until a request waits: a gateway that has just started may not know yet that it is to."""
    deadline = time.monotonic() + PATIENCE_S
    asking = pool.submit(_answer, fleet)
    while _held(fleet) != "1":
        assert time.monotonic() < deadline
        if asking.done():
            assert isinstance(asking.exception(), (openai.APIConnectionError, openai.InternalServerError))
            asking = pool.submit(_answer, fleet)
        time.sleep(0.1)
    return asking


def _hold(fleet: Fleet, limits: dict[str, int] | None) -> None:
    patch = json.dumps({"spec": {"hold": limits}})
    fleet.kubectl("patch", "ms", "first-answer", "-n", "ml-team", "--type=merge", "-p", patch)


def _held(fleet: Fleet) -> str:
    """Return the gauge of held requests; empty before the first one."""
    try:
        text = admin.read_prometheus(fleet.home.envoy, "held_requests")
    except LocalError:
        return ""
    value = r'^envoy_modelplane_held_requests{service="ml-team/first-answer"} (\d+)$'
    found = re.search(value, text, re.MULTILINE)
    return found[1] if found else ""


def test_chat_prints_an_answer(served: Fleet) -> None:
    assert served.modelplane("chat", "first-answer", "-n", "ml-team", PROMPT).strip()


def test_kubectl_shows_every_kind(served: Fleet) -> None:
    shown = served.kubectl("get", "md,mr,ms,me,ic,icl", "-A")
    for name in ("gemma", "first-answer", "inferencecluster.modelplane.ai/local"):
        assert name in shown
    deadline = time.monotonic() + PATIENCE_S
    while len(replica := served.kubectl("get", "mr", "-n", "ml-team").splitlines()) > 2:
        assert time.monotonic() < deadline, replica  # one of the test before may still be leaving
        time.sleep(POLL_S)
    assert replica[0].split() == ["NAME", "CLUSTER", "SYNCED", "READY", "REASON", "AGE"]
    assert replica[1].split()[1:5] == ["local", "True", "True", "Available"]
    described = served.kubectl("describe", "md", "gemma", "-n", "ml-team")
    assert "1 of 1 replicas placed, on local" in described
    # A replica is made so soon that nothing may be seen to wait for it: that it is ready comes later.
    assert "AllReplicasReady" in described.partition("Events:")[2]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        pytest.param("md", "NAME READY REASON CLUSTERS SYNCED AGE", id="ModelDeployment"),
        pytest.param("ms", "NAME ADDRESS SYNCED READY REASON AGE", id="ModelService"),
        pytest.param("me", "NAME URL SYNCED READY REASON AGE", id="ModelEndpoint"),
        pytest.param("ic", "NAME SOURCE GATEWAY SYNCED READY REASON AGE", id="InferenceCluster"),
        pytest.param("icl", "NAME SYNCED READY REASON AGE", id="InferenceClass"),
        pytest.param("ig", "NAME GATEWAY ADDRESS SYNCED READY REASON AGE", id="InferenceGateway"),
    ],
)
def test_kubectl_shows_the_documented_columns(served: Fleet, kind: str, columns: str) -> None:
    assert served.kubectl("get", kind, "-n", "ml-team").splitlines()[0].split() == columns.split()


def test_kubectl_explains_every_field(served: Fleet) -> None:
    explained = served.kubectl("explain", "md.spec.engines")
    assert "FIELD: engines <[]Object>" in explained
    assert "members\t<[]Object> -required-" in explained


def test_kube_scheduler_allocated_the_device(served: Fleet) -> None:
    shown = served.kubectl("get", "resourceclaims", "-n", "ml-team")
    assert "allocated,reserved" in shown
    claims = json.loads(served.kubectl("get", "resourceclaims", "-n", "ml-team", "-o", "json"))
    [allocated] = claims["items"][0]["status"]["allocation"]["devices"]["results"]
    slices = json.loads(served.kubectl("get", "resourceslices", "-o", "json"))
    published = {
        (item["spec"]["driver"], device["name"])
        for item in slices["items"]
        for device in item["spec"]["devices"]
    }
    assert (allocated["driver"], allocated["device"]) in published


def test_logs_come_through_the_api(served: Fleet) -> None:
    assert served.kubectl("logs", "-n", "ml-team", "-l", "modelplane.ai/serving", "--tail=20").strip()


def test_a_wrong_field_gets_the_api_servers_own_error(served: Fleet) -> None:
    said = served.kubectl(
        "patch", "md", "gemma", "-n", "ml-team", "--type=merge", "-p", '{"spec":{"replcas":2}}', check=False
    )
    assert 'unknown field "spec.replcas"' in said


def test_a_selector_that_nothing_matches_names_the_cluster_and_keeps_the_replica(served: Fleet) -> None:
    path = "/spec/engines/0/members/0/nodeSelector/devices/0/selectors/0/cel"
    too_much = 'device.capacity[device.driver].memory.compareTo(quantity("100Ti")) >= 0'
    patch = json.dumps([{"op": "replace", "path": path, "value": too_much}])
    served.kubectl("patch", "md", "gemma", "-n", "ml-team", "--type=json", "-p", patch)
    condition = _until(served, "ReplicasScheduled", "False")
    assert condition["reason"] == "InsufficientCapacity"
    assert "local: largest memory offered is" in condition["message"]
    explained = served.modelplane("explain", "md/gemma", "-n", "ml-team", check=False)
    assert "largest memory offered is" in explained
    assert "Changes that place one more replica:" in explained
    assert _answer(served).strip(), "what runs goes on running"
    served.kubectl("apply", "-f", str(EXAMPLE))
    _until(served, "ReplicasScheduled", "True")
    _ready(served)


def _status(fleet: Fleet) -> dict[str, dict[str, object]]:
    document = json.loads(fleet.modelplane("status", "-o", "json"))
    return {process["name"]: process for process in document["processes"]}


def test_the_gateway_asks_for_keys_as_its_page_says(
    served: Fleet, kubernetes_binary: Path, tmp_path: Path
) -> None:
    reader = at_a_terminal(served, kubernetes_binary, tmp_path)
    *story, clean_up = read_page(readme("07-api-keys"))
    try:
        reader.take("07-api-keys", *story)
    finally:
        reader.take("07-api-keys", clean_up)
    served.kubectl("wait", "--for=condition=Authenticated=false", "ig/default", "--timeout=180s")
    assert _answer(served).strip()


@pytest.mark.parametrize("name", PROCESSES)
def test_a_killed_process_is_back(served: Fleet, name: str) -> None:
    before = _answer(served)
    pid = _status(served)[name]["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = _try_status(served).get(name, {})
        if found.get("pid") not in (pid, 0, None) and found.get("state") == "Running":
            break
        assert time.monotonic() < deadline, found
        time.sleep(POLL_S)
    _ready(served)
    assert _answer_soon(served) == before


def _try_status(fleet: Fleet) -> dict[str, dict[str, object]]:
    said = fleet.modelplane("status", "-o", "json", check=False)
    try:
        return {process["name"]: process for process in json.loads(said)["processes"]}
    except ValueError:
        return {}


def _answer_soon(fleet: Fleet) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _answer(fleet)
        except (openai.OpenAIError, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def test_a_killed_engine_is_back(served: Fleet) -> None:
    before = _answer(served)
    os.kill(find_engines(served.home)["engine"], signal.SIGKILL)
    time.sleep(1)
    assert _answer_soon(served) == before


def test_down_and_up_bring_back_the_same_fleet(served: Fleet) -> None:
    before = _answer(served)
    uid = served.kubectl("get", "mr", "-n", "ml-team", "-o", "jsonpath={.items[0].metadata.uid}")
    served.modelplane("down")
    served.modelplane("up")
    assert _answer(served) == before, "up returned before what was served before answers again"
    assert served.kubectl("get", "mr", "-n", "ml-team", "-o", "jsonpath={.items[0].metadata.uid}") == uid


def test_deleting_the_deployment_leaves_nothing_behind(served: Fleet) -> None:
    served.kubectl("delete", "md", "gemma", "-n", "ml-team")
    deadline = time.monotonic() + PATIENCE_S
    kinds = "mr,me,deployments,pods,resourceclaims,resourceclaimtemplates,httproutes,services"
    while left := served.kubectl("get", kinds, "-n", "ml-team", "-o", "name").split():
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    served.kubectl("apply", "-f", str(EXAMPLE))
    _ready(served)
    assert _answer_soon(served).strip()
