"""Lint rules: warnings about manifests that an API server accepts and the author probably did not intend.

A rule is a module, and a row of ``RULES``; ``docs/reference/commands/validate.md`` has the same table. The
module of a rule about one object has a function ``check``, which yields the warnings about the object. The
module of a rule about several objects has a class ``Check``, which reads the objects and then yields the
problems.

A rule reads only objects that decode. ``check`` reads only objects that a person wrote: an object with an
owner is Modelplane's own.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from modelplane.api.kinds import INFERENCE_CLUSTER, MODEL_DEPLOYMENT, Kind
from modelplane.api.model_deployment import Engine, Member, ModelDeployment, ReplicaSettings
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.offline.files.diagnostics import Path, Problem
from modelplane.offline.files.fleet_sets import Placed, split_by_fleet
from modelplane.offline.files.sources import Origin

if TYPE_CHECKING:
    from modelplane.offline.files.manifest_objects import Manifest

Configs = Callable[[str, str], bytes | None]
"""Returns the text of ``config.json`` of a repository and a revision of the hub, if it is at hand."""


class Advice(NamedTuple):
    """A warning about a field."""

    path: Path
    message: str
    at_key: bool = False
    """True if the warning is about the name of the field."""


class Together(Protocol):
    """A rule about several objects."""

    def read(self, manifest: "Manifest", decoded: Any) -> None:
        """Remember the parts of an object that the rule compares."""

    def find_problems(self, configs: Configs) -> Iterator[Problem]:
        """Yield the problems of the objects read so far."""


class Rule(NamedTuple):
    """A row of ``RULES``."""

    name: str
    """Its module."""
    kinds: tuple[str, ...]
    """The kinds that it reads. By name: to import their types takes long, and few are needed."""

    @property
    def is_across_objects(self) -> bool:
        """True if the rule is about several objects."""
        return self.name.startswith("across_objects.")

    def load(self) -> Any:
        """Return its module, imported when an object of its kinds is read."""
        return importlib.import_module(f"{__package__}.{self.name}")


_NODE_POOLS: Final = (
    "AKSCluster",
    "EKSCluster",
    "GKECluster",
    "InferenceCluster",
    "NebiusCluster",
    "VultrCluster",
)
RULES: Final = (
    Rule("overstated_memory", ("InferenceClass",)),
    Rule("existing_provisioning", ("InferenceCluster",)),
    Rule("initial_above_maximum", _NODE_POOLS),
    Rule("gateway_name", ("InferenceGateway",)),
    Rule("open_gateway", ("InferenceGateway",)),
    Rule("cluster_labels", ("ModelCache", "ModelDeployment")),
    Rule("device_attributes", ("ModelDeployment",)),
    Rule("missed_cards", ("ModelDeployment",)),
    Rule("hub_model_beside_cache", ("ModelDeployment",)),
    Rule("engine_advice", ("ModelDeployment",)),
    Rule("undefined_variables", ("ModelDeployment",)),
    Rule("endpoint_url", ("ModelEndpoint",)),
    Rule("endpoint_labels", ("ModelService",)),
    Rule("stack_without_cluster", ("ServingStack",)),
    Rule("across_objects.ambiguous_aliases", ("InferenceGateway", "ModelService")),
    Rule("across_objects.beyond_kserve", ("InferenceCluster", "ModelDeployment")),
    Rule("across_objects.context_lengths", ("ModelCache", "ModelDeployment")),
    Rule("across_objects.refused_pods", ("InferenceCluster", "ModelDeployment")),
)
"""Every rule. The problems of several objects are reported in this order, after those of each object."""


def find_advice(kind: Kind, value: Mapping[str, Any]) -> Iterator[Advice]:
    """Yield the warnings about an object that has its defaults."""
    try:
        decoded: Any = decode_as(kind.type, value)
    except InvalidObject:
        return
    if decoded.metadata.owner_references:
        return
    for rule in RULES:
        if kind.name in rule.kinds and not rule.is_across_objects:
            yield from rule.load().check(decoded)


class Lint:
    """The rules about several objects, while the objects are read."""

    def __init__(self) -> None:
        self._objects: list[tuple[Placed, tuple[Manifest, Any]]] = []

    def read(self, manifest: "Manifest") -> None:
        """Keep an object for the rules about its kind, if it decodes."""
        kind = manifest.kind
        if kind is None or not any(rule.is_across_objects and kind.name in rule.kinds for rule in RULES):
            return
        decoded = manifest.decode()
        if decoded is None:
            return
        walked = manifest.source.origin is Origin.WALKED
        placed = Placed(
            folder=PurePosixPath(manifest.source.name).parent if walked else None,
            is_cluster=kind is INFERENCE_CLUSTER,
            is_deployment=kind is MODEL_DEPLOYMENT,
        )
        # No rule reports a cluster, and the trees of a large fleet would fill the memory.
        self._objects.append(
            (placed, (manifest.without_content() if placed.is_cluster else manifest, decoded))
        )

    def find_problems(self, configs: Configs) -> Iterator[Problem]:
        """Yield the problems that each rule finds in each set, in the order of ``RULES``."""
        sets = split_by_fleet(self._objects)
        for rule in RULES:
            for members in sets if rule.is_across_objects else ():
                check: Together | None = None
                for manifest, decoded in members:
                    if manifest.name.kind in rule.kinds:
                        check = check or rule.load().Check()
                        check.read(manifest, decoded)
                if check is not None:
                    yield from check.find_problems(configs)


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
