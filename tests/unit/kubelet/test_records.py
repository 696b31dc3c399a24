from pathlib import Path

import pytest

from modelplane.host import file_system
from modelplane.kubelet.records import AgentDirectory, Exit, PodRecord
from modelplane.kubelet.runtime.shim import write_record


def test_a_pod_is_remembered_and_forgotten(tmp_path: Path) -> None:
    agent = AgentDirectory(tmp_path)
    record = PodRecord("ml-team", "qwen", "uid-1", "127.77.0.1")
    agent.get_pod("uid-1").write(record)
    assert [pod.record for pod in agent.list_pods()] == [record]
    agent.get_pod("uid-1").remove()
    assert agent.list_pods() == ()
    assert agent.get_pod("uid-1").record is None


def test_an_attempt_that_was_never_released_is_made_again_under_its_number(tmp_path: Path) -> None:
    container = AgentDirectory(tmp_path).get_pod("uid").get_container("engine")
    first = container.make_attempt()
    assert (first.number, container.find_latest()) == (0, None)
    assert container.make_attempt().number == 0
    write_record(first.directory / "shim.json", {"pid": 1, "identity": "x"})
    assert container.find_latest() == first
    assert container.make_attempt().number == 1


def test_attempts_are_ordered_by_number_not_by_text(tmp_path: Path) -> None:
    container = AgentDirectory(tmp_path).get_pod("uid").get_container("engine")
    for number in (9, 10):
        directory = container.get_attempt(number).directory
        directory.mkdir(parents=True)
        write_record(directory / "shim.json", {"pid": 1, "identity": "x"})
    assert [attempt.number for attempt in container.list_attempts()] == [9, 10]
    assert container.find_latest() == container.get_attempt(10)


def test_what_a_power_failure_left_empty_counts_as_never_written(tmp_path: Path) -> None:
    pod = AgentDirectory(tmp_path).get_pod("uid")
    pod.write(PodRecord("ml-team", "qwen", "uid", "127.77.0.1"))
    attempt = pod.get_container("engine").make_attempt()
    for path in (pod.path / "pod.json", *(attempt.directory / name for name in ("shim.json", "exit.json"))):
        path.write_bytes(b"")
    assert (pod.record, attempt.shim, attempt.exit, attempt.image) == (None, None, None, "")


def test_an_end_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    attempt = AgentDirectory(tmp_path).get_pod("uid").get_container("engine").make_attempt()
    assert attempt.exit is None
    ended = Exit(137, 9, "2026-01-01T00:00:00.000000000Z", supervised=False)
    attempt.record_exit(ended)
    assert attempt.exit == ended


def test_what_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path / "weights.bin"))

    monkeypatch.setattr(file_system, "remove_folder", refused)
    pod = AgentDirectory(tmp_path).get_pod("uid")
    pod.remove()
    [said] = caplog.messages
    assert said.startswith(f'"{pod.path}" stays, because "{pod.path}/weights.bin" cannot be removed')
