import json

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.local import envoy, process_status
from modelplane.local.errors import LocalError
from modelplane.local.process_status import ProcessStatus


@pytest.fixture
def home(tmp_path):
    ports = {"api_server": 6444, "controller_manager": 1, "scheduler": 2, "agent": 3}
    ports |= {"gateway": 8082, "workload_gateway": 8083}
    (tmp_path / "settings.json").write_text(json.dumps({"ports": ports}))
    (tmp_path / "kubeconfig").touch()
    return tmp_path


def status(home, *options):
    return CliRunner().invoke(main, ["status", "--home", str(home), *options])


def test_a_stopped_fleet_shows_its_addresses_and_how_to_start_it(home):
    result = status(home)
    assert result.exit_code == 1
    assert result.output.splitlines()[-3:] == [
        f"home {home}, logs {home}/logs, memory 0 MB without the engines",
        "Kubernetes at https://127.0.0.1:6444, models at http://127.0.0.1:8082/NAMESPACE/SERVICE/v1",
        "nothing runs: `modelplane up` starts it",
    ]


def test_while_the_api_server_starts_its_objects_are_not_asked_for(monkeypatch, home):
    starting = ProcessStatus("kube-apiserver", "Starting", 7, 0.0, 0, 0, "")
    monkeypatch.setattr(process_status, "of", lambda _home: (starting,))
    result = status(home)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == (
        "the fleet's objects cannot be read: kube-apiserver is Starting"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param("envoy refused lds.json", "envoy refused lds.json", id="it refused a file"),
        pytest.param(LocalError("cannot ask envoy"), "cannot ask envoy", id="it does not answer"),
    ],
)
def test_what_envoy_refused_is_a_problem(monkeypatch, home, answer, said):
    def reload_problem(directory):
        assert directory == home / "envoy"
        if isinstance(answer, LocalError):
            raise answer
        return answer

    running = ProcessStatus("envoy", "Running", 7, 0.0, 0, 0, "")
    starting = ProcessStatus("kube-apiserver", "Starting", 8, 0.0, 0, 0, "")
    monkeypatch.setattr(process_status, "of", lambda _home: (running, starting))
    monkeypatch.setattr(envoy, "reload_problem", reload_problem)
    result = status(home, "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.output)["problems"][1:] == [said]


def test_the_document_has_the_addresses_and_what_is_wrong(home):
    document = json.loads(status(home, "-o", "json").output)
    assert document["problems"] == ["nothing runs: `modelplane up` starts it"]
    assert document["addresses"] == {
        "kubernetes": "https://127.0.0.1:6444",
        "models": "http://127.0.0.1:8082",
    }
