"""The network of a pod of several containers, with the stand-in of a container runtime."""

import asyncio
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.kube.resources import Object
from modelplane.kubelet.pods.pods import stop_all
from modelplane.kubelet.records import Attempt
from modelplane.kubelet.runtime import garbage_collection, pod_network
from modelplane.kubelet.runtime.container_arguments import (
    ContainerIdentity,
    ContainerInputs,
    CreateArguments,
    create_arguments,
)
from modelplane.kubelet.runtime.container_cli import (
    RUNTIME_KINDS,
    Choice,
    ContainerRuntimeError,
    find_runtime,
)
from support.container_bench import RECORD, SLEEP, Bench, a_bench, sleeping
from support.fake_docker import IMAGE

NETWORK = "modelplane-uid-.network-0"
ENGINE = "modelplane-uid-engine-0"
SIDE = "modelplane-uid-side-0"


def several() -> Object:
    """Return a pod of a sidecar and an engine, each with ports."""
    sidecar = {
        "name": "side",
        "image": IMAGE,
        "args": ["-u", "-c", SLEEP],
        "restartPolicy": "Always",
        "ports": [{"containerPort": 9000}],
        "readinessProbe": {"httpGet": {"port": 8000}},
    }
    return sleeping(ports=[{"containerPort": 8000}], spec={"initContainers": [sidecar]})


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with a_bench(tmp_path, monkeypatch) as made:
        made.whole = several()
        yield made


async def both(bench: Bench) -> tuple[Attempt, Attempt]:
    return await bench.start_of_several("side"), await bench.start_of_several("engine")


async def test_containers_join_one_that_has_all_ports_of_the_pod(bench: Bench) -> None:
    await both(bench)
    holder, side, engine = (bench.engine.containers()[name]["HostConfig"] for name in (NETWORK, SIDE, ENGINE))
    assert holder["publish"] == ["127.77.1.2:8000:8000/tcp", "127.77.1.2:9000:9000/tcp"]
    assert (holder["network"], holder["ip"], holder["hostname"]) == (["modelplane"], ["198.18.1.2"], ["pod"])
    assert (holder["user"], holder["cap-drop"], holder["stop-signal"]) == (["65534:65534"], ["ALL"], ["KILL"])
    held = bench.engine.containers()[NETWORK]["Id"]
    for joined in (side, engine):
        assert joined["network"] == [f"container:{held}"]
        assert not joined.keys() & {"publish", "ip", "hostname"}


async def test_containers_that_start_together_make_it_once(bench: Bench) -> None:
    assert bench.whole is not None
    network = pod_network.find_network(bench.machine, RECORD, bench.whole)
    assert network is not None
    await (await bench.runtime()).start(
        sleeping(), bench.directory, bench.told.append
    )  # makes what pods need
    held = await asyncio.gather(*(network.hold(find_runtime("docker"), IMAGE) for _ in range(3)))
    assert set(held) == {bench.engine.containers()[NETWORK]["Id"]}


async def test_a_pod_of_one_container_has_a_network_of_its_own(bench: Bench) -> None:
    assert pod_network.find_network(bench.machine, RECORD, sleeping()) is None


async def test_a_container_without_its_network_is_ended_and_says_why(bench: Bench) -> None:
    _, engine = await both(bench)
    await find_runtime("docker").do("kill", "--signal", "KILL", NETWORK)
    ended = await (await bench.runtime()).wait(engine)
    assert (ended.code, ended.reason) == (137, "PodNetworkLost")
    again = await bench.start_of_several("engine")
    assert again.number == 1
    assert bench.engine.containers()[NETWORK]["State"]["Status"] == "running", "it is the same one"


async def test_a_container_that_joined_before_the_network_began_anew_is_ended(bench: Bench) -> None:
    side, _ = await both(bench)
    await find_runtime("docker").do("kill", "--signal", "KILL", NETWORK)
    # The engine's worker is the first to know, and starts it again.
    await find_runtime("docker").do("wait", NETWORK)
    await find_runtime("docker").do("start", NETWORK)
    assert (await (await bench.runtime()).wait(side)).reason == "PodNetworkLost"


async def test_a_runtime_that_is_away_has_not_said_that_the_network_ended(bench: Bench) -> None:
    _, engine = await both(bench)
    bench.engine.fault(away=True)
    waiting = asyncio.create_task((await bench.runtime()).wait(engine))
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    bench.engine.fault()
    await find_runtime("docker").do("kill", "--signal", "KILL", ENGINE)
    assert (await waiting).reason == ""


async def test_it_goes_after_the_others_when_a_fleet_ends(bench: Bench) -> None:
    await both(bench)
    assert await asyncio.to_thread(stop_all, bench.machine.directory.path, 1.0) == 2, (
        "it is none of the pod's"
    )
    assert bench.engine.containers() == {}
    assert bench.engine.calls("rm")[-1][-1] == NETWORK
    assert not any(NETWORK in call for call in bench.engine.calls("stop"))


async def test_it_goes_after_the_others_if_nobody_knows_of_the_pod(bench: Bench) -> None:
    await both(bench)
    agent = bench.machine.directory.id
    await garbage_collection.sweep(find_runtime("docker"), agent, lambda uid: uid == RECORD.uid)
    assert len(bench.engine.containers()) == 3
    held = bench.engine.containers()[NETWORK]["Id"]
    await garbage_collection.sweep(find_runtime("docker"), agent, lambda _uid: False)
    assert bench.engine.containers() == {}
    removed = [call[-1] for call in bench.engine.calls("rm")]
    assert (len(removed), removed[-1]) == (3, held)


async def test_a_machine_without_a_program_for_it_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert bench.whole is not None
    network = pod_network.find_network(bench.machine, RECORD, bench.whole)
    assert network is not None
    with pytest.raises(
        ContainerRuntimeError, match="needs a machine of aarch64 or x86_64, and this is riscv64"
    ):
        await network.hold(find_runtime("docker"), IMAGE)
    assert bench.engine.containers() == {}


@pytest.mark.parametrize(
    ("choice", "options"),
    [
        pytest.param(Choice.DOCKER, (), id="Docker's has the name of the network's"),
        pytest.param(Choice.NERDCTL, (), id="nerdctl's has it too"),
        pytest.param(Choice.PODMAN, ("--hostname", "pod"), id="Podman's is named itself"),
    ],
)
def test_the_name_of_a_host(choice: Choice, options: tuple[str, ...]) -> None:
    inputs = ContainerInputs(address="198.18.1.2", environment={}, joins="held")
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{}]}}
    made = create_arguments(RUNTIME_KINDS[choice], ContainerIdentity("it", {}), IMAGE, pod, inputs, "/file")
    assert isinstance(made, CreateArguments)
    assert made.arguments[5 : 7 + len(options)] == ("--network", "container:held", *options)
