"""Current state of each process of a home: its record, corrected by its lock."""

from dataclasses import dataclass
from pathlib import Path

from modelplane.local import settings
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle, locks, process_records, processes
from modelplane.local.supervision.process_records import State
from modelplane.local.supervision.processes import LEADER

_ALIVE = frozenset({State.STARTING, State.RUNNING, State.STOPPING})


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process; ``pid`` 0 means none, ``since`` is in seconds of the epoch, 0 where unknown."""

    name: str
    state: str
    pid: int
    since: float
    restarts: int
    memory_bytes: int
    """Its proportional set size (PSS, proc(5)); 0 if it cannot be read."""
    last_exit: str


def list_statuses(home: Home) -> tuple[ProcessStatus, ...]:
    """Return every process of a home, the supervisor first."""
    table = processes.build_table(home, settings.load(home), Path())
    watched = lifecycle.is_supervised(home)
    return tuple(_status(home, name, watched) for name in (LEADER, *(process.name for process in table)))


def _status(home: Home, name: str, watched: bool) -> ProcessStatus:
    pid = locks.find_holder(home.lock(name)) or 0
    record = process_records.read(home.record(name))
    if record is None:
        return ProcessStatus(
            name, State.STARTING if pid else State.STOPPED, pid, 0.0, 0, measure_memory(pid), ""
        )
    state = record.state
    if pid and (pid != record.pid or state not in _ALIVE):
        state = State.STARTING  # the supervisor has not seen it yet
    elif not pid and (state in _ALIVE or not watched):
        state = State.STOPPED  # not seen by the supervisor yet, or there is no supervisor
    return ProcessStatus(
        name, state, pid, record.since, record.restarts, measure_memory(pid), record.last_exit
    )


def measure_memory(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 where it cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
