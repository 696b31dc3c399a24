"""Settings of the endpoint picker, which chooses the pod of a replica for each request."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about


class Scorer(StrEnum):
    """A property by which the endpoint picker compares pods."""

    PREFIX_CACHE = "PrefixCache"
    QUEUE = "Queue"
    KV_CACHE_UTILIZATION = "KVCacheUtilization"


class WeightedScorer(Model):
    """A scorer, and its weight."""

    type: Annotated[
        Scorer,
        about(
            "PrefixCache: the longest cached prefix. Queue: the fewest waiting requests. KVCacheUtilization: "
            "the emptiest KV cache."
        ),
    ]
    weight: Annotated[int, about("Weight of the score, relative to the others.", ge=1, le=100)] = 1


class Picker(Model):
    """Settings of the endpoint picker."""

    scorers: Annotated[
        tuple[WeightedScorer, ...],
        about(
            "Scorers that choose a pod. Absent: PrefixCache with weight 2, Queue with weight 1.",
            max_length=3,
            keys=("type",),
        ),
    ] = ()
    prefill_scorers: Annotated[
        tuple[WeightedScorer, ...],
        about(
            "Scorers that choose the prefill pod, in mode PrefillDecode. Absent: those of scorers.",
            max_length=3,
            keys=("type",),
        ),
    ] = ()
    non_cached_tokens: (
        Annotated[
            int,
            about(
                "Tokens of a prompt that the decode pod has not cached, from which on a prefill pod computes "
                "them; for mode PrefillDecode. Absent: 16.",
                ge=1,
                le=1048576,
            ),
        ]
        | None
    ) = None
