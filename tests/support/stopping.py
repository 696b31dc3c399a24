"""`modelplane`, which after SIGUSR1 stops itself as SIGSTOP would, just before it looks whether it may write.

A signal from outside cannot be timed so: where it meets the process between that look and the kernel,
what was about to be sent is sent when the process goes on.
"""

import os
import signal

from modelplane.cli.main import main
from modelplane.controllers.leader import Election

_look = Election.fence
_told: list[int] = []


def _fence(self: Election) -> str:
    if _told:
        _told.clear()
        os.kill(os.getpid(), signal.SIGSTOP)
    return _look(self)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda number, _frame: _told.append(number))
    Election.fence = _fence  # type: ignore[method-assign]  # the one place that every write passes
    main()
