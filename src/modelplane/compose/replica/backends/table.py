"""The table of backends, and the plan of a replica: which one runs an engine, or why none can.

Nothing is guessed: if the cluster lacks a requirement of an engine, or does not report it, the result is
``Rejected`` with the reason, and running workloads stay as they are.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import format_subject, listing
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends import prefill_decode
from modelplane.compose.replica.backends.backend import Backend
from modelplane.compose.replica.backends.gang import GANG
from modelplane.compose.replica.backends.kserve import KSERVE
from modelplane.compose.replica.backends.prefill_decode import choose_engine_port
from modelplane.compose.replica.backends.standalone import STANDALONE
from modelplane.compose.replica.backends.workload import Marks, Workload, is_gang, picks
from modelplane.compose.workload_kinds import (
    INFERENCE_POOL,
    LEADER_WORKER_SET,
    LLM_INFERENCE_SERVICE,
    WorkloadKind,
)

BACKENDS: tuple[Backend, ...] = (
    STANDALONE,
    GANG,
    KSERVE,
)
"""Every backend. The first one of a replica's choice that runs an engine has it."""


def backend_of(replica: ModelReplica, engine: PlacedEngine) -> Backend:
    """Return the backend of an engine."""
    return next(
        backend
        for backend in BACKENDS
        if backend.choice is replica.spec.find_backend() and backend.runs(engine)
    )


def workload_keys(replica: ModelReplica, engine: PlacedEngine) -> tuple[str, ...]:
    """Return the key of an engine's workload, then those that it would have with each other backend."""
    own = backend_of(replica, engine)
    others = (backend.key(replica, engine) for backend in BACKENDS if backend is not own)
    return own.key(replica, engine), *others


def workload_key(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the key of an engine's workload. Another backend is another child."""
    return backend_of(replica, engine).key(replica, engine)


def reject_other_backend(replica: ModelReplica, observed: Container[str]) -> Rejected | None:
    """Return why a replica cannot have its choice, with which it does not run; None if it can."""
    choice = replica.spec.find_backend()
    for engine in replica.spec.engines:
        for row in BACKENDS:
            if row.choice is not choice and row.key(replica, engine) in observed:
                return Rejected(
                    Reason.UNSUPPORTED_TOPOLOGY,
                    f'engine "{engine.name}"',
                    f"runs with backend {row.choice}, but spec.backend is {choice}",
                    "set the backend back, or delete the replica, and Modelplane creates it again",
                )
    return None


def marks_of(replica: ModelReplica, engine: PlacedEngine) -> Marks:
    """Return the labels by which the pods of an engine are found."""
    backend = backend_of(replica, engine)
    return backend.marks(replica, engine, backend.name(replica, engine))


def serving_labels(replica: ModelReplica) -> Mapping[str, str]:
    """Return the labels of the pods of a replica that take requests."""
    return marks_of(replica, replica.spec.engines[0]).serving


_INSTALL: Final = "install it there"
_REMEDIES: Final = {
    LLM_INFERENCE_SERVICE.capability: (
        "enable the components of KServe in spec.servingStack there, or install KServe "
        "(https://kserve.github.io/website/docs/install/llmisvc-install)"
    )
}
"""Remedies for a missing capability, where there is a choice."""


def plan(
    replica: ModelReplica, cluster: InferenceCluster, copies: Mapping[tuple[str, str], str]
) -> tuple[Workload, ...] | Rejected:
    """Return the workloads of a replica, or the first reason against them."""
    where = f'InferenceCluster "{cluster.metadata.name}"'
    taints = {pool.name: pool.list_tolerated() for pool in cluster.spec.node_pools}
    pools = {member.node_pool_name for engine in replica.spec.engines for member in engine.members}
    if unknown := pools - taints.keys():
        # Without the pool's taints, the pods would lack the tolerations for its nodes.
        return Rejected(
            Reason.WAITING_FOR_CLUSTER,
            where,
            f"has no node pool {listing(unknown)}",
            "declare it in spec.nodePools",
        )
    for backend in BACKENDS:
        run = any(backend_of(replica, engine) is backend for engine in replica.spec.engines)
        if run and (rejected := backend.rejected(replica)):
            return rejected
    if found := cluster.status.capabilities:
        offered = msgspec.to_builtins(found)
        for need in _needs(replica):
            if not offered.get(need.capability):
                return Rejected(
                    Reason.UNSUPPORTED_TOPOLOGY,
                    where,
                    f"has no {need.name}, which {need.purpose}",
                    need.remedy,
                )
    elif needs := [need.name for need in _needs(replica)]:
        detail = f"not known yet whether {where} has {listing(needs)}"
        return Rejected(Reason.WAITING_FOR_CLUSTER, detail=detail)
    workloads = []
    for engine in replica.spec.engines:
        port = prefill_decode.check_arguments(replica, engine) or choose_engine_port(engine)
        if isinstance(port, Rejected):
            return port
        name = backend_of(replica, engine).name(replica, engine)
        workloads.append(Workload(replica, engine, name, marks_of(replica, engine), port, taints, copies))
    return tuple(workloads)


class _Need(NamedTuple):
    """A capability that a replica needs: its field in the status, its name in messages, and its purpose."""

    capability: str
    name: str
    purpose: str
    remedy: str


def _needs(replica: ModelReplica) -> Iterator[_Need]:
    engines = replica.spec.engines
    if any(member.device_requests for engine in engines for member in engine.members):
        yield _Need("dra", "DRA", "claims of devices need", _INSTALL)
    for backend in BACKENDS:
        run = [engine for engine in engines if backend_of(replica, engine) is backend]
        if run and backend.kind.capability:
            named = [engine.name for engine in run]
            yield _need_of(backend.kind, f"{format_subject('engine', named, 'needs', 'need')} {backend.role}")
        gangs = [engine.name for engine in run if is_gang(engine)]
        if gangs and backend.kind is not LEADER_WORKER_SET:
            yield _need_of(LEADER_WORKER_SET, f"{format_subject('engine', gangs, 'needs', 'need')} as a gang")
    if picks(replica):
        yield _need_of(INFERENCE_POOL, "the endpoint picker needs")


def _need_of(kind: WorkloadKind, purpose: str) -> _Need:
    return _Need(kind.capability, kind.kind, purpose, _REMEDIES.get(kind.capability, _INSTALL))
