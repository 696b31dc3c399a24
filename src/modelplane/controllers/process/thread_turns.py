"""Turns of Python's threads in a controller.

A placement computes in a thread of its own. When the event loop sends or receives, it gives up the
interpreter, and may get it back only after a turn of that thread, 5 ms by default. With 200 busy connections
beside a thread that computes, a loop does twice as many round trips with shorter turns, and its longest
iteration takes half the time. The renewal of the lease waits for such iterations.
"""

import sys

_TURN_S = 0.0005


def take_short_turns() -> None:
    """Let a thread that computes give way to the event loop after half a millisecond."""
    sys.setswitchinterval(_TURN_S)
