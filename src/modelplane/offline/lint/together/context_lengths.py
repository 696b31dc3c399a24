"""Contexts that are longer than the model's, if its ``config.json`` is at hand.

One rule: what engines would refuse is reported, and nothing where the model, its configuration or a value is
not known. A model is that of an engine's command line, else of the ModelCache among the objects.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from modelplane.api.kinds import MODEL_DEPLOYMENT
from modelplane.api.model_deployment import ModelDeployment
from modelplane.offline.files.diagnostics import Problem, Severity
from modelplane.offline.files.manifest_objects import Manifest
from modelplane.offline.lint.advice import Configs
from modelplane.offline.lint.deployment_parts import find_settings

if TYPE_CHECKING:
    from modelplane.offline.lint.together.context_advice import EngineAt, Repo


class Check(msgspec.Struct):
    """The deployments and caches of the objects read so far."""

    _deployments: "list[tuple[Manifest, ModelDeployment, list[EngineAt]]]" = msgspec.field(
        default_factory=list
    )
    _caches: "dict[tuple[str, str], Repo]" = msgspec.field(default_factory=dict)

    def read(self, manifest: Manifest, decoded: Any) -> None:
        """Remember a deployment, or a cache of a repository of the hub."""
        if manifest.kind is MODEL_DEPLOYMENT:
            from modelplane.offline.lint.together.context_advice import find_engines  # noqa: PLC0415  as few objects have an engine

            self._deployments.append((manifest, decoded, list(find_engines(decoded))))
        elif hub := decoded.spec.hugging_face:
            key = (decoded.metadata.namespace or "", decoded.metadata.name)
            self._caches[key] = (hub.repo, hub.revision or "")

    def find_problems(self, configs: Configs) -> Iterator[Problem]:
        """Warn of each engine whose context is longer than its model's."""
        for manifest, deployment, engines in self._deployments:
            cached = self._cached(deployment)
            for engine in engines:
                for path, message in engine.warn(cached, configs):
                    yield replace(manifest.report(path, message), severity=Severity.WARNING)

    def _cached(self, deployment: ModelDeployment) -> "Repo | None":
        _, settings = find_settings(deployment)
        if settings.model_cache_ref is None:
            return None
        return self._caches.get((deployment.metadata.namespace or "", settings.model_cache_ref.name))
