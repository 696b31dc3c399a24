"""A program for SGLang's own Python: what its parser says of command lines.

In: a file with a JSON list of lists, the arguments after ``python -m sglang.launch_server``. Out: a file with
a JSON object of a list of errors, empty for what is accepted, and of the names of all flags.
"""

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path

from sglang.srt.server_args import ServerArgs


def parser() -> argparse.ArgumentParser:
    """Return SGLang's parser."""
    made = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(made)
    return made


def refusal(arguments: list[str]) -> str:
    """Return the error of SGLang's parser; empty if it accepts the arguments."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser().parse_args(arguments)
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    return ""


if __name__ == "__main__":
    lines = json.loads(Path(sys.argv[1]).read_text())
    said = {"refusals": [refusal(each) for each in lines], "names": sorted(parser()._option_string_actions)}
    Path(sys.argv[2]).write_text(json.dumps(said))
