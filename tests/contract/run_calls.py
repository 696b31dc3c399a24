"""Make calls of the command line in one process, in the folder that holds their input files.

It runs with the code of the checkout that is recorded, which may be of another commit. So it imports the
program's entry point and nothing else of Modelplane.
"""

import json
import sys
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

import modelplane
from modelplane.cli.main import main


def _called(call: dict[str, Any]) -> dict[str, Any]:
    runner = CliRunner()
    result = runner.invoke(main, call["arguments"], input=call["input"], prog_name="modelplane")
    said = result.stderr
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        said += f"{type(result.exception).__name__}: {result.exception}\n"
    return {**call, "exit": result.exit_code, "stdout": result.stdout, "stderr": said}


def _commands(command: click.Command, path: tuple[str, ...]) -> dict[str, Any]:
    """Return each command's help and parameters, hidden ones too, by its name."""
    context = click.Context(command, info_name=" ".join(("modelplane", *path)))
    parameters = [
        {
            "names": sorted((*parameter.opts, *parameter.secondary_opts)),
            "kind": parameter.param_type_name,
            "required": parameter.required,
            "repeated": parameter.multiple or parameter.nargs == -1,
            "hidden": getattr(parameter, "hidden", False),
            "default": str(parameter.default),
            "variable": parameter.envvar,
        }
        for parameter in command.get_params(context)
    ]
    found = {" ".join(path): {"help": command.get_help(context), "parameters": parameters}}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                found |= _commands(below, (*path, name))
    return found


def run(source: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Make the calls, and describe the commands."""
    imported = Path(modelplane.__file__)
    if not imported.is_relative_to(source):
        raise SystemExit(f"this would record the code of {imported.parent}, not of {source}")
    return {"calls": [_called(call) for call in calls], "commands": _commands(main, ())}


if __name__ == "__main__":
    json.dump(run(sys.argv[1], json.load(sys.stdin)), sys.stdout)
