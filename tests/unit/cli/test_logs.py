import json

import pytest
from click.testing import CliRunner

from modelplane.cli.logs import _seconds
from modelplane.cli.main import main


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
    [("30s", 30), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("1d", 86400)],
)
def test_a_duration_is_written_as_for_kubectl(text, seconds):
    assert _seconds(None, None, text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "1m1h", "-1m"])
def test_what_is_no_duration_is_wrong_usage(home, text):
    result = logs(home, "controller", "--since", text)
    assert (result.exit_code, "is not a duration: write it like 30s, 10m, 2h or 1h30m" in result.output) == (
        2,
        True,
    )


def test_the_log_of_a_process_is_shown_or_its_end(home):
    assert logs(home, "controller").output == "one\ntwo\nthree\n"
    assert logs(home, "controller", "--tail", "1").output == "three\n"


def test_an_earlier_log_is_shown_where_there_is_one(home):
    log = home / "logs" / "controller.log"
    said = f"Error: controller has no earlier log: all that it has logged is in {log}\n"
    result = logs(home, "controller", "--previous")
    assert (result.exit_code, result.output) == (1, said)
    log.with_name("controller.log.1").write_text("zero\n")
    assert logs(home, "controller", "--previous").output == "zero\n"


def test_an_unknown_process_is_told_with_those_that_there_are(home):
    result = logs(home, "gemma")
    assert result.exit_code == 1
    assert result.output.startswith('Error: there is no process "gemma"; there are: supervisor, etcd, ')
    assert result.output.endswith("; an object is named like md/NAME\n")


@pytest.mark.parametrize("name", ["pod/gemma", "md/"])
def test_another_kind_is_wrong_usage(home, name):
    result = logs(home, name)
    said = f'"{name}" names none of md/NAME, ms/NAME, mr/NAME, mc/NAME, nor a process'
    assert (result.exit_code, said in result.output) == (2, True)


def test_nothing_comes_to_an_earlier_log(home):
    assert logs(home, "controller", "--follow", "--previous").exit_code == 2


def test_the_objects_of_a_fleet_that_does_not_run_cannot_be_asked_for(home):
    result = logs(home, "md/gemma")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: there is no fleet in {home}: run `modelplane up`\n",
    )
