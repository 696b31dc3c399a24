"""``modelplane usage``: sums of the records of this machine, or of the gateway's pods."""

import datetime as dt
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modelplane.cli.main import main
from modelplane.cli.target import Target
from modelplane.install import api_server_choice
from modelplane.kube.errors import Forbidden, NotFound
from modelplane.kube.http_messages import ObjectList
from modelplane.local.home import Home
from modelplane.proxy.envoy_directory import USAGE_LOG

NOW = dt.datetime.now(dt.UTC)
HOUR = dt.timedelta(hours=1)
TIMES = ("TTFT P50", "TTFT P95", "DURATION P50", "DURATION P95")


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user with neither a fleet nor a kubeconfig."""
    for variable in ("KUBECONFIG", "MODELPLANE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    fleet = Home(tmp_path / "fleet")
    (fleet.envoy / USAGE_LOG).parent.mkdir(parents=True)
    fleet.settings.write_text("{}")
    return fleet


def record(ago: dt.timedelta = dt.timedelta(), **fields: Any) -> bytes:
    known = {"time": (NOW - ago).isoformat(), "status": 200, "service": "ml/qwen", "key": "ml/ci"}
    return json.dumps(known | fields).encode() + b"\n"


def answered(ago: dt.timedelta = dt.timedelta(), **fields: Any) -> bytes:
    counts = {"promptTokens": 1200, "completionTokens": 30, "totalTokens": 1230}
    return record(ago, **counts, firstTokenMs=20, durationMs=404, **fields)


def written(home: Home, *lines: bytes) -> None:
    (home.envoy / USAGE_LOG).write_bytes(b"".join(lines))


def usage(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["usage", *arguments])


def test_records_of_this_machine_are_summed(home: Home) -> None:
    written(
        home,
        answered(),
        answered(estimated=True),
        record(status=429, error="rate_limit_exceeded"),
        record(status=404, service="not-found"),
        b'{"time":"2026',
    )
    (home.envoy / "usage" / "usage.00000001.jsonl").write_bytes(answered(service="ml/embed"))
    result = usage("--home", str(home.root))
    assert result.exit_code == 0
    assert [re.split(r"\s{2,}", line) for line in result.stdout.splitlines()] == [
        ["SERVICE", "REQUESTS", "ERRORS", "INPUT TOKENS", "OUTPUT TOKENS", "ESTIMATED", *TIMES],
        ["ml/qwen", "3", "1", "2,400", "60", "1,230", "20 ms", "20 ms", "404 ms", "404 ms"],
        ["ml/embed", "1", "0", "1,200", "30", "0", "20 ms", "20 ms", "404 ms", "404 ms"],
        ["not-found", "1", "1", "0", "0", "0"],
    ]
    assert result.stderr == "Skipped 1 damaged line\n"


def test_a_program_gets_every_sum(home: Home) -> None:
    written(home, answered(HOUR), answered(), b"\n")
    result = usage("--home", str(home.root), "--by", "key", "--since", "30m", "-o", "json")
    found = json.loads(result.stdout)
    assert dt.datetime.fromisoformat(found.pop("since")) > NOW - HOUR
    assert found == {
        "by": "key",
        "currency": None,
        "groups": [
            {
                "key": "ml/ci",
                "requests": 1,
                "errors": 0,
                "promptTokens": 1200,
                "completionTokens": 30,
                "estimatedTokens": 0,
                "cost": None,
                "tokensWithoutPrice": None,
                "firstTokenMs": {"p50": 20, "p95": 20},
                "durationMs": {"p50": 404, "p95": 404},
            }
        ],
        "others": None,
        "damagedLines": 1,
        "problems": [],
    }


def test_a_name_that_a_client_chose_does_not_change_the_terminal(home: Home) -> None:
    written(home, answered(model="\x1b[2J\u202enwo\n"), answered(model="gemma"), answered())
    result = usage("--home", str(home.root), "--by", "model")
    assert [line.split("  ")[0] for line in result.stdout.splitlines()] == [
        "MODEL",
        "-",
        r'"\u001b[2J\u202enwo\n"',
        "gemma",
    ]


def test_names_beyond_the_limit_are_summed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelplane.gateway.usage.usage_sums.MOST_GROUPS", 1)
    written(home, answered(model="a"), answered(model="b"), answered(model="c"))
    result = usage("--home", str(home.root), "--by", "model")
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [["a", "1"], ["(others)", "2"]]
    found = json.loads(usage("--home", str(home.root), "--by", "model", "-o", "json").stdout)
    assert found["others"]["promptTokens"] == 2400


def test_a_fleet_without_records_is_told(home: Home) -> None:
    result = usage("--home", str(home.root))
    assert (result.exit_code, f"no usage records in {home.envoy}: run" in result.output) == (
        1,
        True,
    )
    written(home)
    assert usage("--home", str(home.root)).output == "No requests\n"


@pytest.mark.parametrize("text", ["10", "99999999d"])
def test_what_is_no_duration_is_wrong_usage(home: Home, text: str) -> None:
    assert usage("--home", str(home.root), "--since", text).exit_code == 2


def live(**options: Any) -> Target:
    return Target(**options)


def test_the_kubeconfig_of_a_fleet_of_this_machine_means_its_files(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert live(home=home.root).find_local_home() == home
    assert live(kubeconfig=home.kubeconfig).find_local_home() == home
    assert live(kubeconfig=tmp_path / "kubeconfig").find_local_home() is None
    assert live(context="other").find_local_home() is None
    monkeypatch.setenv("KUBECONFIG", str(home.kubeconfig))
    assert live().find_local_home() == home
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other"))
    assert live().find_local_home() is None
    assert live(home=home.root).find_local_home() == home
    monkeypatch.delenv("KUBECONFIG")
    assert live().find_local_home() == Home(tmp_path / "user" / "modelplane")
    (tmp_path / "user" / ".kube").mkdir(parents=True)
    (tmp_path / "user" / ".kube" / "config").touch()
    assert live().find_local_home() is None
    monkeypatch.setenv("MODELPLANE_HOME", str(home.root))
    assert live().find_local_home() == home


class Server:
    """A control plane with pods of a gateway and their logs."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.logs: dict[tuple[str, bool], list[bytes]] = {}
        self.asked: list[dict[str, str]] = []
        self.pricing: dict[str, Any] | None = None
        self.forbidden = False

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def list(self, _resource: object, namespace: str, *, labels: str) -> ObjectList:
        assert namespace == "modelplane-system"
        assert labels == "app.kubernetes.io/component=gateway,app.kubernetes.io/name=modelplane"
        return ObjectList(tuple(self.pods), "1")

    async def get(self, _resource: object, name: str) -> dict[str, Any] | None:
        if self.forbidden:
            raise Forbidden(403, "Forbidden", "it is not yours")
        metadata = {"name": name}
        spec = {"backend": "Envoy", "pricing": self.pricing} if self.pricing else {"backend": "Envoy"}
        return {"kind": "InferenceGateway", "metadata": metadata, "spec": spec}

    async def read_lines(self, path: str, params: dict[str, str]) -> AsyncIterator[bytes]:
        self.asked.append(params)
        place = path.split("/")[-2], "previous" in params
        if place not in self.logs:
            raise NotFound(404, "NotFound", "it has no log")
        for line in self.logs[place]:
            yield b"2026-11-23T12:00:00.123456789Z " + line.rstrip(b"\n")

    def pod(self, name: str, restarts: int = 0) -> None:
        statuses = [{"name": "envoy", "restartCount": restarts, "state": {"running": {}}}]
        self.pods.append(
            {
                "metadata": {"name": name, "namespace": "modelplane-system", "uid": name},
                "spec": {"initContainers": [{"name": "envoy"}], "containers": [{"name": "gateway"}]},
                "status": {"initContainerStatuses": statuses},
            }
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    made = Server()
    monkeypatch.setattr(api_server_choice, "connect", lambda *_arguments: made)
    return made


def test_records_of_pods_are_those_of_their_logs_before_and_after_a_restart(server: Server) -> None:
    server.pod("a", restarts=2)
    server.pod("b")
    server.logs = {
        ("a", False): [answered(), b"[2026-11-23 12:00:00.000][1][warning][main] caught SIGTERM"],
        ("a", True): [answered(), answered(2 * HOUR)],
        ("b", False): [answered(), b'{"level":"info"}'],
    }
    result = usage("--since", "1h", "-o", "json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["groups"][0]["requests"], found["damagedLines"], found["problems"]) == (3, 0, [])
    assert {each["sinceSeconds"] for each in server.asked} == {"3600"}
    assert {each["container"] for each in server.asked} == {"envoy"}


def test_a_log_that_cannot_be_read_is_told_and_the_rest_is_summed(server: Server) -> None:
    server.pod("a")
    server.pod("b")
    server.logs = {("b", False): [answered()]}
    result = usage()
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("ml/qwen  1 ")
    assert "cannot read the log of " in result.stderr


@pytest.mark.usefixtures("server")
def test_a_control_plane_without_a_gateway_says_what_to_do() -> None:
    result = usage()
    assert result.exit_code == 1
    assert 'namespace "modelplane-system" contains no gateway pod' in result.stderr


def test_costs_are_those_of_the_platforms_prices(server: Server) -> None:
    price = {"name": "paid", "hosts": ["api.com"], "promptPerMillion": "0.15", "completionPerMillion": "0.6"}
    server.pricing = {"currency": "EUR", "prices": [price]}
    server.pod("a")
    server.logs = {("a", False): [answered(host="api.com"), answered(host="api.com"), answered()]}
    rows = [re.split(r"\s{2,}", line) for line in usage().stdout.splitlines()]
    assert [row[5:7] for row in rows] == [["ESTIMATED", "COST EUR"], ["0", "0.0004"]]
    found = json.loads(usage("-o", "json").stdout)
    (group,) = found["groups"]
    assert (found["currency"], group["cost"], group["tokensWithoutPrice"]) == ("EUR", "0.000396", 1230)


def test_without_permission_to_read_prices_the_rest_is_summed(server: Server) -> None:
    server.forbidden = True
    server.pod("a")
    server.logs = {("a", False): [answered()]}
    result = usage()
    assert (result.exit_code, result.stdout.splitlines()[1].split()[:2]) == (0, ["ml/qwen", "1"])
    assert "costs are unknown: cannot read the prices from the control plane" in result.stderr
