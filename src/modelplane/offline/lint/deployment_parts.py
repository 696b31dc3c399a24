"""Parts of a ModelDeployment with their paths, in either shape: with a template of replicas, or without."""

from collections.abc import Iterator

from modelplane.api.model_deployment import Engine, Member, ModelDeployment, ReplicaSettings
from modelplane.offline.files.diagnostics import Path


def find_settings(deployment: ModelDeployment) -> tuple[Path, ReplicaSettings]:
    """Return the settings of its replicas."""
    template = deployment.spec.template
    return (("spec",), deployment.spec) if template is None else (("spec", "template", "spec"), template.spec)


def walk_members(deployment: ModelDeployment) -> Iterator[tuple[Path, Engine, Member]]:
    """Yield each member with its engine."""
    path, _ = find_settings(deployment)
    for index, engine in enumerate(deployment.replica_template().engines):
        for number, member in enumerate(engine.members):
            yield (*path, "engines", index, "members", number), engine, member
