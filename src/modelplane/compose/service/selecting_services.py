"""Selecting services: the ModelServices of a namespace that select a deployment, found by labels.

A namespace may have a thousand of each, and autoscalers ask every two seconds. So a selector is filed under
the rarest of its labels, and only selectors under a label of the deployment are compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from modelplane.api.meta import Object
from modelplane.api.model_service import ModelService
from modelplane.compose.memo import PerVersion, per_version, readable
from modelplane.compose.service.hold import find_endpoint_labels, without_placement

MOST_COMPARED = 128
"""Selectors that are compared with the labels of one deployment. A team pays for its own selectors alone."""

_Label = tuple[str, str]
_Selector = frozenset[_Label]


class SelectingServices:
    """The services of one namespace."""

    def __init__(self, services: Sequence[Object]) -> None:
        self.services = services
        self._filed: defaultdict[_Label | None, list[tuple[str, _Selector]]] = defaultdict(list)
        """Selectors with the names of their services, by a label; None for those without labels."""
        self._found: PerVersion[tuple[str, ...] | TooMany] = PerVersion()
        filed = [
            (service["metadata"]["name"], selector)
            for service in services
            for selector in _selectors(service)
        ]
        uses = Counter(label for _, selector in filed for label in selector)
        for name, selector in filed:
            rarest = min(selector, key=lambda label: (uses[label], label), default=None)
            self._filed[rarest].append((name, selector))

    def of(self, deployment: Object) -> "tuple[str, ...] | TooMany":
        """Return the names of the services that select a deployment, or may: its labels can be unreadable."""
        metadata = deployment["metadata"]
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        found = self._found.recall(uid, version)
        if found is None:
            found = self._compare(find_endpoint_labels(deployment))
            self._found.keep(uid, version, found)
        return found

    def _compare(self, known: Mapping[str, str] | None) -> "tuple[str, ...] | TooMany":
        labels = frozenset(known.items()) if known is not None else None
        under: Iterable[_Label | None] = self._filed if labels is None else (None, *labels)
        filed = [self._filed[label] for label in under if label in self._filed]
        if sum(map(len, filed)) > MOST_COMPARED:
            return TooMany()
        matches = (row for part in filed for row in part if labels is None or row[1] <= labels)
        return tuple(dict.fromkeys(name for name, _ in matches))


class TooMany:
    """More selectors may select a deployment than are compared."""

    def __str__(self) -> str:
        return (
            f"more than {MOST_COMPARED} ModelService selectors use the deployment's labels: select by "
            "modelplane.ai/deployment, or delete some selectors"
        )


@per_version
def _selectors(service: Mapping[str, Any]) -> tuple[_Selector, ...]:
    """Return what each selector of a service demands; nothing for a service that cannot be read."""
    return tuple(
        frozenset(without_placement(entry.selector.match_labels))
        for decoded in readable(ModelService)(service)
        for entry in decoded.spec.endpoints
    )
