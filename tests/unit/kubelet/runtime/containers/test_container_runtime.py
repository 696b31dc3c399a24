import asyncio
import base64
import contextlib
import errno
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from modelplane.kube.resources import Object
from modelplane.kubelet.cannot_start import CannotStart
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods.pods import stop_all
from modelplane.kubelet.pods.views import Waiting
from modelplane.kubelet.runtime import host_processes
from modelplane.kubelet.runtime.container_cli import Choice, ContainerRuntimes
from modelplane.kubelet.runtime.container_runtime import PodContainer
from modelplane.kubelet.runtime.host_processes import HostProcesses
from modelplane.kubelet.runtime.other_processes import Process
from modelplane.kubelet.runtime.protocol import Runtime
from modelplane.kubelet.runtime.runtime_choice import Runtimes
from support.container_bench import (
    RECORD,
    STUBBORN,
    Bench,
    a_bench,
    log_of,
    pod,
    sleeping,
    status,
    wait_for,
)
from support.fake_docker import IMAGE

LAUNCHED = "ghcr.io/ggml-org/llama.cpp:server"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with a_bench(tmp_path, monkeypatch) as made:
        yield made


async def test_a_container_is_started_waited_for_and_counted(bench: Bench) -> None:
    runtime, numbers = await bench.runtime(), []
    for code in (0, 3, 4):
        attempt = await bench.start(pod("-c", f"raise SystemExit({code})"))
        ended = await runtime.wait(attempt)
        numbers.append((attempt.number, ended.code, ended.supervised, attempt.image))
    assert numbers == [(0, 0, True, IMAGE), (1, 3, True, IMAGE), (2, 4, True, IMAGE)]
    # The one before the last is kept for its log.
    assert sorted(bench.engine.containers()) == ["modelplane-uid-engine-1", "modelplane-uid-engine-2"]


async def test_a_container_has_what_its_pod_says(bench: Bench) -> None:
    source = "import os, json; print(json.dumps(dict(os.environ)))"
    wanted = sleeping(
        source,
        env=[
            {"name": "TEXT", "value": 'two\nlines of "text"'},
            {"name": "HOME", "value": "/root"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        ports=[{"containerPort": 8000}],
    )
    bench.api.objects["Secret", "s"] = {"data": {"k": base64.b64encode(b"hush hush").decode()}}
    attempt = await bench.start(wanted)
    ended = await (await bench.runtime()).wait(attempt)
    assert ended.code == 0
    variables = json.loads(await log_of(bench, attempt, Selection()))
    expected = {"TEXT": 'two\nlines of "text"', "HOME": "/root", "SECRET": "hush hush", "WHERE": "127.77.1.2"}
    assert {name: variables[name] for name in expected} == expected
    (created,) = bench.engine.calls("create")
    assert "hush hush" not in " ".join(created)
    assert [path for path in attempt.directory.rglob("*") if b"hush hush" in path.read_bytes()] == []
    labels = next(iter(bench.engine.containers().values()))["Config"]["Labels"]
    assert labels == {
        "modelplane.ai/agent": bench.machine.directory.id,
        "modelplane.ai/pod": "default/pod",
        "modelplane.ai/uid": "uid",
        "modelplane.ai/container": "engine",
        "modelplane.ai/attempt": "0",
    }


async def test_a_container_that_was_killed_at_any_moment_of_its_start_is_started_once(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    (record,) = (path for path in attempt.directory.iterdir() if path.name == "started.json")
    record.unlink()  # the agent was killed after the engine had started it
    again = await bench.start(sleeping())
    assert (again, again.started_at) == (attempt, attempt.started_at)
    assert len(bench.engine.calls("create")) == len(bench.engine.calls("start")) == 1


async def test_a_container_that_was_made_and_not_started_is_made_again(bench: Bench) -> None:
    bench.engine.fault(fail={"start": "the daemon went away"}, latency_s=0)
    bench.engine.fault(fail={"start": "error during connect", "container-inspect": "error during connect"})
    assert (await bench.refused(sleeping())).reason == "CreateContainerError"
    assert status(bench) == "created"
    bench.engine.fault()
    attempt = await bench.start(sleeping())
    assert (attempt.number, status(bench)) == (0, "running")
    assert len(bench.engine.containers()) == 1


async def test_nothing_is_started_while_the_engine_does_not_say_what_became_of_the_last(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    (attempt.directory / "started.json").unlink()
    bench.engine.fault(away=True)
    refused = await bench.refused(sleeping())
    assert refused.reason == "ContainerEngineUnavailable"
    assert refused.message.startswith("docker does not answer: Cannot connect to the Docker daemon")
    bench.engine.fault()
    assert (await bench.start(sleeping())).number == 0


async def test_an_engine_that_is_away_has_not_said_that_a_container_ended(bench: Bench) -> None:
    attempt = await bench.start(sleeping("import time; time.sleep(0.5); raise SystemExit(7)"))
    waiting = asyncio.create_task((await bench.runtime()).wait(attempt))
    bench.engine.fault(away=True)
    await wait_for(lambda: status(bench) == "exited")
    await wait_for(lambda: len(bench.engine.calls("container")) > 3)
    assert not waiting.done()
    bench.engine.fault()
    assert (await asyncio.wait_for(waiting, 5)).code == 7


async def test_a_container_that_somebody_removed_has_ended(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    runtime = await bench.runtime()
    await runtime.forget(attempt)
    ended = await runtime.wait(attempt)
    assert (ended.code, ended.supervised, ended.message) == (137, False, "docker no longer has the container")


async def test_a_program_that_the_image_has_not_ends_the_attempt(bench: Bench) -> None:
    attempt = await bench.start(pod(command=["/no/such/program"]))
    ended = attempt.exit
    assert ended is not None
    assert (ended.code, ended.reason) == (127, "StartError")
    assert "/no/such/program" in ended.message
    assert attempt.started_at == ""


async def test_ending_a_container(bench: Bench) -> None:
    runtime = await bench.runtime()
    gentle = await bench.start(sleeping())
    await runtime.terminate(gentle)
    assert (await runtime.wait(gentle)).code == 143
    stubborn = await bench.start(sleeping(STUBBORN))
    await wait_for(lambda: (bench.engine.state / "containers").glob("*/log"))
    await runtime.terminate(stubborn)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(runtime.wait(stubborn), 0.3)
    await runtime.kill(stubborn)
    assert (await runtime.wait(stubborn)).code == 137


async def test_killing_goes_on_until_the_engine_answers(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    bench.engine.fault(away=True)
    killing = asyncio.create_task((await bench.runtime()).kill(attempt))
    await wait_for(lambda: len(bench.engine.calls("kill")) > 1)
    bench.engine.fault()
    await asyncio.wait_for(killing, 5)
    assert status(bench) == "exited"


async def test_an_image_asks_to_be_ended_in_its_own_way(bench: Bench) -> None:
    bench.engine.has("example.com/own:1", Entrypoint=["python3"], StopSignal="SIGINT")
    attempt = await bench.start(sleeping(image="example.com/own:1"))
    await (await bench.runtime()).terminate(attempt)
    await (await bench.runtime()).wait(attempt)
    assert bench.engine.calls("kill")[0][:3] == ["kill", "--signal", "SIGINT"]


async def test_the_log_of_a_container(bench: Bench) -> None:
    source = "import time\nfor number in range(3): print(number)\ntime.sleep(0.3)\nprint('last')"
    attempt = await bench.start(sleeping(source))
    assert await log_of(bench, attempt, Selection(), follow=True) == "0\n1\n2\nlast\n"
    assert await log_of(bench, attempt, Selection(tail_lines=2)) == "2\nlast\n"
    assert await log_of(bench, attempt, Selection(limit_bytes=3)) == "0\n1"
    assert await log_of(bench, attempt, Selection(since="2999-01-01T00:00:00.000000000Z")) == ""
    stamped = await log_of(bench, attempt, Selection(tail_lines=1, timestamps=True))
    assert stamped.startswith(time.strftime("%Y-"))
    assert stamped.endswith("Z last\n")
    assert await (await bench.runtime()).read_termination_message(attempt) == "0\n1\n2\nlast"


async def test_an_engine_that_is_away_has_no_termination_message(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    bench.engine.fault(away=True)
    assert await (await bench.runtime()).read_termination_message(attempt) is None


async def test_a_probe_executes_a_command_in_the_container(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    runtime = await bench.runtime()
    answers = [
        (await runtime.ask(attempt, {"exec": {"command": [program]}}, {}, 5)).ok
        for program in ("true", "false")
    ]
    assert answers == [True, False]


async def test_an_image_is_pulled_and_its_progress_told(bench: Bench) -> None:
    bench.engine.publish("docker.io/owner/engine:1", layers=2, seconds=0.4)
    attempt = await bench.start(sleeping(image="owner/engine:1"))
    assert attempt.image == "owner/engine:1"
    what = 'docker is pulling image "docker.io/owner/engine:1"'
    assert bench.told == [
        Waiting("Pulling", what),
        Waiting("Pulling", f"{what}: 1 of 2 layers"),
        Waiting("Pulling", f"{what}: 2 of 2 layers"),
    ]


async def test_an_image_that_cannot_be_pulled_is_tried_again_later(bench: Bench) -> None:
    runtime, wanted = await bench.runtime(), sleeping(image="example.com/none:1")
    reasons = []
    for _ in range(2):
        with pytest.raises(CannotStart) as caught:
            await runtime.start(wanted, bench.directory, bench.told.append)
        reasons.append(caught.value.rejected)
    assert [rejected.reason for rejected in reasons] == ["ErrImagePull", "ImagePullBackOff"]
    cause = (
        'cannot pull image "example.com/none:1": manifest for example.com/none:1 not found: manifest unknown'
    )
    assert [rejected.message for rejected in reasons] == [cause, f"waiting before the next attempt: {cause}"]
    assert len(bench.engine.calls("pull")) == 1
    assert bench.directory.find_unfinished() is None, "nothing ties the pod to the engine yet"


async def test_an_image_with_a_launcher_says_what_would_run_without_it(bench: Bench) -> None:
    refused = await bench.refused(sleeping(image="vllm/vllm-openai:v1"))
    assert refused.message.endswith("; with --container-engine none vLLM runs without a container")


@pytest.mark.parametrize(
    ("policy", "pulls"),
    [
        pytest.param("IfNotPresent", 0, id="IfNotPresent does not pull an image that is there"),
        pytest.param("Always", 1, id="Always pulls an image that is there"),
        pytest.param("Never", 0, id="Never pulls no image"),
    ],
)
async def test_pulling_follows_its_policy(bench: Bench, policy: str, pulls: int) -> None:
    bench.engine.publish(IMAGE, config={"Entrypoint": ["python3"]})
    await bench.start(sleeping(imagePullPolicy=policy))
    assert len(bench.engine.calls("pull")) == pulls


async def test_an_image_that_must_not_be_pulled_has_to_be_there(bench: Bench) -> None:
    refused = await bench.refused(sleeping(image="example.com/none:1", imagePullPolicy="Never"))
    assert refused.reason == "ErrImageNeverPull"


async def test_a_pull_secret_opens_a_registry_and_is_not_kept(bench: Bench, tmp_path: Path) -> None:
    bench.engine.publish("private.example.com/engine:1", token="b3BlbjpzZXNhbWU=")
    wanted = sleeping(
        image="private.example.com/engine:1", spec={"imagePullSecrets": [{"name": "pull"}, {"name": "gone"}]}
    )
    assert "pull access denied" in (await bench.refused(wanted)).message
    held = json.dumps({"auths": {"private.example.com": {"auth": "b3BlbjpzZXNhbWU="}}})
    data = {".dockerconfigjson": base64.b64encode(held.encode()).decode()}
    bench.api.objects["Secret", "pull"] = {"metadata": {"name": "pull"}, "data": data}
    await bench.start(wanted)
    kept = [path for path in (tmp_path / "agent").rglob("*") if path.is_file()]
    assert [path for path in kept if b"b3BlbjpzZXNhbWU=" in path.read_bytes()] == []


async def test_an_engine_that_was_named_and_is_away_is_told_of(bench: Bench) -> None:
    bench.engine.fault(away=True)
    with pytest.raises(CannotStart) as caught:
        await bench.runtime()
    assert caught.value.rejected.reason == "ContainerEngineUnavailable"
    assert str(caught.value) == (
        "the container runtime docker does not answer: start it, or choose another one with "
        "--container-engine"
    )


@pytest.mark.parametrize(
    ("choice", "image", "runtime"),
    [
        pytest.param(Choice.AUTO, LAUNCHED, HostProcesses, id="an installed program comes before an engine"),
        pytest.param(Choice.AUTO, "example.com/other:1", PodContainer, id="any other image is the engine's"),
        pytest.param(Choice.DOCKER, LAUNCHED, PodContainer, id="a named engine runs every image"),
        pytest.param(Choice.NONE, LAUNCHED, HostProcesses, id="without engines there are only programs"),
    ],
)
async def test_what_runs_an_image(bench: Bench, choice: Choice, image: str, runtime: type[Runtime]) -> None:
    machine = replace(bench.machine, container_runtimes=ContainerRuntimes(choice))
    pod = {"spec": {"containers": [{"name": "engine", "image": image}]}}
    assert isinstance(await Runtimes(machine, RECORD).choose(bench.directory, pod), runtime)


def several(*images: str) -> Object:
    """Return a pod whose first container is its sidecar."""
    sidecar, engine = (
        {"name": name, "image": image} for name, image in zip(("side", "engine"), images, strict=True)
    )
    return {"spec": {"initContainers": [sidecar | {"restartPolicy": "Always"}], "containers": [engine]}}


async def test_a_pod_of_several_containers_is_processes_if_programs_replace_all_images(bench: Bench) -> None:
    machine = replace(bench.machine, container_runtimes=ContainerRuntimes(Choice.AUTO))
    found = await Runtimes(machine, RECORD).choose(bench.directory, several(LAUNCHED, LAUNCHED))
    assert isinstance(found, HostProcesses)


@pytest.mark.parametrize(
    ("choice", "images"),
    [
        pytest.param(Choice.AUTO, ("example.com/other:1", LAUNCHED), id="no program replaces one image"),
        pytest.param(Choice.DOCKER, (LAUNCHED, LAUNCHED), id="a named engine runs every image"),
    ],
)
async def test_a_pod_of_several_containers_is_containers_otherwise(
    bench: Bench, choice: Choice, images: tuple[str, str]
) -> None:
    machine = replace(bench.machine, container_runtimes=ContainerRuntimes(choice))
    found = await Runtimes(machine, RECORD).choose(bench.directory, several(*images))
    assert isinstance(found, PodContainer)


async def test_no_container_starts_if_another_one_of_its_pod_never_can(bench: Bench) -> None:
    wanted = several(IMAGE, IMAGE)
    wanted["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(CannotStart) as caught:
        await Runtimes(bench.machine, RECORD).choose(bench.directory, wanted)
    assert caught.value.rejected.reason == "UnsupportedPod"


async def test_all_containers_of_a_pod_have_the_runtime_of_the_first(bench: Bench) -> None:
    first = bench.machine.directory.get_pod(RECORD.uid).get_container("side").make_attempt()
    first.release(Process(1, "gone"), LAUNCHED)
    found = await Runtimes(bench.machine, RECORD).choose(bench.directory, several(LAUNCHED, LAUNCHED))
    assert isinstance(found, HostProcesses)


async def test_a_pod_stays_with_the_engine_that_began_it(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    without = Machine(
        bench.machine.client,
        bench.machine.directory,
        (),
        bench.machine.events,
        ContainerRuntimes(Choice.NONE),
    )
    runtime = await Runtimes(without, RECORD).choose(bench.directory, sleeping())
    assert runtime.get_container_id(attempt) == next(
        f"docker://{process_attempt['Id']}" for process_attempt in bench.engine.containers().values()
    )


async def test_everything_can_be_stopped_without_an_agent(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    assert await asyncio.to_thread(stop_all, bench.machine.directory.path, 1.0) == 1
    ended = attempt.exit
    assert ended is not None
    assert (ended.code, attempt.settled, bench.engine.containers()) == (143, True, {})
    assert await asyncio.to_thread(stop_all, bench.machine.directory.path, 1.0) == 0
    assert (await (await bench.runtime()).wait(attempt)).code == 143


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        pytest.param(
            errno.EACCES, pytest.raises(OSError, match="why"), id="said, since the next agent cannot"
        ),
        pytest.param(errno.ENOSPC, contextlib.nullcontext(), id="recorded by the next agent"),
        pytest.param(errno.EDQUOT, contextlib.nullcontext(), id="a quota is a full disk"),
    ],
)
async def test_what_keeps_a_process_from_being_recorded_keeps_no_container_running(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    outcome: contextlib.AbstractContextManager[object],
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(number, "why")

    await bench.start(sleeping())
    monkeypatch.setattr(host_processes, "stop_attempts", fail)
    with outcome:
        await asyncio.to_thread(stop_all, bench.machine.directory.path, 1.0)
    assert bench.engine.containers() == {}


async def test_what_an_engine_that_is_away_runs_is_not_called_ended(bench: Bench) -> None:
    attempt = await bench.start(sleeping())
    bench.engine.fault(away=True)
    await asyncio.to_thread(stop_all, bench.machine.directory.path, 1.0)
    assert (attempt.exit, attempt.settled, status(bench)) == (None, False, "running")


async def test_the_network_of_pods_is_made_once_and_goes_with_the_fleet(bench: Bench) -> None:
    await bench.start(sleeping())
    await (await bench.runtime()).kill(await bench.start(sleeping()))
    created = ["network", "create", "--subnet", "198.18.0.0/16", "--gateway", "198.18.0.255", "modelplane"]
    assert [call for call in bench.engine.calls("network") if "create" in call] == [created]
    await asyncio.to_thread(stop_all, bench.machine.directory.path, 1.0)
    assert json.loads((bench.engine.state / "networks").read_text()) == {}
    assert bench.machine.directory.list_networks() == ()


async def test_a_container_that_must_not_be_root_is_not(bench: Bench) -> None:
    wanted = sleeping(spec={"securityContext": {"runAsNonRoot": True}})
    assert (await bench.refused(wanted)).message == (
        "the container would run as root, which runAsNonRoot forbids: set runAsUser"
    )
    wanted["spec"]["securityContext"]["runAsUser"] = 1000
    await bench.start(wanted)
    assert bench.engine.calls("create")[0].count("--user") == 1
