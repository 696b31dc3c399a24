"""What we answer, in the form of the record."""

import json
from typing import Any, Final

from modelplane import cel
from modelplane.cel.selector import NOT_BOOLEAN
from modelplane.scheduler import Device, Version
from oracle.asking import DEVICES as FILE


def padded(line: list[Any]) -> list[Any]:
    """Return a line of the record with an estimate, even where the selector is refused."""
    return [line[0], None, line[1], *line[2:]] if line[1] == "refused" else line


def devices() -> dict[str, Device]:
    """Return the devices that selectors are asked about."""
    read = json.loads(FILE.read_text())
    return {
        name: Device(
            name=name,
            driver=each["driver"],
            count=1,
            attributes={key: _attribute(**value) for key, value in each["attributes"].items()},
            capacity=each["capacity"],
        )
        for name, each in read.items()
    }


def _attribute(version: str | None = None, **others: Any) -> Any:
    return Version(version) if version is not None else next(iter(others.values()))


DEVICES: Final = devices()


def answers(expression: str) -> tuple[int | None, Any]:
    """Return the estimate and, by device, the answer with its cost."""
    try:
        selector = cel.compile(expression)
    except cel.SelectorError:
        return None, "refused"
    found = {}
    for name, device in DEVICES.items():
        verdict, cost = selector.measure(device)
        found[name] = f"{_answer(verdict)} {cost}"
    return selector.estimate, found


def _answer(verdict: cel.Match | cel.NoMatch) -> str:
    if isinstance(verdict, cel.Match):
        return "match"
    if verdict.reason == NOT_BOOLEAN:
        return "not boolean"
    return "failed" if verdict.failed else "false"


def by_device(recorded: Any) -> Any:
    """Return recorded answers by device."""
    return recorded if isinstance(recorded, dict) else dict.fromkeys(DEVICES, recorded)


def comparable(ours: str, theirs: str) -> str:
    """Drop our cost where theirs is not recorded, and where evaluation fails: how far it got may differ."""
    name, _, cost = theirs.rpartition(" ")
    return ours if cost.isdigit() and name != "failed" else ours.rpartition(" ")[0]


def without_cost_of_failure(theirs: str) -> str:
    """Drop what a failure cost."""
    return "failed" if theirs.startswith("failed ") else theirs
