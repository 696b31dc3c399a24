import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from modelplane.cli.main import COMMANDS, main


def completed(*words):
    *before, incomplete = words
    found = ShellComplete(main, {}, "modelplane", "_MODELPLANE_COMPLETE").get_completions(before, incomplete)
    return [each.value for each in found]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(("val",), ["validate"], id="a command"),
        pytest.param(("ag",), [], id="a hidden command"),
        pytest.param(("cluster", "dr"), ["drain"], id="a command of a group"),
        pytest.param(("plan", "--f"), ["--fleet"], id="an option"),
        pytest.param(("plan", "-o", ""), ["text", "json", "yaml"], id="the values of an option"),
        pytest.param(("kubectl", "get", ""), [], id="what kubectl completes itself"),
        pytest.param(("fly", ""), [name for name, each in COMMANDS.items() if not each.hidden], id="a typo"),
    ],
)
def test_commands_and_options_are_completed(words, found):
    assert completed(*words) == found


def test_the_commands_are_completed_without_importing_any():
    script = "import sys\nfrom modelplane.cli.main import main\nmain(prog_name='modelplane')"
    environment = {
        **os.environ,
        "_MODELPLANE_COMPLETE": "bash_complete",
        "COMP_WORDS": "modelplane pla",
        "COMP_CWORD": "1",
    }
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert traced.stdout == "plain,plan\n"
    assert "modelplane.cli.main" in traced.stderr
    assert "modelplane.cli.inspect.plan" not in traced.stderr


def test_a_command_without_its_packages_completes_nothing(monkeypatch):
    def missing(_name):
        raise ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp")

    monkeypatch.setattr("modelplane.cli.main.importlib.import_module", missing)
    assert completed("up", "--p") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_the_program(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_MODELPLANE_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on the PATH")
def test_bash_completes_with_the_script():
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    program = Path(sys.executable).parent / "modelplane"
    typed = f"COMP_WORDS=(modelplane cluster un)\nCOMP_CWORD=2\n_modelplane_completion {program}"
    ask = f'{script}\n{typed}\necho "${{COMPREPLY[@]}}"'
    answer = subprocess.check_output(["bash", "-c", ask], text=True)
    assert answer == "uncordon\n"
