"""Keys below ``modelplane.ai/`` that objects of a kind have, and others that selectors name."""

from collections.abc import Iterator, Mapping
from typing import Final

from modelplane.api import labels
from modelplane.offline.files.diagnostics import Path, find_nearest
from modelplane.offline.lint.advice import Advice

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "InferenceCluster": tuple(
        f"{labels.PREFIX}{name}" for name in ("cloud", "provider", "region", "tier", "zone")
    ),
    "ModelEndpoint": (
        labels.CLUSTER,
        labels.DEPLOYMENT,
        labels.REPLICA_INDEX,
        f"{labels.PREFIX}external-provider",
    ),
}
"""Keys below ``modelplane.ai/`` that objects of a kind have: Modelplane's own, and the documented ones."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    labels.CLUSTER: "ModelReplicas and ModelEndpoints",
    labels.DEPLOYMENT: "ModelReplicas and ModelEndpoints",
    labels.REPLICA_INDEX: "ModelReplicas and ModelEndpoints",
    labels.REVISION: "ModelReplicas",
    labels.SERVING: "pods",
    labels.WORKLOAD: "pods",
    labels.LWS_ROLE: "pods",
    labels.POOL: "nodes",
    labels.GPU: "nodes",
}
"""Objects that have a label of Modelplane's, by label."""


def check_keys(path: Path, selected: Mapping[str, str], kind: str) -> Iterator[Advice]:
    """Warn of the keys of a selector that objects of a kind do not have."""
    keys = _LABELS[kind]
    for key in selected:
        if not key.startswith(labels.PREFIX) or key in keys:
            continue
        if key in _ELSEWHERE:
            message = f"{key} is a label of {_ELSEWHERE[key]}, not of {kind}s: use another label"
        else:
            near = find_nearest(_bare(key), map(_bare, keys), 0.8)
            meant = f"; did you mean {labels.PREFIX}{near}?"
            remedy = meant if near else ": use a label with your own prefix"
            message = f"{key} is not a known label of {kind}s{remedy}"
        yield Advice((*path, key), message, at_key=True)


def _bare(key: str) -> str:
    return key.removeprefix(labels.PREFIX)
