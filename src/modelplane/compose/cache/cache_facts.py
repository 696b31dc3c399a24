"""Facts of a cache: what Crossplane alone knows of the objects on its clusters."""

from typing import TypeAlias

import msgspec

from modelplane.api.model_cache import ModelCache
from modelplane.compose.composition import Request


class CacheFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelCache reads beside objects."""

    unobserved: frozenset[str] = frozenset()
    """Keys of children that were created and whose state is not known yet."""


CacheRequest: TypeAlias = Request[ModelCache, CacheFacts]
