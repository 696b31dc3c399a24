"""Warnings: manifests that an API server accepts and the author probably did not intend.

One function for each rule, listed in ``RULES``; ``docs/reference/commands.md`` has the same table. A rule
reads an object that decodes and that a person wrote: one with an owner is Modelplane's own.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modelplane.api import labels
from modelplane.api.kinds import Kind
from modelplane.api.meta import GROUP, LabelSelector
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.host.addresses import is_loopback
from modelplane.offline.files.diagnostics import Path, nearest, shown

if TYPE_CHECKING:
    from modelplane.api.clouds.serving_stack import ServingStack
    from modelplane.api.fields.pods.containers import Container
    from modelplane.api.inference_class import InferenceClass
    from modelplane.api.inference_cluster import InferenceCluster
    from modelplane.api.inference_gateway import InferenceGateway
    from modelplane.api.model_cache import ModelCache
    from modelplane.api.model_deployment import Member, ModelDeployment, ReplicaSettings
    from modelplane.api.model_endpoint import ModelEndpoint
    from modelplane.api.model_service import ModelService


class Advice(NamedTuple):
    """A warning about a field."""

    path: Path
    message: str
    at_key: bool = False
    """True if the warning is about the name of the field."""


def advice(kind: Kind, value: Mapping[str, Any]) -> Iterator[Advice]:
    """Yield the warnings about an object that has its defaults."""
    try:
        decoded: Any = decode_as(kind.type, value)
    except InvalidObject:
        return
    if decoded.metadata.owner_references:
        return
    for check in RULES.get(kind.name, ()):
        yield from check(decoded)


def _gateway_name(gateway: "InferenceGateway") -> Iterator[Advice]:
    """Warn of a gateway that serves no ModelService."""
    from modelplane.api.inference_gateway import DEFAULT_NAME  # noqa: PLC0415  for gateways only

    if gateway.metadata.name != DEFAULT_NAME:
        message = f"only the InferenceGateway named {DEFAULT_NAME} is used: rename it to {DEFAULT_NAME}"
        yield Advice(("metadata", "name"), message)


def _open_gateway(gateway: "InferenceGateway") -> Iterator[Advice]:
    """Warn of a gateway that serves every request by default, where it is known not to be on loopback."""
    address = gateway.status.address or ""
    host = address.rpartition(":")[0] or address
    if gateway.spec.authentication is None and host and not is_loopback(host):
        message = (
            f"without authentication, the gateway at {address} serves every request: set it to APIKey and "
            "create keys with `modelplane key create`, or set it to None"
        )
        yield Advice(("spec",), message, at_key=True)


def _stack_of_no_cluster(stack: "ServingStack") -> Iterator[Advice]:
    """Warn of a stack that installs nothing."""
    if not stack.spec.cluster_name:
        message = "a stack without clusterName installs nothing: an InferenceCluster makes its own"
        yield Advice(("spec",), message, at_key=True)


def _provisioning_of_existing(cluster: "InferenceCluster") -> Iterator[Advice]:
    """Warn of settings for clusters that Modelplane creates, on one that exists."""
    from modelplane.api.clouds.cluster_origin import Source  # noqa: PLC0415  for clusters only
    from modelplane.api.fields.cluster.node_pools import CAPACITY_BLOCKS, FabricType  # noqa: PLC0415  as above

    if cluster.spec.cluster.source is not Source.EXISTING:
        return
    for index, pool in enumerate(cluster.spec.node_pools):
        path = ("spec", "nodePools", index)
        fabric = pool.interconnect()
        if pool.capacity_block is not None:
            message = (
                f"capacity blocks are for {CAPACITY_BLOCKS}, and ignored with source Existing: remove it"
            )
            yield Advice((*path, "capacityBlock"), message, at_key=True)
        if fabric.type is FabricType.EFA and fabric.name is None:
            message = (
                "EFA is not set up with source Existing, and joins no pools without a name: remove it, "
                "or write an object with type and name"
            )
            yield Advice((*path, "fabric"), message, at_key=True)


def _initial_above_maximum(cluster: Any) -> Iterator[Advice]:
    """Warn of pools that start with more nodes than autoscaling allows."""
    for index, pool in enumerate(cluster.spec.node_pools):
        most = pool.max_node_count
        if most and pool.node_count > most:
            message = (
                f"nodeCount {pool.node_count} is greater than maxNodeCount {most}: "
                "raise maxNodeCount, or lower nodeCount"
            )
            yield Advice(("spec", "nodePools", index, "nodeCount"), message)


def _cluster_selector_of_deployment(deployment: "ModelDeployment") -> Iterator[Advice]:
    """Warn of labels that clusters do not have."""
    path, settings = _settings(deployment)
    yield from _cluster_selector((*path, "clusterSelector"), settings.cluster_selector)


def _cluster_selector_of_cache(cache: "ModelCache") -> Iterator[Advice]:
    """Warn of labels that clusters do not have."""
    yield from _cluster_selector(("spec", "clusterSelector"), cache.spec.cluster_selector)


def _endpoint_selectors(service: "ModelService") -> Iterator[Advice]:
    """Warn of labels that endpoints do not have, and of a selector without labels."""
    for index, entry in enumerate(service.spec.endpoints):
        path = ("spec", "endpoints", index, "selector", "matchLabels")
        if not entry.selector.match_labels:
            message = (
                f"selects every ModelEndpoint of namespace {shown(service.metadata.namespace or 'default')}: "
                f"name a label, such as {labels.DEPLOYMENT}"
            )
            yield Advice(path, message, at_key=True)
        yield from _keys(path, entry.selector.match_labels, "ModelEndpoint")


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


def _cluster_selector(path: Path, selector: LabelSelector | None) -> Iterator[Advice]:
    if selector is not None:
        yield from _keys((*path, "matchLabels"), selector.match_labels, "InferenceCluster")


def _keys(path: Path, selected: Mapping[str, str], kind: str) -> Iterator[Advice]:
    known = _LABELS[kind]
    for key in selected:
        if not key.startswith(labels.PREFIX) or key in known:
            continue
        if key in _ELSEWHERE:
            message = f"{key} is a label of {_ELSEWHERE[key]}, not of {kind}s: select by another one"
        else:
            near = nearest(_bare(key), map(_bare, known), 0.8)
            meant = f"; did you mean {labels.PREFIX}{near}?"
            remedy = meant if near else ": use a label with a prefix of your own"
            message = f"{key} is no label that Modelplane or its documentation gives {kind}s{remedy}"
        yield Advice((*path, key), message, at_key=True)


def _bare(key: str) -> str:
    return key.removeprefix(labels.PREFIX)


def _device_selectors(deployment: "ModelDeployment") -> Iterator[Advice]:
    """Warn of attributes that no device can have."""
    for path, member in _members(deployment):
        for index, request in enumerate(member.node_selector.devices if member.node_selector else ()):
            for number, selector in enumerate(request.selectors):
                where = (*path, "nodeSelector", "devices", index, "selectors", number, "cel")
                messages = dict.fromkeys(filter(None, map(_impossible, re.finditer(_READ, selector.cel))))
                yield from (Advice(where, message) for message in messages)


def _missed_cards(deployment: "ModelDeployment") -> Iterator[Advice]:
    """Warn of selectors that a card would match if it had all of its nominal memory."""
    for path, member in _members(deployment):
        for index, request in enumerate(member.node_selector.devices if member.node_selector else ()):
            selectors = [selector.cel for selector in request.selectors]
            reading = [number for number, text in enumerate(selectors) if "memory" in text]
            if not reading:
                continue
            from modelplane.offline.lint.nominal_memory import missed_cards  # noqa: PLC0415  as few files need it

            if message := missed_cards(selectors):
                where = ("nodeSelector", "devices", index, "selectors", reading[0], "cel")
                yield Advice((*path, *where), message)


def _overstated_memory(class_: "InferenceClass") -> Iterator[Advice]:
    """Warn of memory that the card of a device does not publish."""
    from modelplane.catalogue.cards import overstatements  # noqa: PLC0415  few files have a class

    for index, device in enumerate(class_.spec.devices):
        for found in overstatements([device]):
            yield Advice(("spec", "devices", index, "capacity", found.key, "value"), str(found))


_READ: Final = (
    r"""device\s*\.\s*(?P<of>attributes|capacity)\s*\[\s*(["'])(?P<domain>[^"']*)\2\s*\]"""
    r"""\s*(?:\.\s*(?P<name>\w+)|\[\s*(["'])(?P<key>[^"']*)\5\s*\])?"""
)
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]{0,31}"


def _impossible(found: re.Match[str]) -> str:
    """Return the reason why no device has an attribute that a selector reads; empty if one may."""
    what, domain, name = found["of"], found["domain"], found["name"] or found["key"] or ""
    if "/" in domain:
        driver, _, rest = domain.partition("/")
        return f"{shown(domain)} is no driver's domain: write device.{what}[{shown(driver)}].{rest}"
    if name and not re.fullmatch(_IDENTIFIER, name):
        return (
            f"no device has {shown(name)}, which is no identifier: write the name that the driver publishes"
        )
    if domain == GROUP:
        return (
            f"no driver publishes {what} of {shown(domain)}, so pods would find no device: select by what "
            "the driver publishes, or by a Synthetic device"
        )
    return ""


def _hub_model_beside_cache(deployment: "ModelDeployment") -> Iterator[Advice]:
    """Warn of an engine that downloads its model although a cache is mounted."""
    _, settings = _settings(deployment)
    if settings.model_cache_ref is None:
        return
    for path, member in _members(deployment):
        container = member.template.spec.engine
        if model := _hub_model(container):
            message = (
                f"the engine downloads {shown(model)} and does not read ModelCache "
                f"{shown(settings.model_cache_ref.name)}: leave the model out of args, or name a path of the "
                "cache"
            )
            field = "args" if container.args else "command"
            yield Advice((*path, "template", "spec", "containers", 0, field), message, at_key=True)


_HUB_ID: Final = r"[A-Za-z0-9_][-A-Za-z0-9_.]*/[A-Za-z0-9_][-A-Za-z0-9_.]*(:\S+)?"


def _hub_model(container: "Container") -> str:
    """Return the model of the Hugging Face hub that an engine serves; empty if it is not from there."""
    from modelplane.compose.replica.engine_flags import model  # noqa: PLC0415  few deployments have a cache

    named = model(container)
    if named is None:
        words = [*container.command, *container.args]
        served = words.index("serve") + 1 if "serve" in words else len(words)
        named = words[served] if served < len(words) else ""
    return named if re.fullmatch(_HUB_ID, named) else ""


def _engine_flags(deployment: "ModelDeployment") -> Iterator[Advice]:
    """Warn of flags that the engine refuses, or that contradict its pods."""
    from modelplane.offline.lint.engine_advice import warnings  # noqa: PLC0415  reads a table of flags

    path, _ = _settings(deployment)
    for index, engine in enumerate(deployment.replica_template().engines):
        for number, member in enumerate(engine.members):
            where = (*path, "engines", index, "members", number, "template", "spec", "containers", 0)
            for word, message in warnings(engine, member):
                yield Advice((*where, *word), message, at_key=len(word) == 1)


def _undefined_variables(deployment: "ModelDeployment") -> Iterator[Advice]:
    """Warn of a reference to a variable that nothing sets: the program receives its characters."""
    from modelplane.compose.replica.engine_variables import undefined  # noqa: PLC0415  as the flags

    path, _ = _settings(deployment)
    for index, engine in enumerate(deployment.replica_template().engines):
        for number, member in enumerate(engine.members):
            where = (*path, "engines", index, "members", number, "template", "spec")
            for each in undefined(member.template.spec, member.role, engine.phase):
                yield Advice((*where, *each.path), each.message)


def _endpoint_url(endpoint: "ModelEndpoint") -> Iterator[Advice]:
    """Warn of a host that means another machine to the gateway, and of a path that is not used."""
    found = re.match(_URL, endpoint.spec.url)
    if found is None:
        return
    path = ("spec", "url")
    host = found["host"].lower().rstrip(".")
    if host in _LOOPBACK or host.endswith(".localhost") or host.startswith("127."):
        message = f"{shown(host)} is the gateway's own host, not yours: write the address that it reaches"
        yield Advice(path, message)
    given, rewrite = found["path"].rstrip("/"), endpoint.spec.rewrite_path or ""
    kept = len(rewrite) > 1 and f"{given}/".startswith(rewrite)
    if given and not kept:
        message = f"the path {shown(found['path'])} of a URL is not used: write it in spec.rewritePath"
        yield Advice(path, message)


_URL: Final = r"https?://(?P<host>\[[^\]]*\]|[^/?#:]+)(?::\d+)?(?P<path>[^?#]*)"
_LOOPBACK: Final = frozenset({"localhost", "[::1]", "0.0.0.0", "[::]"})  # noqa: S104  compared, not bound


def _settings(deployment: "ModelDeployment") -> "tuple[Path, ReplicaSettings]":
    template = deployment.spec.template
    return (("spec",), deployment.spec) if template is None else (("spec", "template", "spec"), template.spec)


def _members(deployment: "ModelDeployment") -> "Iterator[tuple[Path, Member]]":
    path, _ = _settings(deployment)
    for index, engine in enumerate(deployment.replica_template().engines):
        for number, member in enumerate(engine.members):
            yield (*path, "engines", index, "members", number), member


RULES: Final[Mapping[str, Sequence[Callable[[Any], Iterator[Advice]]]]] = {
    "AKSCluster": (_initial_above_maximum,),
    "EKSCluster": (_initial_above_maximum,),
    "GKECluster": (_initial_above_maximum,),
    "InferenceClass": (_overstated_memory,),
    "InferenceCluster": (_provisioning_of_existing, _initial_above_maximum),
    "InferenceGateway": (_gateway_name, _open_gateway),
    "ModelCache": (_cluster_selector_of_cache,),
    "ModelDeployment": (
        _cluster_selector_of_deployment,
        _device_selectors,
        _missed_cards,
        _hub_model_beside_cache,
        _engine_flags,
        _undefined_variables,
    ),
    "ModelEndpoint": (_endpoint_url,),
    "ModelService": (_endpoint_selectors,),
    "NebiusCluster": (_initial_above_maximum,),
    "ServingStack": (_stack_of_no_cluster,),
    "VultrCluster": (_initial_above_maximum,),
}
"""The rules for objects of each kind. Kinds by name: to import their types takes long, and few are needed."""
