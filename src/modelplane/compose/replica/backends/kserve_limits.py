"""Limits of KServe: the settings of a replica that an LLMInferenceService cannot express."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.containers import PodSpec
from modelplane.api.fields.pods.engines import MemberPods
from modelplane.api.model_deployment import Engine
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends.gang import is_gang
from modelplane.compose.replica.backends.kserve_pods import MOST_OF_VOLUME, NAMES_OF_PRESETS, entrypoint

_TEMPLATE: Final = "{{"
"""Begins an expression of Go's templates, which KServe expands in every field of an LLMInferenceService."""

_OF_KSERVE: Final = (
    "app.kubernetes.io/",
    "internal.serving.kserve.io/",
    "kserve.io/",
    "kueue.x-k8s.io/",
    "llm-d.ai/",
    "serving.kserve.io/",
)
"""Prefixes of labels and annotations by which KServe selects pods or takes instructions."""

_Engine: TypeAlias = Engine | PlacedEngine
"""An engine before or after placement."""

_OTHERWISE: Final = "or use a cluster with the backend Modelplane"


def rejected(replica: ModelReplica) -> Rejected | None:
    """Return the first setting that KServe cannot express; None if it can express all."""
    queue = replica.spec.pod_scheduler
    if queue and (queue.labels or queue.annotations) and any(map(is_gang, replica.spec.engines)):
        key = min((*queue.labels, *queue.annotations))
        return _reject(
            "KServe",
            f'passes label or annotation "{key}" of spec.podScheduler on to no pod of a gang',
            f"remove it from the InferenceCluster, {_OTHERWISE}",
        )
    return next(rejections(replica.spec.engines), None)


def _reject(subject: str, detail: str, remedy: str) -> Rejected:
    return Rejected(Reason.UNSUPPORTED_TOPOLOGY, subject, detail, remedy)


def rejections(engines: Sequence[_Engine]) -> Iterator[Rejected]:
    """Yield each setting of engines that KServe cannot express."""
    if (
        len(engines) > 1
        and any(map(is_gang, engines))
        and all(placed_engine.phase is None for placed_engine in engines)
    ):
        yield _reject(
            "KServe",
            "gives the pods of gangs no labels, so one route cannot lead to several engines with a gang "
            "among them",
            f"give each a deployment of its own, {_OTHERWISE}",
        )
    for engine in engines:
        yield from _of_engine(engine)


def _of_engine(engine: _Engine) -> Iterator[Rejected]:
    named = f'engine "{engine.name}"'
    for member in engine.members:
        yield from _of_pods(named, engine, member)


def _of_pods(named: str, engine: _Engine, member: MemberPods) -> Iterator[Rejected]:
    spec = member.template.spec
    yield from _of_author(named, spec)
    if not entrypoint(spec.engine):
        yield _reject(
            f"{named}: KServe's presets",
            "replace the entrypoint of an image",
            f"write the command, {_OTHERWISE}",
        )
    if any(_TEMPLATE in text for text in _texts(msgspec.to_builtins(member.template))):
        yield _reject(
            named,
            f'has a text with "{_TEMPLATE}", which KServe would expand as a template',
            f"remove it, {_OTHERWISE}",
        )
    metadata = member.template.metadata
    keys = sorted({*metadata.labels, *metadata.annotations})
    if keys and is_gang(engine):
        yield _reject(
            f"{named}: KServe",
            f'passes label or annotation "{keys[0]}" on to no pod of a gang',
            f"remove it, {_OTHERWISE}",
        )
    for key in keys:
        if key.startswith(_OF_KSERVE):
            yield _reject(f'{named}: label or annotation "{key}"', "is KServe's", "remove it")


def _of_author(named: str, spec: PodSpec) -> Iterator[Rejected]:
    names = {container.name for container in (*spec.init_containers, *spec.others)}
    for name in sorted(names & NAMES_OF_PRESETS):
        yield _reject(f'{named}: container "{name}"', "has a name that KServe uses itself", "use another one")
    for volume in spec.volumes:
        if len(volume.name) > MOST_OF_VOLUME:
            yield _reject(
                f'{named}: the name of volume "{volume.name}"',
                f"has more than {MOST_OF_VOLUME} characters, which are all that KServe's leave room for",
                "shorten it",
            )
    engine = spec.engine
    for probe in (engine.startup_probe, engine.readiness_probe, engine.liveness_probe):
        if probe is not None and probe.http_get is None:
            yield _reject(
                f"{named}: the probes of KServe's presets",
                "are by HTTP, and a probe of another kind cannot replace one",
                f"use httpGet, {_OTHERWISE}",
            )


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, dict):
        return (text for pair in value.items() for item in pair for text in _texts(item))
    if isinstance(value, list | tuple):
        return (text for item in value for text in _texts(item))
    return ()
