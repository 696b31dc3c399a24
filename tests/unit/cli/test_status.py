import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.gateway.envoy.envoy_names import WITH_MODULE
from modelplane.host.errors import LocalError
from modelplane.local import home as homes, settings
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.lifecycle import ProcessStatus
from modelplane.proxy import admin
from modelplane.proxy.module import BOOTSTRAP


@pytest.fixture
def home(tmp_path, monkeypatch):
    # Whatever else runs on this machine.
    monkeypatch.setattr(settings, "find_stranger", lambda _settings, _running: "")
    ports = {"api_server": 6444, "agent": 3}
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
        f"Home: {home}, logs: {home}/logs, memory without engines: 0 MB",
        "Kubernetes at https://127.0.0.1:6444, models at http://127.0.0.1:8082/NAMESPACE/SERVICE/v1",
        "the fleet is stopped: run `modelplane up` to start it",
    ]


def test_a_gateway_with_its_module_has_one_url_for_all_models(home):
    source = {"path_config_source": {"path": f"./{WITH_MODULE}"}}
    (home / "envoy").mkdir()
    (home / "envoy" / BOOTSTRAP).write_text(json.dumps({"dynamic_resources": {"lds_config": source}}))
    assert status(home).output.splitlines()[-2] == (
        "Kubernetes at https://127.0.0.1:6444, models at http://127.0.0.1:8082/NAMESPACE/SERVICE/v1, "
        "or http://127.0.0.1:8082/v1 with model NAMESPACE/SERVICE"
    )


def test_while_the_api_server_starts_its_objects_are_not_asked_for(monkeypatch, home):
    starting = ProcessStatus("control-plane", "Starting", 7, 0.0, 0, 0, "")
    monkeypatch.setattr(lifecycle, "list_statuses", lambda _home: (starting,))
    result = status(home)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == (
        "cannot read the fleet's objects: process control-plane is Starting"
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
    starting = ProcessStatus("control-plane", "Starting", 8, 0.0, 0, 0, "")
    monkeypatch.setattr(lifecycle, "list_statuses", lambda _home: (running, starting))
    monkeypatch.setattr(admin, "find_reload_problem", reload_problem)
    result = status(home, "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.output)["problems"][1:] == [said]


def test_the_document_has_the_addresses_and_what_is_wrong(home):
    document = json.loads(status(home, "-o", "json").output)
    assert document["problems"] == ["the fleet is stopped: run `modelplane up` to start it"]
    assert document["addresses"] == {
        "kubernetes": "https://127.0.0.1:6444",
        "models": "http://127.0.0.1:8082",
    }


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        pytest.param(
            (settings, "find_stranger", lambda _settings, _running: "port 1 is taken"),
            "port 1 is taken; the process starts once the port is free",
            id="a port that another program holds",
        ),
        pytest.param(
            (homes, "find_space_problem", lambda _home: "only 0 MiB are free"),
            "only 0 MiB are free; running processes continue, and stopped processes restart once there is "
            "space",
            id="a full disk",
        ),
    ],
)
def test_what_the_machine_lacks_is_told(monkeypatch, home, problem, said):
    starting = ProcessStatus("control-plane", "Starting", 7, 0.0, 0, 0, "")
    monkeypatch.setattr(lifecycle, "list_statuses", lambda _home: (starting,))
    monkeypatch.setattr(*problem)
    result = status(home)
    assert (result.exit_code, result.output.splitlines()[-1]) == (1, said)


def test_a_gateway_with_certificates_is_reached_by_https(home):
    certificate = home / "envoy" / "tls" / "front.json"
    certificate.parent.mkdir(parents=True)
    certificate.touch()
    document = json.loads(status(home, "-o", "json").output)
    assert document["addresses"]["models"] == "https://127.0.0.1:8082"


def test_what_counting_does_not_need_is_not_imported(home):
    unneeded = (
        "rich",
        "modelplane.gateway.route_table",
        "modelplane.controllers",
        "modelplane.api.inference_cluster",
    )
    script = (
        "import sys, json\nfrom modelplane.cli.main import main\n"
        "from modelplane.local.supervision import lifecycle\n"
        "from modelplane.local.supervision.lifecycle import ProcessStatus\n"
        "names = ('control-plane', 'envoy')\n"
        "running = tuple(ProcessStatus(name, 'Running', 7, 0.0, 0, 0, '') for name in names)\n"
        "lifecycle.list_statuses = lambda _home: running\n"
        "try:\n"
        f"    main(['status', '--home', {str(home)!r}], standalone_mode=False)\n"
        "except Exception:\n    pass\n"
        f"print(json.dumps([name for name in {unneeded} if name in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "the API server answered: cannot use the kubeconfig" in output.stdout
    assert json.loads(output.stdout.splitlines()[-1]) == []
