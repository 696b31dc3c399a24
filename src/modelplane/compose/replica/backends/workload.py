"""Workload: one engine of a replica, with its name, members, port and claims.

Names do not depend on the content, except for immutable objects.
"""

import hashlib
from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.api.fields.cluster.node_pools import NodeTaint
from modelplane.api.fields.pods.engines import ENGINE_PORT, Phase, Role
from modelplane.api.fields.pods.pod_scheduler import PodScheduler
from modelplane.api.meta import Object
from modelplane.api.model_deployment import Engine
from modelplane.api.model_replica import ModelReplica, PlacedEngine, PlacedMember
from modelplane.api.names import child_name
from modelplane.api.schema.untyped import get_map
from modelplane.compose.readiness import condition_of

HEALTH_PATH = "/health"
"""Path at which an engine answers once it can serve."""

_HASH_DIGITS = 10

_PRESETS: Final = "PresetsCombined"
"""The condition of an LLMInferenceService that tells whether KServe has found its presets."""


class Form(IntEnum):
    """Versions of Modelplane that added different fields to pods, each the last of its form."""

    V0_2 = auto()
    V0_3 = auto()
    V0_8 = auto()
    LATEST = auto()


FORMER: Final = tuple(form for form in reversed(Form) if form is not Form.LATEST)
"""The forms of earlier versions, the newest first."""


class Marks(msgspec.Struct, frozen=True):
    """Labels by which the pods of an engine are found."""

    pods: Mapping[str, str]
    """On every pod of the engine."""
    leader: Mapping[str, str]
    """On the leaders of a gang, beside those."""
    others: Mapping[str, object]
    """Expression of a selector that matches every pod but leaders."""
    serving: Mapping[str, str]
    """On the pods of the whole replica that take requests."""


class Workload(msgspec.Struct, frozen=True):
    """One engine of a replica, placed on a cluster."""

    replica: ModelReplica
    engine: PlacedEngine
    name: str
    """The name of what runs the engine."""
    marks: Marks
    """Labels by which its pods are found."""
    port: int = ENGINE_PORT
    """Port of the engine itself; another one if a sidecar has the pod's."""
    taints: Mapping[str, tuple[NodeTaint, ...]] = {}
    """Taints of the nodes, by pool."""
    copies: Mapping[tuple[str, str], str] = {}
    """Names of Secrets and ConfigMaps on the cluster, by kind and name of the original."""
    form: Form = Form.LATEST
    """The fields that Modelplane adds to the pods."""

    @property
    def hardened(self) -> bool:
        """True if the pods have security contexts, and copies of Secrets and ConfigMaps."""
        return self.form > Form.V0_2

    @property
    def namespace(self) -> str:
        """The namespace on the cluster, named like the replica's own."""
        return self.replica.metadata.namespace

    def name_of(self, kind: str, name: str) -> str:
        """Return the name on the cluster of a Secret or ConfigMap that the pods name.

        An optional one without an original has the name of its copy, which does not exist.
        """
        absent = part_name(self.replica, reference_key(kind, name)) if self.hardened else name
        return self.copies.get((kind, name), absent)

    @property
    def scheduler(self) -> PodScheduler:
        """The scheduler of the pods."""
        return self.replica.spec.pod_scheduler or PodScheduler()

    def metadata(self, name: str = "") -> dict[str, Any]:
        """Return the metadata of what runs the engine; its queue, if it has one, is a label."""
        queue = dict(self.scheduler.labels)
        named = {"name": name or self.name, "namespace": self.namespace}
        return {**named, "labels": queue} if queue else named

    @property
    def head(self) -> PlacedMember:
        """The member that serves requests: the only one, or the leader."""
        return head(self.engine)

    @property
    def follower(self) -> PlacedMember | None:
        """The workers of a gang."""
        return next((member for member in self.engine.members if member.role is Role.WORKER), None)

    @property
    def phase(self) -> Phase | None:
        """The phase that the engine serves; None if it serves whole requests."""
        return self.engine.phase


def head(engine: PlacedEngine) -> PlacedMember:
    """Return the member of an engine that serves requests."""
    return next(member for member in engine.members if member.role is not Role.WORKER)


def is_gang(engine: Engine | PlacedEngine) -> bool:
    """Return True if an engine, before or after its placement, has a Leader and a Worker."""
    return len(engine.members) > 1


def picks(replica: ModelReplica) -> bool:
    """Return True if an endpoint picker chooses the pod of each request."""
    return replica.spec.serving is not None and replica.spec.serving.picks


def part_name(replica: ModelReplica, part: str) -> str:
    """Return the name of an object that a replica has one of.

    No engine's workload has this name, because the name of an engine does not begin with a dash.
    """
    return child_name(replica.metadata.name, "", part)


def reference_key(kind: str, name: str) -> str:
    """Return the key of the copy of a Secret or ConfigMap."""
    return f"{kind.lower()}-{name}"


def with_spec_hash(manifest: Object) -> Object:
    """Return the manifest of a workload with a hash of its spec, by which an applied edit is recognized."""
    content = msgspec.json.encode(manifest["spec"], order="deterministic")
    annotations = {labels.SPEC_HASH: hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def spec_hash(workload: Object) -> str:
    """Return the hash that a workload was written with; empty if it has none."""
    return str(get_map(workload, "metadata", "annotations").get(labels.SPEC_HASH, ""))


def is_former(observed: Object, former: Object) -> bool:
    """Return True if a workload was written as an earlier version composed it, and still is to be.

    Its pods would be replaced only for the fields that later versions add. The number of its copies may
    change, which replaces none. One that KServe makes no pods of, for want of a preset, has none to replace.
    """
    if condition_of(observed, _PRESETS).get("status") == "False":
        return False
    replicas = observed.get("spec", {}).get("replicas", former["spec"]["replicas"])
    written = with_spec_hash({**former, "spec": {**former["spec"], "replicas": replicas}})
    return spec_hash(observed) == spec_hash(written)


def claim_template(workload: Workload, member: PlacedMember) -> Object | None:
    """Return the ResourceClaimTemplate of a member's pods; None if it claims nothing.

    A template is immutable, so its name ends in a hash of its content and a change is a new template.
    """
    if not member.device_requests:
        return None
    spec = {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": request.device_class_name,
                            "count": request.count,
                            "selectors": [
                                {"cel": {"expression": selector.cel}} for selector in request.selectors
                            ],
                        },
                    }
                    for request in member.device_requests
                ]
            }
        }
    }
    role = member.role.lower()
    name = child_name(
        workload.replica.metadata.name, workload.engine.name, role, "devices", content_hash(spec)
    )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": workload.namespace},
        "spec": spec,
    }


def content_hash(content: object) -> str:
    """Return a hash of some content, the suffix of the name of an immutable object."""
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
