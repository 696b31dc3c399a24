"""Turns of Python's threads in a controller.

A placement computes in a thread of its own. Whenever the event loop sends or receives, it gives up the
interpreter, and gets it back after a turn of that thread. With Python's default of 5 ms, a loop with
thousands of connections then does two hundred steps in a second, and the lease is not renewed in time.
"""

import sys

_TURN_S = 0.0005


def take_short_turns() -> None:
    """Let a thread that computes give way to the event loop after half a millisecond."""
    sys.setswitchinterval(_TURN_S)
