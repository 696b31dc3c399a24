"""A program for vLLM's own Python: what its parser says of command lines.

In: a file with a JSON list of lists, the arguments after ``vllm serve``. Out: a file with a JSON object of a
list of errors, empty for what is accepted, and of the names of all flags. Both are files because vLLM logs to
the standard streams.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def refusal(arguments: list[str]) -> str:
    """Return the error of vLLM's parser; empty if it accepts the arguments."""
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            validate_parsed_serve_args(parser.parse_args(arguments))
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def names() -> list[str]:
    """Return every way to write a flag."""
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    return sorted(parser._option_string_actions)


if __name__ == "__main__":
    lines = json.loads(Path(sys.argv[1]).read_text())
    said = {"refusals": [refusal(each) for each in lines], "names": names()}
    Path(sys.argv[2]).write_text(json.dumps(said))
