"""Deployments whose pods have labels, annotations or variables that clusters refuse.

One rule: it is an error if no cluster accepts the pods, of the clusters among the objects that have the
labels which the deployment selects. Without such a cluster, a label or annotation off the list of every
cluster is warned of, because the InferenceCluster may accept it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from modelplane.api.fields.pods.pod_keys import (
    DEFAULT_RULES,
    TEAMS_DOMAIN,
    VARIABLE,
    KeyRules,
    PodPart,
    find_refused,
)
from modelplane.api.kinds import MODEL_DEPLOYMENT
from modelplane.offline.files.diagnostics import Problem, Severity
from modelplane.offline.files.manifest_objects import Manifest
from modelplane.offline.lint.advice import Configs

if TYPE_CHECKING:
    from modelplane.api.model_deployment import ReplicaTemplate


class Check(msgspec.Struct):
    """The deployments and the clusters of the objects read so far."""

    _clusters: dict[str, tuple[Mapping[str, str], KeyRules]] = msgspec.field(default_factory=dict)
    """Their labels, and the keys that they accept, by name."""
    _deployments: "list[tuple[Manifest, ReplicaTemplate]]" = msgspec.field(default_factory=list)

    def read(self, manifest: Manifest, decoded: Any) -> None:
        """Remember a cluster or a deployment."""
        if manifest.kind is MODEL_DEPLOYMENT:
            self._deployments.append((manifest, decoded.replica_template()))
            return
        from modelplane.compose.replica.pod_key_policy import key_rules  # noqa: PLC0415 - heavy

        self._clusters[decoded.metadata.name] = decoded.metadata.labels, key_rules(decoded.spec)

    def find_problems(self, _configs: Configs) -> Iterator[Problem]:
        """Yield one problem for each deployment, which names everything that is refused."""
        for manifest, template in self._deployments:
            if problem := self._problem(template):
                message, severity = problem
                yield replace(manifest.report(("spec",), message), severity=severity)

    def _problem(self, template: "ReplicaTemplate") -> tuple[str, Severity] | None:
        from modelplane.compose.replica.pod_key_policy import parts  # noqa: PLC0415 - heavy, and rarely used

        chosen, selector = parts(template.engines), template.cluster_selector.items()
        if variables := [str(part) for part in find_refused(chosen, DEFAULT_RULES) if part.what == VARIABLE]:
            named = ", ".join(variables)
            return f"no cluster accepts {named} of the pods: request devices in nodeSelector", Severity.ERROR
        refusals = [
            (name, _named(chosen, rules))
            for name, (cluster_labels, rules) in sorted(self._clusters.items())
            if selector <= cluster_labels.items()
        ]
        if refusals and all(named for _, named in refusals):
            name, named = refusals[0]
            others = "" if len(refusals) == 1 else f", nor do the {len(refusals) - 1} other selected clusters"
            message = f'InferenceCluster "{name}" does not accept {named} of the pods{others}: {_REMEDY}'
            return message, Severity.ERROR
        if not refusals and (named := _named(chosen, DEFAULT_RULES)):
            return f"clusters do not accept {named} of the pods by default: {_REMEDY}", Severity.WARNING
        return None


_REMEDY = (
    f"remove them, use a key that begins with {TEAMS_DOMAIN}, or let the platform team list the "
    "key in spec.podKeys.accept of the InferenceCluster"
)


def _named(chosen: Iterable[PodPart], rules: KeyRules) -> str:
    return ", ".join(map(str, find_refused(chosen, rules)))
