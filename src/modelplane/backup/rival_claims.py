"""Claims: what only the oldest of several objects gets, so that a restore must keep their order.

A restored object is as old as its restore. Without this, a team that copied the hash of another team's key
could have the key after a restore.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.meta import kind_name
from modelplane.api.model_key import ModelKey


def claims_of(item: Mapping[str, Any]) -> frozenset[str]:
    """Return what an object claims: the hashes of a key, the target of an autoscaler."""
    return frozenset(_claims(item))


def _claims(item: Mapping[str, Any]) -> Iterator[str]:
    spec = item.get("spec")
    if not isinstance(spec, Mapping):
        return
    if item["kind"] == kind_name(ModelKey):
        hashes = spec.get("hashes")
        for each in hashes if isinstance(hashes, list) else ():
            if isinstance(each, Mapping):
                yield f"hash {each.get('sha256')}"
    target = spec.get("deploymentRef")
    if item["kind"] == kind_name(InferenceAutoscaler) and isinstance(target, Mapping):
        yield f"target {item['metadata'].get('namespace')}/{target.get('name')}"
