"""Deployments with settings that KServe cannot express, and clusters that run them with it.

One rule: a deployment is warned of if a cluster among the objects has the backend KServe and the labels that
it selects. It may still be placed on another cluster.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from modelplane.api.fields.pods.engines import ServingBackend
from modelplane.api.kinds import MODEL_DEPLOYMENT
from modelplane.offline.files.diagnostics import Problem, Severity
from modelplane.offline.files.manifest_objects import Manifest
from modelplane.offline.lint.advice import Configs

if TYPE_CHECKING:
    from modelplane.api.model_deployment import ReplicaTemplate
    from modelplane.api.rejected import Rejected


class Check(msgspec.Struct):
    """The deployments, and the clusters with the backend KServe, of the objects read so far."""

    _clusters: dict[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """Their labels, by name."""
    _deployments: "list[tuple[Manifest, ReplicaTemplate]]" = msgspec.field(default_factory=list)

    def read(self, manifest: Manifest, decoded: Any) -> None:
        """Remember a cluster with the backend KServe, or a deployment."""
        if manifest.kind is MODEL_DEPLOYMENT:
            self._deployments.append((manifest, decoded.replica_template()))
        elif decoded.spec.serving_stack.backend is ServingBackend.KSERVE:
            self._clusters[decoded.metadata.name] = decoded.metadata.labels

    def find_problems(self, _configs: Configs) -> Iterator[Problem]:
        """Warn of each deployment that may be placed on a cluster which cannot run it."""
        clusters = sorted(self._clusters.items())
        for manifest, template in self._deployments:
            selector = template.cluster_selector.items()
            cluster = next((name for name, labels in clusters if selector <= labels.items()), "")
            if cluster and (rejected := _check(template)):
                message = f'InferenceCluster "{cluster}" has the backend KServe: {rejected.message}'
                yield replace(manifest.report(("spec",), message), severity=Severity.WARNING)


def _check(template: "ReplicaTemplate") -> "Rejected | None":
    """Return the first setting that KServe cannot express; None if it can express all."""
    from modelplane.compose.replica.backends.kserve_pods import rejections  # noqa: PLC0415 - heavy, and rarely used

    return next(rejections(template.engines), None)
