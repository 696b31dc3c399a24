"""Contexts that are longer than the model's, if its ``config.json`` is at hand.

One rule: what engines would refuse is reported, and nothing where the model, its configuration or a value is
not known. A model is that of an engine's command line, else of the ModelCache among the objects.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from modelplane.api.kinds import MODEL_CACHE, MODEL_DEPLOYMENT
from modelplane.api.model_deployment import ModelDeployment
from modelplane.offline.files.diagnostics import Problem, Severity
from modelplane.offline.files.manifest_objects import Manifest

if TYPE_CHECKING:
    from modelplane.offline.lint.context_advice import Configs, Repo


class ContextLengths(msgspec.Struct):
    """The deployments and caches of the objects read so far."""

    configs: "Configs"
    _deployments: list[tuple[Manifest, ModelDeployment]] = msgspec.field(default_factory=list)
    _caches: "dict[tuple[str, str], Repo]" = msgspec.field(default_factory=dict)

    def read(self, manifest: Manifest) -> None:
        """Remember a deployment, or a cache of a repository of the hub."""
        decoded = manifest.decoded(MODEL_CACHE, MODEL_DEPLOYMENT)
        if decoded is None:
            return
        if manifest.kind is MODEL_DEPLOYMENT:
            self._deployments.append((manifest, decoded))
        elif hub := decoded.spec.hugging_face:
            key = (decoded.metadata.namespace or "", decoded.metadata.name)
            self._caches[key] = (hub.repo, hub.revision or "")

    def problems(self) -> Iterator[Problem]:
        """Warn of each engine whose context is longer than its model's."""
        if not self._deployments:
            return
        from modelplane.offline.lint.context_advice import warnings  # noqa: PLC0415  reads tables of flags

        for manifest, deployment in self._deployments:
            for path, message in warnings(deployment, self._cached(deployment), self.configs):
                yield replace(manifest.problem(path, message), severity=Severity.WARNING)

    def _cached(self, deployment: ModelDeployment) -> "Repo | None":
        template = deployment.spec.template
        settings = deployment.spec if template is None else template.spec
        if settings.model_cache_ref is None:
            return None
        return self._caches.get((deployment.metadata.namespace or "", settings.model_cache_ref.name))
