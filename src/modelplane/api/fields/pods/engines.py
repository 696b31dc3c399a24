"""Engines of a replica, and the pods of an engine.

Common to ModelDeployment, which declares them, and ModelReplica, which has them with their placement. The
topology rules are the same for both.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from modelplane.api import labels
from modelplane.api.fields.pods.containers import PodSpec
from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_LABEL, QUALIFIED_KEYS, LabelValue, Rule, about


class ServingBackend(StrEnum):
    """Software that creates the pods of engines."""

    MODELPLANE = "Modelplane"
    KSERVE = "KServe"


class Scorer(StrEnum):
    """A criterion for choosing a pod."""

    PREFIX_CACHE = "PrefixCache"
    QUEUE = "Queue"
    KV_CACHE_UTILIZATION = "KVCacheUtilization"


class WeightedScorer(Model):
    """A scorer and a weight."""

    type: Annotated[
        Scorer,
        about(
            "Criterion for choosing a pod. PrefixCache: the longest cached prefix. Queue: the "
            "fewest waiting requests. KVCacheUtilization: the least used KV cache."
        ),
    ]
    weight: Annotated[int, about("Weight of the score, relative to the others.", ge=1, le=100)] = 1


class Picker(Model):
    """Settings of the endpoint picker."""

    scorers: Annotated[
        tuple[WeightedScorer, ...],
        about(
            "Scorers that choose a pod. Default: PrefixCache with weight 2 and Queue with weight 1.",
            max_length=3,
            keys=("type",),
        ),
    ] = ()
    prefill_scorers: Annotated[
        tuple[WeightedScorer, ...],
        about(
            "Scorers that choose the prefill pod in mode PrefillDecode. Default: the same as scorers.",
            max_length=3,
            keys=("type",),
        ),
    ] = ()
    non_cached_tokens: (
        Annotated[
            int,
            about(
                "Minimum number of prompt tokens not cached by the decode pod for which a prefill "
                "pod is used, in mode PrefillDecode. Default: 16.",
                ge=1,
                le=1048576,
            ),
        ]
        | None
    ) = None


ENGINE_PORT = 8000
"""Port on which a replica's pods serve HTTP."""


class ServingMode(StrEnum):
    """Modes of serving a request: one engine serves the whole request, or two engines serve one phase
    each."""

    UNIFIED = "Unified"
    PREFILL_DECODE = "PrefillDecode"


class Routing(StrEnum):
    """The component that chooses the pod for a request."""

    SERVICE = "Service"
    ENDPOINT_PICKER = "EndpointPicker"


class Phase(StrEnum):
    """The phase of a request that an engine serves in mode PrefillDecode."""

    PREFILL = "Prefill"
    DECODE = "Decode"


class Role(StrEnum):
    """Role of a pod in an engine."""

    STANDALONE = "Standalone"
    LEADER = "Leader"
    WORKER = "Worker"


RESERVED_PREFIX = Rule(
    f"self.all(key, !key.startsWith('{labels.PREFIX}'))",
    f"keys under {labels.PREFIX} are set by Modelplane: use a prefix of your own",
)


class PodMetadata(Model):
    """Labels and annotations to add to the pods."""

    labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels of the pods. Labels that Modelplane sets take precedence.",
            max_length=32,
            rules=(RESERVED_PREFIX, QUALIFIED_KEYS),
        ),
    ] = {}
    annotations: Annotated[
        Mapping[str, Annotated[str, about("Value of an annotation.", max_length=8192)]],
        about("Annotations of the pods.", max_length=32, rules=(QUALIFIED_KEYS,)),
    ] = {}


class PodTemplate(Model):
    """Template of the pods of a member."""

    metadata: Annotated[PodMetadata, about("Labels and annotations of the pods.")] = PodMetadata()
    spec: Annotated[PodSpec, about("Containers, volumes, and image pull Secrets.")]


class WorkerSize(Model):
    """Size of a gang, without the leader."""

    nodes: Annotated[
        int, about("Number of worker pods, one per node. The leader runs on an additional node.", ge=1, le=63)
    ]


class Connector(StrEnum):
    """Mechanism that transfers the KV cache from prefill to decode."""

    NIXL = "NIXL"
    LMCACHE = "LMCache"
    MOONCAKE = "Mooncake"
    SGLANG = "SGLang"


class Serving(Model):
    """Settings for serving and routing requests."""

    __rules__ = (
        Rule(
            "!has(self.connector) || self.mode == 'PrefillDecode'",
            "connector belongs to mode PrefillDecode: set that mode or remove connector",
        ),
        Rule(
            "!has(self.picker) || self.mode == 'PrefillDecode' "
            "|| has(self.routing) && self.routing == 'EndpointPicker'",
            "picker belongs to routing EndpointPicker: set that routing or remove picker",
        ),
        Rule(
            "!has(self.picker) || self.mode == 'PrefillDecode' "
            "|| !has(self.picker.prefillScorers) && !has(self.picker.nonCachedTokens)",
            "prefillScorers and nonCachedTokens belong to mode PrefillDecode: remove them",
        ),
        Rule(
            "self.mode != 'PrefillDecode' || !has(self.routing) || self.routing == 'EndpointPicker'",
            "mode PrefillDecode routes by endpoint picker: remove routing or set it to EndpointPicker",
        ),
    )

    mode: Annotated[
        ServingMode,
        about(
            "Serving mode. Unified: each engine serves whole requests. PrefillDecode: one engine "
            "serves each phase, and the KV cache is transferred between them."
        ),
    ] = ServingMode.UNIFIED
    routing: (
        Annotated[
            Routing,
            about(
                "How requests are routed inside a replica. Service: to any copy of the engine. "
                "EndpointPicker: to the copy that a picker chooses by cached prefixes and queue "
                "length. Default: EndpointPicker with PrefillDecode, otherwise Service."
            ),
        ]
        | None
    ) = None
    connector: (
        Annotated[
            Connector,
            about(
                "How the KV cache is transferred from prefill to decode in mode PrefillDecode. If "
                "set, Modelplane adds the engine flags that you haven't set. NIXL, LMCache, and "
                "Mooncake are connectors of vLLM. SGLang is the disaggregation of SGLang. Default: "
                "NIXL, and you set the engine flags."
            ),
        ]
        | None
    ) = None
    picker: (
        Annotated[Picker, about("Settings of the endpoint picker, if routing is EndpointPicker.")] | None
    ) = None

    @property
    def picks(self) -> bool:
        """True if an endpoint picker chooses the pod of a request."""
        return self.mode is ServingMode.PREFILL_DECODE or self.routing is Routing.ENDPOINT_PICKER


PHASE_RULES = (
    Rule(
        "!(has(self.serving) && self.serving.mode == 'PrefillDecode') || !has(self.engines) || "
        "(size(self.engines) == 2 && self.engines.exists_one(e, has(e.phase) && e.phase == 'Prefill') && "
        "self.engines.exists_one(e, has(e.phase) && e.phase == 'Decode'))",
        "serving.mode PrefillDecode needs two engines: one with phase Prefill and one with phase Decode",
    ),
    Rule(
        "(has(self.serving) && self.serving.mode == 'PrefillDecode') || !has(self.engines) || "
        "self.engines.all(e, !has(e.phase))",
        "phase belongs to serving.mode PrefillDecode: set that mode or remove phase from the engines",
    ),
)
"""On the object that has both ``serving`` and ``engines``."""

ROLE_RULE = Rule(
    "size(self.members) == 1 ? self.members[0].role == 'Standalone' : "
    "self.members.exists_one(m, m.role == 'Leader') && self.members.exists_one(m, m.role == 'Worker')",
    "an engine has either one Standalone member, or one Leader and one Worker",
)
"""On an engine."""

WORKER_RULE = Rule(
    "!has(self.worker) || self.role == 'Worker'",
    "worker.nodes sizes a gang: set it on the member with role Worker only",
)
"""On a member."""

SERVICE_NAME_RULES = (
    Rule(
        "!self.metadata.name.contains('.')",
        "metadata.name must not contain a dot: Services are named after it",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]')",
        "metadata.name must begin with a letter: Services are named after it",
    ),
)
"""On the object: a Service has the name of a DNS label that begins with a letter (RFC 1035)."""


class MemberPods(Model):
    """Fields that members have before and after placement."""

    role: Annotated[
        Role,
        about(
            "Role in the engine. Standalone: the engine is a single pod. Leader and Worker: the "
            "engine is a gang of one leader and workers."
        ),
    ] = Role.STANDALONE
    worker: (
        Annotated[
            WorkerSize,
            about("Size of the gang. Set on the member with role Worker. Default: one worker node."),
        ]
        | None
    ) = None
    template: Annotated[PodTemplate, about("Template of the member's pods.")]

    @property
    def pods(self) -> int:
        """Number of pods of one copy of the engine that are of this member."""
        return self.worker.nodes if self.role is Role.WORKER and self.worker else 1


class EngineShape(Model):
    """Fields of an engine before and after placement."""

    name: Annotated[
        str,
        about(
            "Name of the engine: a DNS label. Workload names contain it.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ]
    copies: Annotated[
        int,
        about("Number of identical copies of the engine in each replica.", ge=1, le=64),
    ] = 1
    phase: (
        Annotated[Phase, about("Phase that the engine serves. Only for serving.mode PrefillDecode.")] | None
    ) = None
