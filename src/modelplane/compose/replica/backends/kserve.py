"""Engines that KServe runs: an LLMInferenceService, whose controller makes the workloads and their Services.

One runs one engine, or both engines of mode PrefillDecode. KServe merges presets of its own into each pod,
field by field, so every field on which serving depends is written, even with its default. There is no
``router``: the route, and the endpoint picker, are those of the other backends.

Sources: the LLMInferenceService of KServe v0.20 (``serving.kserve.io/v1alpha2``) and its controller.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.fields.pods.containers import Container
from modelplane.api.fields.pods.engines import ENGINE_PORT, Phase, Role, ServingBackend
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.names import child_name
from modelplane.compose.cache import staging_sources
from modelplane.compose.replica.backends.backend import Backend, Claims, shortened
from modelplane.compose.replica.backends.engine_pods import pod_template
from modelplane.compose.replica.backends.kserve_pods import pod_spec, rejected
from modelplane.compose.replica.backends.workload import Form, Marks, Workload, claim_template, head, is_gang
from modelplane.compose.replica.engine_command_lines import (
    DATA,
    PIPELINE,
    TENSOR,
    find_flag,
    find_model_argument,
    has_flag,
)
from modelplane.compose.workload_kinds import LLM_INFERENCE_SERVICE

_LOCAL: Final = ("--data-parallel-size-local", "-dpl")

_EXPERT: Final = ("--enable-expert-parallel", "-ep")

_MOST: Final = 4096
"""Largest degree that is read; a larger one counts as none."""


class Parallelism(NamedTuple):
    """Degrees of parallelism; 0 for one that no flag sets."""

    tensor: int = 0
    pipeline: int = 0
    data: int = 0
    data_local: int = 0
    expert: bool = False


_NAME_LENGTH: Final = 31
"""Characters for the name, so that KServe's names of children need no hash and LeaderWorkerSet takes them.

``<name>-kserve-mn-prefill`` has at most 49.
"""

_NOT_IN_URI: Final = re.compile(r"[^A-Za-z0-9._/-]+")

_LONGEST_URI: Final = 200

_GROUPS: Final = "-kserve-mn"

_PREFILL_GROUPS: Final = "-kserve-mn-prefill"

_NO_LEADER: Final = {"key": labels.LWS_WORKER_INDEX, "operator": "NotIn", "values": ["0"]}


def parallelism(container: Container) -> Parallelism:
    """Return the degrees that an engine's flags set (vLLM, SGLang)."""
    return Parallelism(
        _degree(container, TENSOR),
        _degree(container, PIPELINE),
        _degree(container, DATA),
        _degree(container, _LOCAL),
        has_flag(container, *_EXPERT),
    )


def block(found: Parallelism, nodes: int) -> dict[str, Any]:
    """Return the ``parallelism`` of an LLMInferenceService for a gang of some nodes.

    KServe makes as many pods as data divided by local data, and has a preset for that. It takes the size from
    a pipeline too, but its charts have no preset for one, without which it makes nothing. The rest only fills
    arguments of presets, and the engine has its own.
    """
    local = max(found.data_local, 1)
    is_of_flags = found.data > 1 and found.data // local == nodes
    data, data_local = (found.data, local) if is_of_flags else (nodes, 1)
    return {
        **({"tensor": found.tensor} if found.tensor else {}),
        "data": data,
        "dataLocal": data_local,
        **({"expert": True} if found.expert else {}),
    }


def block_until_0_8(found: Parallelism) -> dict[str, Any]:
    """Return the same as versions up to 0.8 composed it."""
    divided = (
        {"data": found.data, "dataLocal": max(found.data_local, 1)}
        if found.data > 1
        else {"pipeline": max(found.pipeline, 1)}
    )
    return {
        **({"tensor": found.tensor} if found.tensor else {}),
        **divided,
        **({"expert": True} if found.expert else {}),
    }


def service_name(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the name of the LLMInferenceService that runs an engine."""
    parts = (_primary(replica, engine).name, *filter(None, (_sizes(replica, engine),)))
    return shortened(child_name(replica.metadata.name, *parts), _NAME_LENGTH)


def _degree(container: Container, names: tuple[str, ...]) -> int:
    given = find_flag(container, *names) or ""
    # Longer digits are no degree, and int() of very many would raise.
    if not (given.isascii() and given.isdigit() and len(given) <= len(str(_MOST))):
        return 0
    return int(given) if int(given) <= _MOST else 0


def _primary(replica: ModelReplica, engine: PlacedEngine) -> PlacedEngine:
    """Return the engine whose LLMInferenceService runs an engine."""
    if engine.phase is not Phase.PREFILL:
        return engine
    return next(placed for placed in replica.spec.engines if placed.phase is Phase.DECODE)


def _prefill(replica: ModelReplica, engine: PlacedEngine) -> PlacedEngine | None:
    if engine.phase is not Phase.DECODE:
        return None
    return next(placed for placed in replica.spec.engines if placed.phase is Phase.PREFILL)


def _sizes(replica: ModelReplica, engine: PlacedEngine) -> str | None:
    """Return the sizes of the gangs of an LLMInferenceService, which are immutable; None if it has none."""
    own = _primary(replica, engine)
    prefill = _prefill(replica, own)
    served = [own, prefill] if prefill else [own]
    if not any(map(is_gang, served)):
        return None
    return "-".join(str(sum(member.pods for member in placed.members)) for placed in served)


def _key(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the key of an engine's LLMInferenceService. Another size is another child."""
    sizes = _sizes(replica, engine)
    # No name of an engine has a dot.
    return f"model-kserve-{_primary(replica, engine).name}" + (f".{sizes}" if sizes else "")


def _marks(replica: ModelReplica, engine: PlacedEngine, name: str) -> Marks:
    """Return labels of Modelplane's for Deployments, and those of LeaderWorkerSet and KServe for gangs.

    KServe passes no labels on to the pods of a gang.
    """
    service = service_name(replica, engine)
    serving: Mapping[str, str] = {labels.SERVING: replica.metadata.name}
    if any(map(is_gang, replica.spec.engines)):
        serving = {
            labels.KSERVE_SERVICE: service,
            labels.KSERVE_PART: "llminferenceservice",
            labels.KSERVE_COMPONENT: "workload",
        }
    pods: Mapping[str, str] = {labels.WORKLOAD: name}
    if is_gang(engine):
        groups = _GROUPS if _primary(replica, engine) is engine else _PREFILL_GROUPS
        pods = {labels.LWS_NAME: service + groups}
    return Marks(pods, {labels.LWS_WORKER_INDEX: "0"}, _NO_LEADER, serving)


def _service(workload: Workload, claims: Claims) -> Object:
    """Return the LLMInferenceService of an engine; in mode PrefillDecode, of both."""
    replica, engine = workload.replica, workload.engine
    spec: dict[str, Any] = {**_model(workload), **_side(workload, claims)}
    if prefill := _prefill(replica, engine):
        name = child_name(replica.metadata.name, prefill.name)
        other = replace(
            workload, engine=prefill, name=name, marks=_marks(replica, prefill, name), port=ENGINE_PORT
        )
        claimed = {member.role: claim_template(other, member) for member in prefill.members}
        spec["prefill"] = _side(other, claimed)
    return {
        "apiVersion": LLM_INFERENCE_SERVICE.api_version,
        "kind": LLM_INFERENCE_SERVICE.kind,
        "metadata": workload.metadata(service_name(replica, engine)),
        "spec": spec,
    }


def _model(workload: Workload) -> dict[str, Any]:
    """Return the model: the volume of the cache, which KServe mounts, or what the engine itself loads."""
    if cache := workload.replica.spec.model_cache_ref:
        return {"model": {"uri": f"pvc://{staging_sources.name_claim(workload.namespace, cache.name)}"}}
    named = find_model_argument(head(workload.engine).template.spec.engine) or ""
    # KServe requires a URI, and without its initializer only shows it. One that is none would keep its
    # controller from reading any LLMInferenceService of the cluster.
    shown = _NOT_IN_URI.sub("-", named)[:_LONGEST_URI].strip("/-") or workload.engine.name
    return {"model": {"uri": f"hf://{shown}"}, "storageInitializer": {"enabled": False}}


def _side(workload: Workload, claims: Claims) -> dict[str, Any]:
    """Return the part of one engine: its copies, pods and parallelism."""
    leader, worker = workload.head, workload.follower
    own = pod_template(workload, leader, claims[leader.role])
    part: dict[str, Any] = {"replicas": workload.engine.copies, "template": pod_spec(workload, leader, own)}
    if worker is not None:
        part["worker"] = pod_spec(workload, worker, pod_template(workload, worker, claims[Role.WORKER]))
        found = parallelism(leader.template.spec.engine)
        is_former = workload.form <= Form.V0_8
        nodes = sum(member.pods for member in workload.engine.members)
        part["parallelism"] = block_until_0_8(found) if is_former else block(found, nodes)
        return part
    part["labels"] = own["metadata"]["labels"]
    if annotations := own["metadata"].get("annotations"):
        part["annotations"] = annotations
    return part


KSERVE = Backend(
    _key,
    lambda _engine: True,
    _service,
    LLM_INFERENCE_SERVICE,
    "with the backend KServe",
    choice=ServingBackend.KSERVE,
    heads=lambda replica, engine: _primary(replica, engine) is engine,
    marks=_marks,
    rejected=rejected,
)
