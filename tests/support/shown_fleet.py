"""Fleets for pictures and measurements of the dashboard: objects as an API server returns them."""

import itertools
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from modelplane.dashboard.pages import View
from modelplane.dashboard.snapshot import EVENT, Snapshot
from modelplane.dashboard.traffic import Traffic
from modelplane.gateway.usage.usage_sums import UsageRecord

API = "modelplane.ai/v1alpha1"
Object = dict[str, Any]

_versions = itertools.count(1)
_DEVICES = {"h100": (8, "81559Mi"), "l40s": (4, "46068Mi"), "l4": (2, "23034Mi")}


class ShownFleet:
    """A fleet that is built object by object, at one moment."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.objects: defaultdict[str, list[Object]] = defaultdict(list)

    def ago(self, **time: float) -> str:
        return (self.now - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def condition(self, type_: str, holds: bool, reason: str, message: str = "", **time: float) -> Object:
        status = "True" if holds else "False"
        since = self.ago(**(time or {"days": 3}))
        return {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }

    def add(self, kind: str, name: str, namespace: str = "", **parts: Any) -> Object:
        metadata = {
            "name": name,
            "uid": f"{kind}/{namespace}/{name}",
            "resourceVersion": str(next(_versions)),
            "creationTimestamp": self.ago(days=5),
            **({"namespace": namespace} if namespace else {}),
            **parts.pop("metadata", {}),
        }
        item = {"apiVersion": API, "kind": kind, "metadata": metadata, **parts}
        self.objects[kind].append(item)
        return item

    def cluster(self, name: str, region: str, pools: Mapping[str, int], why: str = "") -> None:
        published = [
            {
                "name": card,
                "nodes": nodes,
                "accounting": "Devices",
                "devices": [
                    {
                        "name": card,
                        "driver": "gpu.nvidia.com",
                        "deviceClassName": "gpu.nvidia.com",
                        "count": _DEVICES[card][0],
                        "attributes": {"productName": {"string": f"NVIDIA {card.upper()}"}},
                        "capacity": {"memory": {"value": _DEVICES[card][1]}},
                    }
                ],
            }
            for card, nodes in pools.items()
        ]
        ready = self.condition("Ready", not why, "Unreachable" if why else "Available", why, minutes=4)
        self.add(
            "InferenceCluster",
            name,
            metadata={"labels": {"modelplane.ai/region": region} if region else {}},
            spec={"cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}}},
            status={
                "gpuPools": published,
                "gateway": {"address": "192.0.2.10"},
                "capabilities": {"dra": True, "leaderWorkerSet": True, "inferencePool": True},
                "conditions": [ready],
            },
        )

    def deployment(
        self, name: str, card: str, count: int, on: Sequence[str], wanted: int = 0, namespace: str = "ml-team"
    ) -> None:
        """Add a deployment with one replica on each cluster of ``on``; ``wanted`` may be more."""
        template = {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]}}
        name_of_card = 'device.attributes["gpu.nvidia.com"].productName'
        cel = f'device.driver == "gpu.nvidia.com" && {name_of_card}.contains("{card.upper()}")'
        claim = {"name": "gpu", "count": count, "selectors": [{"cel": cel}]}
        wanted = max(wanted, len(on))
        placed = len(on) == wanted
        why = f"{wanted - len(on)} of {wanted} replicas cannot be placed: no free {card}"
        owner = self.add(
            "ModelDeployment",
            name,
            namespace,
            spec={
                "replicas": wanted,
                "engines": [
                    {
                        "name": "engine",
                        "members": [{"nodeSelector": {"devices": [claim]}, "template": template}],
                    }
                ],
            },
            status={
                "replicas": {"total": len(on), "ready": len(on), "updated": len(on)},
                "conditions": [
                    self.condition(
                        "ReplicasScheduled",
                        placed,
                        "Scheduled" if placed else "InsufficientCapacity",
                        "" if placed else why,
                        minutes=12,
                    ),
                    self.condition(
                        "Ready",
                        placed,
                        "Available" if placed else "Unavailable",
                        "" if placed else why,
                        minutes=12,
                    ),
                ],
            },
        )
        for cluster in on:
            self._replica(f"{name}-{cluster}", cluster, card, claim, owner)
        self._service(name, namespace, on)

    def _replica(self, name: str, cluster: str, card: str, claim: Mapping[str, Any], owner: Object) -> None:
        metadata = owner["metadata"]
        carried = {"modelplane.ai/deployment": metadata["name"], "modelplane.ai/replica-index": "0"}
        reference = {
            "apiVersion": API,
            "kind": "ModelDeployment",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        member = {
            "role": "Standalone",
            "nodePoolName": card,
            "deviceRequests": [{**claim, "deviceClassName": "gpu.nvidia.com"}],
            "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]}},
        }
        self.add(
            "ModelReplica",
            name,
            metadata["namespace"],
            metadata={"labels": carried, "ownerReferences": [reference]},
            spec={"clusterName": cluster, "engines": [{"name": "engine", "members": [member]}]},
            status={"conditions": [self.condition("Ready", True, "Available", hours=9)]},
        )
        self.add(
            "ModelEndpoint",
            name,
            metadata["namespace"],
            metadata={"labels": carried},
            spec={"url": f"http://192.0.2.10/{metadata['namespace']}/{name}/"},
            status={"conditions": [self.condition("Ready", True, "Available", hours=9)]},
        )

    def _service(self, name: str, namespace: str, on: Sequence[str]) -> None:
        why = "" if on else f"no endpoint: deployment {name} has no replica that serves"
        self.add(
            "ModelService",
            name,
            namespace,
            spec={"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": name}}}]},
            status={
                "address": f"http://127.0.0.1:8080/{namespace}/{name}",
                "conditions": [
                    self.condition("Ready", bool(on), "Available" if on else "NoEndpoints", why, minutes=12)
                ],
            },
        )

    def event(
        self,
        kind: str,
        name: str,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        minutes: float = 1,
        namespace: str = "ml-team",
        count: int = 1,
    ) -> None:
        at = self.ago(minutes=minutes)
        self.objects[EVENT].append(
            {
                "metadata": {
                    "name": f"{name}.{next(_versions)}",
                    "namespace": namespace,
                    "creationTimestamp": at,
                },
                "eventTime": at,
                "type": "Warning" if warning else "Normal",
                "reason": reason,
                "note": note,
                "regarding": {"apiVersion": API, "kind": kind, "name": name, "namespace": namespace},
                **({"series": {"count": count, "lastObservedTime": at}} if count > 1 else {}),
            }
        )

    def view(self, traffic: Traffic | None = None, **parts: Any) -> View:
        rates = {} if traffic is None else traffic.compute_rates(self.now)
        return View(Snapshot(dict(self.objects)), self.now, rates=rates, **parts)


def small(now: datetime) -> ShownFleet:
    """Return a fleet of seven clusters in three regions, of which one is silent."""
    fleet = ShownFleet(now)
    fleet.cluster("eu-north-a", "eu-north", {"h100": 1, "l4": 6})
    fleet.cluster("eu-north-b", "eu-north", {"h100": 1, "l40s": 3})
    fleet.cluster("eu-west-a", "eu-west", {"l40s": 6})
    fleet.cluster(
        "eu-west-b", "eu-west", {"l40s": 4}, "unreachable: no answer from its API server for 4 minutes"
    )
    fleet.cluster("us-east-a", "us-east", {"h100": 1, "l40s": 4})
    fleet.cluster("us-east-b", "us-east", {"l4": 8, "l40s": 2})
    fleet.cluster("us-east-c", "us-east", {"h100": 1})
    fleet.deployment("llama-70b", "h100", 8, ["eu-north-a", "eu-north-b", "us-east-a", "us-east-c"], wanted=5)
    fleet.deployment("qwen-14b", "l40s", 4, ["eu-west-a", "us-east-b", "us-east-a", "eu-north-b"])
    fleet.deployment("gemma-4b", "l4", 1, ["eu-north-a", "us-east-b"])
    fleet.deployment("embeddings", "l4", 1, ["eu-north-a"], namespace="search")
    fleet.event(
        "ModelDeployment",
        "llama-70b",
        "InsufficientCapacity",
        "1 of 5 replicas cannot be placed: no free h100",
        warning=True,
        minutes=12,
        count=3,
    )
    fleet.event(
        "InferenceCluster",
        "eu-west-b",
        "Unreachable",
        "no answer from its API server",
        warning=True,
        minutes=4,
        namespace="default",
    )
    fleet.event("ModelDeployment", "qwen-14b", "Scheduled", "4 of 4 replicas placed", minutes=31)
    fleet.event("ModelService", "gemma-4b", "Available", "ready with 2 endpoints", minutes=44)
    return fleet


def traffic_of(fleet: ShownFleet) -> Traffic:
    """Return five minutes of requests to the services of the small fleet."""
    chance, traffic = random.Random(7), Traffic()  # noqa: S311 - not a secret
    times = {"ml-team/llama-70b": (900, 310), "ml-team/qwen-14b": (1500, 120), "ml-team/gemma-4b": (2600, 60)}
    for service, (count, first_token_ms) in times.items():
        moments = sorted(chance.uniform(1, 299) for _ in range(count))
        traffic.add(
            UsageRecord(
                time=fleet.now - timedelta(seconds=each),
                status=200 if chance.random() > 0.004 else 503,
                service=service,
                prompt_tokens=chance.randint(80, 900),
                completion_tokens=chance.randint(20, 400),
                first_token_ms=round(first_token_ms * chance.lognormvariate(0, 0.35)),
                duration_ms=chance.randint(900, 6000),
            )
            for each in reversed(moments)
        )
    return traffic


def large(now: datetime, clusters: int) -> ShownFleet:
    """Return a fleet of many clusters in ten regions, with two replicas on each."""
    fleet, chance = ShownFleet(now), random.Random(clusters)  # noqa: S311 - not a secret
    names = [f"cluster-{number:04}" for number in range(clusters)]
    for number, name in enumerate(names):
        why = "unreachable: no answer from its API server" if number % 97 == 5 else ""
        fleet.cluster(name, f"region-{number % 10}", {"l40s": chance.randint(1, 4)}, why)
    for number in range(max(clusters // 10, 1)):
        fleet.deployment(
            f"model-{number:03}", "l40s", chance.choice((1, 2)), chance.sample(names, min(20, clusters))
        )
    return fleet


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
