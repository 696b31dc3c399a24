"""Choice of the pods of a request: a decode pod, and a prefill pod beside it.

Pods take turns. The program that this stands in for compares cached prefixes and queues.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.gateway.gateway_api import inference_pools
from modelplane.host import addresses

DIVIDING_PLUGIN = "disagg-profile-handler"
"""Plugin of a configuration that has prompts computed by prefill pods."""

_PREFILL, _DECODE = "prefill", "decode"


@dataclass(frozen=True, slots=True)
class Choice:
    """The pods of a request: address and port of each."""

    destination: str
    prefill: str = ""
    """Empty if the destination computes the prompt itself."""


def is_divided(configuration: Mapping[str, Any]) -> bool:
    """Return True if a configuration has prompts computed by other pods than their answers."""
    return any(each.get("type") == DIVIDING_PLUGIN for each in configuration.get("plugins") or ())


class Turns:
    """Pods taking turns."""

    def __init__(self, *, is_divided: bool) -> None:
        self._is_divided = is_divided
        self._turns: Iterator[int] = count()

    def choose(self, pool: Object, pods: Iterable[Object]) -> Choice | None:
        """Return the pods of the next request; None if none can take it."""
        port = int(pool["spec"]["targetPorts"][0]["number"])
        ready = inference_pools.ready(pool, pods)
        turn = next(self._turns)
        if not self._is_divided:
            return Choice(_address(ready, turn, port)) if ready else None
        decode, prefill = (_of_role(role, ready) for role in (_DECODE, _PREFILL))
        if not decode:
            return None
        return Choice(_address(decode, turn, port), _address(prefill, turn, port) if prefill else "")


def _of_role(role: str, pods: Sequence[Object]) -> list[Object]:
    return [pod for pod in pods if pod["metadata"]["labels"].get(labels.LLM_D_ROLE) == role]


def _address(pods: Sequence[Object], turn: int, port: int) -> str:
    # The gateway of this machine knows pods by the addresses that they bind.
    return f"{addresses.bound(pods[turn % len(pods)]['status']['podIP'])}:{port}"
