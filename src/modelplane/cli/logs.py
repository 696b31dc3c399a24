"""The log of a command that runs for ever."""

import logging

_CHATTY = ("httpx2", "httpcore2")
"""They log every request."""


def log_to_stderr(*, debug: bool = False) -> None:
    """Log to standard error, one line each, with its time."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
