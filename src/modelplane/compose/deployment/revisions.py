"""Revisions of a deployment's template, each a ControllerRevision (apps/v1) that the deployment owns.

The one of the current template has the highest number. A template that returns gets a new number.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.fields.pods.engines import Serving
from modelplane.api.meta import LocalReference, Object
from modelplane.api.model_deployment import ModelDeployment, ReplicaSpec, ReplicaTemplate
from modelplane.compose.composition import Desired, Keep, keep_all
from modelplane.compose.readiness import exists
from modelplane.compose.workload_kinds import CONTROLLER_REVISION

_KEY = "revision-"
_LAST_NUMBER = 2**63 - 1
"""The largest number that the API server stores."""

_DIGITS = 10
"""Of the hash of a template."""


def revision(template: ReplicaTemplate) -> str:
    """Return a hash of the parts of a template that shape its replicas; placement is not included."""
    content = (template.engines, template.model_cache_name, template.serving_settings)
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:_DIGITS]


def is_revision(child: Object) -> bool:
    """Return True if a child is a revision."""
    return bool(child["kind"] == CONTROLLER_REVISION.kind)


def get_revision_number(child: Object) -> int:
    """Return the number of a revision."""
    return int(child.get("revision", 0))


def revision_name(owner: ModelDeployment, revision_hash: str) -> str:
    """Return the name of the ControllerRevision of a revision."""
    return f"{owner.metadata.name}-{revision_hash}"


def template_of(revision_hash: str, observed: Mapping[str, Object]) -> Object | None:
    """Return the fields of the template of a revision; None if there is no such revision."""
    child = observed.get(_KEY + revision_hash)
    found = child["data"].get("spec") if child and is_revision(child) and child.get("data") else None
    return found if isinstance(found, dict) else None


def revisions(owner: ModelDeployment, observed: Mapping[str, Object]) -> Iterator[Desired | Keep]:
    """Yield the revision of the template, and the earlier ones within the limit or in use.

    Without ``spec.rollout`` those that exist stay as they are.
    """
    there = {key: child for key, child in observed.items() if is_revision(child)}
    if owner.spec.rollout is None:
        yield from keep_all(there)
        return
    current = _KEY + revision(owner.replica_template())
    yield Desired(current, _manifest(owner, current, there), exists)
    used = {
        _KEY + child["metadata"].get("labels", {}).get(labels.REVISION, "")
        for child in observed.values()
        if not is_revision(child)
    }
    earlier = sorted(there.keys() - {current}, key=lambda key: get_revision_number(there[key]), reverse=True)
    recent = earlier[: owner.spec.rollout.revision_history_limit]
    yield from (Keep(key) for key in earlier if key in used or key in recent)


def _manifest(owner: ModelDeployment, key: str, there: Mapping[str, Object]) -> Object:
    newest = max((get_revision_number(child) for child in there.values()), default=0)
    own = there.get(key)
    number = newest if own is not None and get_revision_number(own) == newest else newest + 1
    return {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": {
            "name": revision_name(owner, key.removeprefix(_KEY)),
            "namespace": owner.metadata.namespace,
            "labels": {
                labels.DEPLOYMENT: owner.metadata.name,
                labels.REVISION: key.removeprefix(_KEY),
            },
        },
        # Immutable, so that of an existing one stays.
        "data": _data(owner) if own is None else own["data"],
        "revision": min(number, _LAST_NUMBER),
    }


def _data(owner: ModelDeployment) -> dict[str, Any]:
    """Return the fields of the template that shape replicas, as they are written under ``spec``."""
    template = owner.replica_template()
    cache, serving = template.model_cache_name, template.serving_settings
    shape = ReplicaSpec(
        engines=template.engines,
        model_cache_ref=LocalReference(name=cache) if cache else None,
        serving=None if serving == Serving() else serving,
    )
    return {"spec": msgspec.json.decode(msgspec.json.encode(shape))}
