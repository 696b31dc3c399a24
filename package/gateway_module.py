# ruff: noqa: INP001  a script, not a package
"""Build the library that the gateway's Envoy loads, unless there is one, and print where it is."""

import sys

from modelplane.host.errors import LocalError
from modelplane.local import gateway_module
from modelplane.local.build import Progress


def main() -> int:
    """Build it and return the exit status."""
    try:
        library = gateway_module.find_or_build(_say)
    except LocalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{library}\n")
    return 0


def _say(progress: Progress) -> None:
    sys.stderr.write(f"{progress.phase} (about a minute)\n")


if __name__ == "__main__":
    sys.exit(main())
