import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.cli.options import parse_seconds
from modelplane.cli.target import Target


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "logs").mkdir()
    (tmp_path / "settings.json").write_text(json.dumps({"ports": {}}))
    (tmp_path / "logs" / "controller.log").write_text("one\ntwo\nthree\n")
    return tmp_path


def logs(home, *arguments):
    return CliRunner().invoke(main, ["logs", "--home", str(home), *arguments])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1m1h", 3660),
        ("1.5h", 5400),
        (".5m", 30),
        ("100ms", 1),
        ("1d", 86400),
        ("36500d", 3153600000),
    ],
)
def test_a_duration_is_written_as_for_kubectl(text, seconds):
    assert parse_seconds(text, "") == seconds


@pytest.mark.parametrize("text", ["", "m", ".s", "1m 1s", "-1m"])
def test_what_is_no_duration_is_wrong_usage(home, text):
    result = logs(home, "controller", "--since", text)
    said = "is not a duration: use a value such as 30s, 10m, 1h30m, 1.5h, or 7d"
    assert (result.exit_code, said in result.output) == (2, True)


@pytest.mark.parametrize("text", ["36501d", "999999d", "99999999999d", "9" * 400 + "h"])
def test_a_duration_beyond_every_log_is_wrong_usage(home, text):
    result = logs(home, "controller", "--since", text)
    assert (result.exit_code, "is longer than 36500d: omit --since" in result.output) == (2, True)


def test_the_log_of_a_process_is_shown_or_its_end(home):
    assert logs(home, "controller").output == "one\ntwo\nthree\n"
    assert logs(home, "controller", "--tail", "1").output == "three\n"


def test_an_earlier_log_is_shown_where_there_is_one(home):
    log = home / "logs" / "controller.log"
    said = f"Error: controller has no previous log: the complete log is {log}\n"
    result = logs(home, "controller", "--previous")
    assert (result.exit_code, result.output) == (1, said)
    result = logs(home, "etcd", "--previous")
    assert (result.exit_code, result.output) == (
        1,
        "Error: etcd has no log because the process was never started\n",
    )
    log.with_name("controller.log.1").write_text("zero\n")
    assert logs(home, "controller", "--previous").output == "zero\n"


def test_an_unknown_process_is_told_with_those_that_there_are(home):
    result = logs(home, "gemma")
    assert result.exit_code == 1
    assert result.output.startswith('Error: no process "gemma": the processes are supervisor, etcd, ')
    assert result.output.endswith(". Name an object as md/NAME.\n")


@pytest.mark.parametrize("name", ["pod/gemma", "md/"])
def test_another_kind_is_wrong_usage(home, name):
    result = logs(home, name)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == (
        "Error: Invalid value for '[PROCESS | md/NAME | ms/NAME | mr/NAME | mc/NAME]': "
        f'"{name}" is not one of PROCESS, md/NAME, ms/NAME, mr/NAME, mc/NAME'
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["controller", "--follow", "--previous"],
            "--follow and --previous can't be combined: a previous log doesn't grow",
            id="a previous log that is followed",
        ),
        pytest.param(
            ["-f", "--tail", "0", "--since", "1m"],
            "to use --follow, --tail, --since, name one of PROCESS, md/NAME, ms/NAME, mr/NAME, mc/NAME",
            id="part of no log",
        ),
        pytest.param(
            ["-n", "ml-team", "--previous"],
            "to use --namespace, --previous, name one of PROCESS, md/NAME, ms/NAME, mr/NAME, mc/NAME",
            id="a namespace of no object",
        ),
        pytest.param(
            ["controller", "-n", "ml-team"],
            '--namespace applies only to objects, and "controller" is a process: omit --namespace',
            id="a namespace of a process",
        ),
    ],
)
def test_options_that_would_have_no_effect_are_refused(home, arguments, said):
    result = logs(home, *arguments)
    assert (result.exit_code, result.output.splitlines()[-1]) == (2, f"Error: {said}")


def test_help_lists_the_kinds_that_have_logs(home):
    usage = logs(home, "--help").output.splitlines()[0]
    assert usage.endswith(" [PROCESS | md/NAME | ms/NAME | mr/NAME | mc/NAME]")


def test_without_a_fleet_there_is_one_error(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    result = logs(tmp_path)
    assert (result.exit_code, result.output) == (
        1,
        f"Error: there is no fleet in {tmp_path}: run `modelplane up`\n",
    )


class Objects:
    """A client of a fleet that holds a number of ModelDeployments, and nothing else."""

    def __init__(self, count):
        self._count = count

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        pass

    async def list(self, resource):
        count = self._count if resource.kind == "ModelDeployment" else 0
        names = [{"name": f"m{number}", "namespace": "ml"} for number in range(count)]
        return SimpleNamespace(items=[{"metadata": name} for name in names])


@pytest.mark.parametrize(
    ("count", "listed"),
    [
        pytest.param(0, ["Objects: none"], id="none"),
        pytest.param(20, ["Objects:", *(f"  md/m{number} -n ml" for number in range(20))], id="all"),
        pytest.param(
            22,
            [
                "Objects:",
                *(f"  md/m{number} -n ml" for number in range(20)),
                "  and 2 more: run `modelplane kubectl get md,ms,mr,mc -A`",
            ],
            id="more than fit",
        ),
    ],
)
def test_processes_and_the_first_objects_are_listed(home, monkeypatch, count, listed):
    monkeypatch.setattr(Target, "open_client", lambda _live, _manager: Objects(count))
    first, second, *rest = logs(home).output.splitlines()
    assert first == f"Processes of the fleet in {home}:"
    assert second.startswith("  supervisor, etcd, ")
    assert rest == listed


def test_the_processes_of_a_fleet_that_does_not_run_are_listed(home):
    result = logs(home)
    first, _, *rest = result.output.splitlines()
    assert (result.exit_code, first) == (0, f"Processes of the fleet in {home}:")
    assert rest == [f"Objects: cannot be listed: there is no fleet in {home}: run `modelplane up`"]


def test_the_objects_of_a_fleet_that_does_not_run_cannot_be_asked_for(home):
    result = logs(home, "md/gemma")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: there is no fleet in {home}: run `modelplane up`\n",
    )
