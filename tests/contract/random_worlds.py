"""Compare what deployments of random worlds compose with what another commit composes.

    PYTHONPATH=tests python -m contract.random_worlds record FILE --first 0 --worlds 100
    PYTHONPATH=tests python -m contract.random_worlds compare FILE

`record` lets worlds happen with the code that is imported, and writes each request with its composition.
`compare` composes the same requests, and prints each class of difference with how often it occurs and an
example. Record with the code of one commit, and compare with that of another.
"""

import argparse
import pickle
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.facts import DeploymentRequest
from support.replica_worlds import ReplicaWorld

TICKS = 45


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def plain(composed: Composition) -> dict[str, Any]:
    """Return a composition as data."""
    children = {
        child.key: child.manifest if isinstance(child, Desired) else "keep" for child in composed.children
    }
    conditions = {each.type: (each.status, each.reason, each.message) for each in composed.conditions}
    return {"children": children, "status": composed.status, "conditions": conditions}


def record(path: Path, first: int, worlds: int) -> None:
    """Write the requests and compositions of so many worlds."""
    with path.open("wb") as file:

        def write(
            world: ReplicaWorld, request: DeploymentRequest, composed: Composition, _: set[str]
        ) -> None:
            owner = world.owners[request.owner.metadata.name]
            inputs = request.observed, request.required, request.facts, request.now
            pickle.dump((seed, owner, inputs, plain(composed)), file)

        for seed in range(first, first + worlds):
            world = ReplicaWorld(Random(seed), write)  # noqa: S311 - not for secrets
            for tick in range(TICKS):
                world.pass_tick(quiet=tick < 5)


def classify(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the classes of the differences of two compositions; none if they are equal."""
    found = []
    for key in sorted({*before["children"], *after["children"]}):
        one, other = before["children"].get(key), after["children"].get(key)
        if one != other and not key.startswith("revision-"):
            found.append(f"child: {_describe(one)} -> {_describe(other)}{_fields(one, other)}")
    for name in sorted({*before["conditions"], *after["conditions"]}):
        one, other = before["conditions"].get(name), after["conditions"].get(name)
        if one != other:
            same = one and other and one[:2] == other[:2]
            found.append(
                f"condition {name}: " + ("message" if same else f"{one and one[:2]} -> {other and other[:2]}")
            )
    if before["status"] != after["status"]:
        found.append("status")
    return found


def _describe(child: Any) -> str:
    if child is None:
        return "absent"
    if child == "keep":
        return "keep"
    return "withdraw" if child.get("spec", {}).get("draining") else "write"


def _fields(one: Any, other: Any) -> str:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return ""
    parts = [key for key in ("metadata", "spec") if one.get(key) != other.get(key)]
    return f" ({', '.join(parts)})"


def compare(path: Path, examples: int) -> int:
    """Compose the recorded requests, and print the classes of differences; return how many differ."""
    classes: Counter[tuple[str, ...]] = Counter()
    shown: Counter[tuple[str, ...]] = Counter()
    count = 0
    with path.open("rb") as file:
        while True:
            try:
                seed, owner, inputs, before = pickle.load(file)  # noqa: S301 - written by `record`
            except EOFError:
                break
            request = Request(decode_as(ModelDeployment, owner), *inputs)
            composed = model_deployment.compose(request)
            assert isinstance(composed, Composition)
            after, count = plain(composed), count + 1
            if found := tuple(dict.fromkeys(classify(before, after))):
                classes[found] += 1
                if shown[found] < examples:
                    shown[found] += 1
                    say(f"--- world {seed}, {request.owner.metadata.name} at {request.now}: {found}")
                    _show(before, after)
    say(f"{count} requests, {classes.total()} differ")
    for found, number in classes.most_common():
        say(f"{number:6} {'; '.join(found)}")
    return classes.total()


def _show(before: dict[str, Any], after: dict[str, Any]) -> None:
    for key in sorted({*before["children"], *after["children"]}):
        one, other = before["children"].get(key), after["children"].get(key)
        if not key.startswith("revision-"):
            say(f"    {'*' if one != other else ' '} {key}: {_describe(one)} -> {_describe(other)}")
    for name, one in before["conditions"].items():
        if one != after["conditions"].get(name):
            say(f"    {name}: {one}\n      -> {after['conditions'].get(name)}")
    if before["status"] != after["status"]:
        say(f"    {before['status']}\n      -> {after['status']}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--examples", type=int, default=1)
    options = parser.parse_args()
    if options.command == "record":
        record(options.file, options.first, options.worlds)
        return 0
    return min(1, compare(options.file, options.examples))


if __name__ == "__main__":
    sys.exit(main())
