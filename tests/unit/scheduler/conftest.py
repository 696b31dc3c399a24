"""A language for fleets: one line per cluster, so that a table of cases reads as a table.

Clusters are separated by `|`. A cluster is `name: pool, pool ... marks`:

- a pool is `hardware xN` (N nodes), named like its hardware, or `name=hardware xN`; with `*N` its devices are
  counted; `@name` after it is its fabric;
- `!key` is a taint with effect NoSchedule, `!!key` one with NoExecute;
- `key=value` after the pools is a label;
- `down` (not ready), `unreachable` (no gateway address), `no-storage` (for caches), `no-dra`, `no-lws`,
  `no-inference-pool` say it.

A deployment is `replicas: engine, engine; options`. An engine is `memory`, or `name=memory*count` (GPUs per
pod), with the marks `xN` (copies) and `+N` (a leader and N workers). Options: `in key=value`,
`cached key=value`, `cache-unknown`, `tolerating key`, `PrefillDecode`.

A replica is `name@cluster/index pool`, with `*N` after the pool for N copies and `#N` for N GPUs in each, and
the marks `ready`, `deleting`, `other` (of another deployment), `tN` (made at time N). Several engines
are `engine:pool*N`. A placement is shown in the same way, `pool+pool` for a gang in two pools:
`cluster/index pool` for a new replica, `name@...` for a kept one, `name@... leaving`.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from modelplane.scheduler import (
    Accounting,
    CacheFootprint,
    Capabilities,
    Claim,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Effect,
    Engine,
    Fleet,
    Member,
    Operator,
    PlacedEngine,
    PlacedMember,
    Placement,
    Pool,
    Replica,
    ResolvedRequest,
    Role,
    Taint,
    Toleration,
    Version,
)

UID = "uid-qwen"


def gpu(memory: str, architecture: str, count: int, claim: Claim = Claim.DRA) -> Device:
    return Device(
        "gpu",
        "gpu.nvidia.com",
        count,
        claim,
        "gpu.nvidia.com" if claim is Claim.DRA else "",
        {"architecture": architecture, "cudaComputeCapability": Version("9.0.0")},
        {"memory": memory},
    )


NIC = Device("nic", "nic.nvidia.com", 1, Claim.SYNTHETIC, attributes={"linkType": "infiniband"})

HARDWARE = {
    "l4": (gpu("24Gi", "Ada", 1),),
    "a100": (gpu("80Gi", "Ampere", 8),),
    "h200": (gpu("141Gi", "Hopper", 8), NIC),
    "synthetic": (gpu("80Gi", "Ampere", 8, Claim.SYNTHETIC),),
    "bare": (),
}
CAPABILITIES = {"no-dra": "dra", "no-lws": "leader_worker_set", "no-inference-pool": "inference_pool"}


def request(memory: str, count: int = 1) -> DeviceRequest:
    expression = f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{memory}")) >= 0'
    return DeviceRequest("gpu", count, (expression,))


def engine(text: str) -> Engine:
    name, _, rest = text.strip().rpartition("=")
    hardware, *marks = rest.split()
    memory, _, count = hardware.partition("*")
    requests = (request(memory, int(count or 1)),)
    copies = next((int(mark[1:]) for mark in marks if mark.startswith("x")), 1)
    workers = next((int(mark[1:]) for mark in marks if mark.startswith("+")), 0)
    members = (
        (Member(Role.LEADER, 1, requests), Member(Role.WORKER, workers, requests))
        if workers
        else (Member(requests=requests),)
    )
    return Engine(name or "main", copies, members)


def deployment(text: str) -> Deployment:
    head, *options = [part.strip() for part in text.split(";")]
    replicas, _, engines = head.partition(":")
    changes: dict[str, Any] = {}
    for option in options:
        word, _, value = option.partition(" ")
        changes.update(OPTIONS[word](value))
    return Deployment(
        "ml-team", "qwen", UID, int(replicas), tuple(engine(part) for part in engines.split(",")), **changes
    )


def labels(text: str) -> dict[str, str]:
    key, _, value = text.partition("=")
    return {key: value} if key else {}


OPTIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "in": lambda value: {"cluster_selector": labels(value)},
    "regions": lambda value: {"regions": tuple(value.split())},
    "cached": lambda value: {"cache": CacheFootprint(True, labels(value))},
    "cached-in": lambda value: {"cache": CacheFootprint(True, regions=tuple(value.split()))},
    "cache-unknown": lambda _: {"cache": CacheFootprint(False)},
    "tolerating": lambda value: {"tolerations": (Toleration(value, Operator.EXISTS),)},
    "PrefillDecode": lambda _: {"picks": True},
}


def cluster(text: str) -> Cluster:
    name, _, rest = text.strip().partition(":")
    pools, labels, taints, marks = [], {}, [], set()
    for part in re.findall(r"(?:[\w-]+=)?[\w-]+ [x*]\d+(?: @\w+)?|!{0,2}[\w./-]+(?:=[\w-]+)?", rest):
        if " " in part:
            pools.append(_pool(*part.split()))
        elif part.startswith("!"):
            effect = Effect.NO_EXECUTE if part.startswith("!!") else Effect.NO_SCHEDULE
            taints.append(Taint(part.lstrip("!"), "", effect))
        elif "=" in part:
            key, _, value = part.partition("=")
            labels[key] = value
        else:
            marks.add(part)
    return Cluster(
        name,
        labels,
        ready="down" not in marks,
        not_ready="its API cannot be reached" if "down" in marks else "",
        gateway_address="" if "unreachable" in marks else "192.0.2.1",
        pools=tuple(pools),
        taints=tuple(taints),
        region=None if "unread" in marks else labels.get("modelplane.ai/region", ""),
        cache_storage="" if "no-storage" in marks else "shared",
        capabilities=Capabilities(**{field: mark not in marks for mark, field in CAPABILITIES.items()}),
    )


def _pool(title: str, size: str, fabric: str = "") -> Pool:
    name, _, hardware = title.partition("=")
    accounting = Accounting.DEVICES if size.startswith("*") else Accounting.NODES
    return Pool(name, int(size[1:]), HARDWARE[hardware or name], accounting, fabric.lstrip("@"))


def replica(text: str) -> Replica:
    name, rest = text.strip().split("@")
    place, *words = rest.split()
    where, _, index = place.partition("/")
    marks = {word for word in words if re.fullmatch(r"ready|deleting|other|held|t\d+", word)}
    engines = tuple(_engine(word) for word in words if word not in marks)
    return Replica(
        namespace="ml-team",
        name=name,
        deployment_uid="uid-other" if "other" in marks else UID,
        # Names prove nothing: every replica here says that it is of "qwen".
        deployment_name="qwen",
        cluster=where,
        index=int(index),
        engines=engines,
        ready="ready" in marks,
        deleting="deleting" in marks,
        created=next((mark for mark in marks if mark.startswith("t")), ""),
    )


def _engine(text: str) -> PlacedEngine:
    name, _, pool = text.rpartition(":")
    pool, _, gpus = pool.partition("#")
    pool, _, copies = pool.partition("*")
    claim = ResolvedRequest("gpu", "gpu.nvidia.com", int(gpus or 1), request("20Gi").selectors)
    return PlacedEngine(name or "main", int(copies or 1), (PlacedMember(Role.STANDALONE, pool, 1, (claim,)),))


def fleet(clusters: str, replicas: str = "") -> Fleet:
    return Fleet(
        tuple(cluster(text) for text in clusters.split("|") if text.strip()),
        tuple(replica(text) for text in replicas.split("|") if text.strip()),
    )


def shown(placement: Placement) -> list[str]:
    lines = []
    for each in placement.assignments:
        pools = " ".join(
            ("" if engine.name == "main" else f"{engine.name}:")
            + "+".join(dict.fromkeys(member.pool for member in engine.members))
            for engine in each.engines
        )
        name = f"{each.replica}@" if each.replica else ""
        lines.append(f"{name}{each.cluster}/{each.index} {pools}{' leaving' if each.leaving else ''}")
    return lines


def with_selector(wanted: Deployment, expression: str) -> Deployment:
    """Return the deployment with one selector in place of those of its first member."""
    [first, *_] = wanted.engines
    member = msgspec.structs.replace(first.members[0], requests=(DeviceRequest("gpu", 1, (expression,)),))
    return msgspec.structs.replace(wanted, engines=(msgspec.structs.replace(first, members=(member,)),))


class Language:
    """What the test modules of this folder use."""

    fleet = staticmethod(fleet)
    deployment = staticmethod(deployment)
    with_selector = staticmethod(with_selector)
    shown = staticmethod(shown)


@pytest.fixture(scope="session")
def say() -> type[Language]:
    return Language
