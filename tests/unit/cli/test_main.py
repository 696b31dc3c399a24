import errno
import importlib
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points

import click
import pytest
from click.testing import CliRunner

from modelplane.cli.main import COMMANDS, GROUPS, main
from modelplane.cli.options import FORMER
from modelplane.host.errors import LocalError


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def _shown(command, context, path=""):
    if path and path != "kubectl":  # whose help is that of kubectl
        yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if path or not COMMANDS[name].hidden:
                yield from _shown(command.get_command(context, name), context, f"{path} {name}".strip())


SHOWN_COMMANDS = dict(_shown(main, click.Context(main)))


def test_help_lists_every_command_that_is_not_hidden_and_imports_none():
    script = (
        "import sys\nfrom modelplane.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith('modelplane.cli.')])\n"
        "print([name for name in ('asyncio', 'rich', 'lightkube', 'cryptography') if name in sys.modules])"
    )
    *text, ours, heavy = subprocess.check_output([sys.executable, "-c", script], text=True).splitlines()
    shown = {name for name, entry in COMMANDS.items() if not entry.hidden}
    hidden = set(COMMANDS) - shown
    first_words = {line.split()[0] for line in text if line.startswith("  ")}
    assert shown <= first_words
    assert not hidden & first_words
    assert ours == "['modelplane.cli.exit_statuses', 'modelplane.cli.main']"
    assert heavy == "[]"


def test_help_groups_commands_by_purpose():
    text = run("--help").output
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options", *GROUPS]
    assert text.index("Check manifests:") < text.index("  validate ") < text.index("Platform:")
    assert not [line for line in text.splitlines() if line.startswith("   ")], "a command has one line"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (["valdiate"], "No such command 'valdiate'. Did you mean 'validate'?"),
        (["cluster", "unncordon"], "Did you mean one of: 'cordon', 'uncordon'?"),
        (["plan", "--fleat", "x"], "Did you mean one of: '--fleet', '--live'?"),
    ],
    ids=["a command", "a command of a group", "an option"],
)
def test_a_mistyped_name_gets_a_suggestion(line, error):
    printed = run(*line)
    assert (printed.exit_code, error in printed.output) == (2, True), printed.output


@pytest.mark.parametrize("path", SHOWN_COMMANDS)
def test_the_help_of_each_command_begins_with_an_imperative(path):
    first = SHOWN_COMMANDS[path].help.split()[0].rstrip(",")
    assert re.fullmatch("[A-Z][a-z]+", first)
    assert not re.search("(?<!s)s$|ing$", first), first


@pytest.mark.parametrize("path", SHOWN_COMMANDS)
def test_an_option_names_its_default_and_its_variable_in_one_way(path):
    options = [option for option in SHOWN_COMMANDS[path].params if isinstance(option, click.Option)]
    wrong = {
        option.opts[0]: option.help
        for option in options
        if not re.search(r"(\.| \[env: [A-Z_]+\])$", option.help or "")
        or re.search(r"[Dd]efaults (to|is)|\(default|Default [a-z]", option.help or "")
        or option.show_default
        or option.show_envvar
    }
    assert wrong == {}


def test_kubectl_runs_the_same_commands_by_its_own_name_for_them():
    script = "import sys\nfrom modelplane.cli.main import plugin\nplugin()"
    asked = [sys.executable, "-c", script, "validate", "--help"]
    assert subprocess.check_output(asked, text=True).startswith(
        "Usage: kubectl modelplane validate [OPTIONS] PATH..."
    )
    [program] = [each for each in entry_points(group="console_scripts") if each.name == "kubectl-modelplane"]
    assert program.value == "modelplane.cli.main:plugin"


def test_an_unknown_command_is_wrong_usage():
    result = run("fly")
    assert (result.exit_code, "No such command 'fly'" in result.output) == (2, True)


def test_what_is_wrong_with_the_machine_is_one_sentence_and_status_1(monkeypatch, tmp_path):
    monkeypatch.setenv("MODELPLANE_KUBERNETES_BINARY", str(tmp_path / "absent"))
    result = run("kubectl", "get", "pods")
    assert result.exit_code == 1
    assert result.output == (
        f"Error: MODELPLANE_KUBERNETES_BINARY names {tmp_path}/absent, which is not a program\n"
    )


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        pytest.param(errno.ENOSPC, "free space on that disk, and run the command again", id="a full disk"),
        pytest.param(errno.EDQUOT, "free space on that disk, and run the command again", id="a quota"),
        pytest.param(
            errno.EADDRINUSE,
            "stop the program that listens there, or choose another address",
            id="a taken address",
        ),
    ],
)
def test_what_any_command_may_meet_is_one_sentence(monkeypatch, number, remedy):
    def fail(_home):
        raise OSError(number, os.strerror(number), "/fleet/file")

    command = importlib.import_module("modelplane.cli.machine.kubeconfig")
    monkeypatch.setattr(command, "choose_home", fail)
    result = run("kubeconfig")
    said = f"Error: /fleet/file: {os.strerror(number)}: {remedy}\n"
    assert (result.exit_code, result.output) == (1, said)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("status",), id="status"),
        pytest.param(("kubeconfig",), id="kubeconfig"),
        pytest.param(("kubectl", "get", "pods"), id="kubectl"),
    ],
)
def test_a_command_about_a_fleet_that_was_never_started_says_how_to_start_it(monkeypatch, tmp_path, command):
    monkeypatch.setenv("MODELPLANE_HOME", str(tmp_path))
    result = run(*command)
    assert (result.exit_code, result.output) == (
        1,
        f"Error: there is no fleet in {tmp_path}: run `modelplane up`\n",
    )


def test_stopping_what_was_never_started_is_a_success(tmp_path):
    result = run("down", "--home", str(tmp_path))
    assert (result.exit_code, result.output) == (0, f"No processes are running in {tmp_path}\n")


def test_what_was_never_started_has_nothing_to_forget(tmp_path):
    home = tmp_path / "home"
    result = run("down", "--purge", "--home", str(home))
    assert (result.exit_code, result.output) == (0, f"No processes are running in {home}\n")


def test_kubectl_on_a_fleet_that_does_not_run_says_how_to_start_it(monkeypatch, tmp_path):
    monkeypatch.setenv("MODELPLANE_HOME", str(tmp_path))
    (tmp_path / "kubeconfig").touch()
    result = run("kubectl", "get", "pods")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: the fleet in {tmp_path} is not running: run `modelplane up`\n",
    )


def test_an_empty_home_is_not_the_working_directory():
    result = run("up", "--home", "")
    assert (result.exit_code, "Invalid value for '--home': it is empty" in result.output) == (2, True)


def test_a_kubeconfig_that_is_none_is_named(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text("nonsense")
    result = run("controller", "--kubeconfig", str(file))
    assert (result.exit_code, result.output.startswith("Error: cannot use the kubeconfig: ")) == (1, True)
    assert f'"{file}"' in result.output


def test_ctrl_c_is_status_130_without_a_word(monkeypatch):
    @click.command()
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(type(main), "get_command", lambda *_: interrupted)
    result = run("up")
    assert (result.exit_code, result.output) == (130, "")


def test_a_package_of_the_extra_that_is_missing_is_named_with_the_remedy(monkeypatch):
    def missing(_name):
        raise ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp")

    monkeypatch.setattr("importlib.import_module", missing)
    result = run("up")
    assert (result.exit_code, result.output) == (
        1,
        (
            "Error: aiohttp is not installed: run `pip install '.[local]'` in a checkout, or `pip install "
            "'WHEEL[local]'` with the path of your wheel\n"
        ),
    )


def test_an_error_of_the_lower_layers_is_shown_without_a_traceback(monkeypatch):
    @click.command()
    def fails():
        raise LocalError("the disk is full")

    monkeypatch.setattr(type(main), "get_command", lambda *_: fails)
    result = run("up")
    assert (result.exit_code, result.output) == (1, "Error: the disk is full\n")


@pytest.mark.parametrize(("named", "current"), FORMER.items(), ids=[" ".join(former) for former in FORMER])
def test_an_option_of_an_earlier_release_names_the_current_one(named, current):
    command, former = named
    result = run(*command.split(), former)
    assert (result.exit_code, f"Error: {former} is now {current}\n" in result.output) == (2, True)


def test_the_plugin_of_kubectl_names_the_current_option_too():
    script = "import sys\nfrom modelplane.cli.main import plugin\nplugin()"
    asked = subprocess.run(
        [sys.executable, "-c", script, "usage", "--json"], capture_output=True, text=True, check=False
    )
    assert (asked.returncode, "Error: --json is now -o json" in asked.stderr) == (2, True)


def test_an_option_that_never_was_is_only_refused():
    assert "No such option" in run("usage", "--no-such").output


def _target_options(command):
    for option in command.params:
        if option.name in {"kubeconfig", "context", "home", "timeout_s"}:
            yield option.opts, option.default, option.help


def _commands(command, context):
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), context)
    else:
        yield command


def test_a_control_plane_is_chosen_alike_by_every_command():
    options = [[*_target_options(command)] for command in _commands(main, click.Context(main))]
    groups = [option for option in options if len(option) == 4]
    assert len(groups) > 25
    assert all(group == groups[0] for group in groups)
    assert [names for names, _, _ in groups[0]] == [
        ["--kubeconfig"],
        ["--context"],
        ["--home"],
        ["--timeout"],
    ]


@pytest.mark.parametrize("option", ["--namespace", "--dry-run", "--yes", "--all", "--all-namespaces"])
def test_an_option_means_the_same_on_every_command(option):
    """Processes of an installation have namespaces of their own; ``register`` tries by default."""
    meanings = {
        (each.default, each.help)
        for command in _commands(main, click.Context(main))
        if command.name not in {"controller", "gateway", "metrics", "register"}
        for each in command.params
        if option in each.opts
    }
    assert len(meanings) == 1


@pytest.mark.parametrize("path", SHOWN_COMMANDS)
def test_the_help_of_each_command_ends_with_an_example_that_its_options_allow(path):
    shown, _, example = run(*path.split(), "--help").output.partition("\n  Example:\n    ")
    assert re.search(rf"modelplane {path}\b", example)
    if isinstance(SHOWN_COMMANDS[path], click.Group):
        return  # the options are those of a command in it
    options = set(re.findall(r"(?<=\s)--?[a-zA-Z][a-z-]*", example.partition(" | ")[0]))
    assert options <= set(re.findall(r"--?[a-zA-Z][a-z-]*", shown))
