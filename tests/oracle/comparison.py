"""What we answer, in the form of the record, and how that agrees with Kubernetes."""

import json
from enum import Enum
from typing import Any, Final

from modelplane import cel
from modelplane.scheduler import Device, Version
from oracle.asking import DEVICES as FILE


class Agreement(Enum):
    """How an answer of ours compares with that of Kubernetes."""

    SAME = "the same answer for each device, and the same estimate"
    REFUSED_BY_BOTH = "refused by both"
    REFUSED_BY_NAME = "refused here, with what selectors lack"
    STRICTER = "fails on a device that Kubernetes answers for"
    DIFFERENT = "another answer, but no match more"
    LESS_STRICT = "accepted here, refused by the API server"
    MORE_MATCHES = "matches a device that Kubernetes does not match"


def padded(line: list[Any]) -> list[Any]:
    """Return a line of the record with an estimate, even where the selector is refused."""
    return [line[0], None, line[1], *line[2:]] if line[1] == "refused" else line


def devices() -> dict[str, Device]:
    """Return the devices that selectors are asked about."""
    read = json.loads(FILE.read_text())
    return {
        name: Device(
            name=name,
            driver=device["driver"],
            count=1,
            attributes={key: _attribute(**value) for key, value in device["attributes"].items()},
            capacity=device["capacity"],
        )
        for name, device in read.items()
    }


def _attribute(version: str | None = None, **others: Any) -> Any:
    return Version(version) if version is not None else next(iter(others.values()))


DEVICES: Final = devices()


def answers(expression: str) -> tuple[int | None, dict[str, str] | str]:
    """Return the estimate and, by device, the answer; without an estimate, why the selector is refused."""
    try:
        selector = cel.compile(expression)
    except cel.SelectorError as error:
        return None, error.problem
    return selector.estimate, {name: _answer(selector.evaluate(device)) for name, device in DEVICES.items()}


def _answer(verdict: cel.Match | cel.NoMatch) -> str:
    if isinstance(verdict, cel.Match):
        return "match"
    if verdict.reason == "it gives neither true nor false for this device":
        return "not boolean"
    return "failed" if verdict.failed else "false"


def by_device(recorded: Any) -> dict[str, str]:
    """Return recorded answers by device, without their costs."""
    given = recorded if isinstance(recorded, dict) else dict.fromkeys(DEVICES, recorded)
    return {name: answer.rstrip("0123456789").rstrip() for name, answer in given.items()}


def compare(line: list[Any]) -> Agreement:
    """Compare our answer to the selector of a line of the record with the recorded one."""
    expression, estimate, recorded = padded(line)[:3]
    our_estimate, ours = answers(expression)
    if recorded == "refused":
        return Agreement.REFUSED_BY_BOTH if isinstance(ours, str) else Agreement.LESS_STRICT
    if isinstance(ours, str):
        return Agreement.REFUSED_BY_NAME
    theirs = by_device(recorded)
    different = {name for name, answer in ours.items() if answer not in theirs[name].split(" or ")}
    if any(ours[name] == "match" for name in different):
        return Agreement.MORE_MATCHES
    if all(ours[name] == "failed" for name in different):
        return Agreement.STRICTER if different or our_estimate != estimate else Agreement.SAME
    return Agreement.DIFFERENT
