"""Measure one look of the controllers at many InferenceAutoscalers of one namespace.

    python benchmarks/autoscalers.py --number 1000 --json

There are as many ModelDeployments, ModelServices and ModelEndpoints as autoscalers, as objects in memory, and
two gateways that have counted for all of them. Nothing is read from a server, and nothing is written.
In `own`, each service selects one deployment by its name. `crowded` is the worst case that a team can make:
as many services as are compared select every deployment too. In `changing`, a service changes before each
look. Medians of processor time, in milliseconds.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from modelplane.compose.service.selecting_services import MOST_COMPARED
from modelplane.controllers.decision_loops.autoscaling_loop import Autoscaling
from modelplane.gateway.usage.load import Load, Reading

SAMPLES = 9
API = "modelplane.ai/v1alpha1"
DEPLOYMENT = "modelplane.ai/deployment"


class Copy(dict[str, Any]):
    """A local copy of one kind in one namespace."""

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self.values()))

    def get(self, name: str, namespace: str = "") -> Any:  # type: ignore[override]  # narrower than a dict's
        return self[name] if namespace == "ml" and name in self.keys() else None

    def in_namespace(self, _namespace: str) -> tuple[Any, ...]:
        return tuple(self.values())


class Gateways(NamedTuple):
    """Two gateways with counts for every service."""

    counts: Load

    async def load(self) -> Load:
        return self.counts


def item(kind: str, name: str, spec: Any, version: int = 1, **metadata: Any) -> dict[str, Any]:
    own = {"name": name, "namespace": "ml", "uid": f"{kind}-{name}", "resourceVersion": str(version)}
    return {"apiVersion": API, "kind": kind, "metadata": own | metadata, "spec": spec}


def deployment(name: str, *, crowded: bool) -> dict[str, Any]:
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai"}]}},
    }
    labels = {f"label-{number}": "x" for number in range(30)} if crowded else {}
    template = {"metadata": {"labels": labels}, "spec": {"engines": [{"name": "main", "members": [member]}]}}
    return item("ModelDeployment", name, {"replicas": 1, "template": template})


def service(name: str, number: int, version: int = 1, *, crowded: bool = False) -> dict[str, Any]:
    selects_all = crowded and number < MOST_COMPARED - 1
    selector = {f"label-{number % 30}": "x"} if selects_all else {DEPLOYMENT: name}
    return item("ModelService", name, {"endpoints": [{"selector": {"matchLabels": selector}}]}, version)


def autoscaler(name: str) -> dict[str, Any]:
    spec = {
        "deploymentRef": {"name": name},
        "maxReplicas": 1,
        "targets": {"requestsPerReplica": 10, "tokensPerSecondPerReplica": 100},
    }
    return item("InferenceAutoscaler", name, spec, creationTimestamp="2026-01-01T00:00:00Z")


async def looks(number: int, *, crowded: bool, before: Callable[[dict[str, Copy], int], None]) -> float:
    """Return the median of the processor time of a look, in milliseconds."""
    names = [f"model-{at}" for at in range(number)]
    services = [service(name, at, crowded=crowded) for at, name in enumerate(names)]
    copies = {
        "InferenceAutoscaler": Copy((name, autoscaler(name)) for name in names),
        "ModelDeployment": Copy((name, deployment(name, crowded=crowded)) for name in names),
        "ModelEndpoint": Copy(
            (name, item("ModelEndpoint", name, {"url": "http://x"}, labels={DEPLOYMENT: name}))
            for name in names
        ),
        "ModelService": Copy(zip(names, services, strict=True)),
    }
    counts = {f"ml/{name}": 3 for name in names}
    reading = Reading(in_flight=counts, requests=counts, held={}, holds=counts, tokens=counts)
    gateways, now, spent = Gateways(Load({"a": reading, "b": reading})), 0.0, []
    autoscaling = Autoscaling(None, copies, gateways, lambda _: None, now=lambda: now)  # type: ignore[arg-type]  # as they are used
    for sample in range(SAMPLES + 30):
        before(copies, sample)
        now += 2
        at = time.process_time()
        await autoscaling.look(gateways)  # type: ignore[arg-type]  # as above
        spent.append(time.process_time() - at)
    # The memory of a minute is full from the 30th on.
    return round(statistics.median(spent[-SAMPLES:]) * 1000, 1)


def change(copies: dict[str, Copy], version: int) -> None:
    """Change a service, so that all are filed and compared anew."""
    last = len(copies["ModelService"]) - 1
    copies["ModelService"][f"model-{last}"] = service(f"model-{last}", last, version + 2)


def run(number: int) -> dict[str, float]:
    def nothing(_copies: dict[str, Copy], _version: int) -> None:
        """Change nothing."""

    cases: dict[str, tuple[bool, Callable[[dict[str, Copy], int], None]]] = {
        "own": (False, nothing),
        "crowded": (True, nothing),
        "changing": (False, change),
        "crowded_and_changing": (True, change),
    }
    return {
        name: asyncio.run(looks(number, crowded=crowded, before=before))
        for name, (crowded, before) in cases.items()
    }


def main() -> None:
    """Print the median of each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--number", type=int, default=1000, help="autoscalers, and as many of the others")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = {"autoscalers": options.number, "cpu_ms": run(options.number)}
    sys.stdout.write(json.dumps(found) + "\n" if options.json else f"{found}\n")


if __name__ == "__main__":
    main()
