"""Rendering of an owner: one composition, with files instead of API servers.

One rule: the composition function is the controllers' own. This module only shows its result.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from modelplane.api import labels
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import join_alternatives
from modelplane.api.meta import Object, kind_name
from modelplane.api.schema.decode import InvalidObject, convert, decode_as
from modelplane.compose import owner_status as status_of
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Request, Requirement
from modelplane.compose.kinds import COMPOSERS
from modelplane.gateway.hosts import format_authority
from modelplane.gateway.route_table import Route
from modelplane.offline.files.diagnostics import ObjectName, join_choices
from modelplane.offline.files.identities import add_uids, is_assumed_original, make_original
from modelplane.offline.files.report_documents import Output, Report, collect_hidden_values, redact
from modelplane.offline.files.store import Store
from modelplane.offline.files.yaml_text import to_yaml
from modelplane.offline.plan.fleet_of_files import (
    NEVER,
    Files,
    assume_ready,
    convert_to_plain,
    list_assumed_ready,
    withdraw_endpoint,
)
from modelplane.offline.render.facts_of_files import announce, find_facts, is_assumed
from modelplane.user_error import UserError


class RoutedBackend(Output, frozen=True, kw_only=True):
    """An endpoint that gets requests of a route."""

    endpoint: str
    """Namespace and name of the ModelEndpoint."""
    host: str
    port: int
    weight: int
    """Its share of the route's requests, relative to the other backends."""
    prefix: str
    """Path prefix that replaces the route's; empty if the path does not change."""
    overlap: str
    """Last segment of ``prefix`` that is not repeated in a request's path; empty if there is none."""
    tls: bool
    host_header: str
    priority: int = 0
    """Tier, 0 for the first: the endpoint receives requests that earlier tiers refuse."""


class GatewayRoute(Output, frozen=True, kw_only=True):
    """A route of a gateway that Modelplane configures itself: Envoy."""

    prefix: str
    """Path prefix of the requests."""
    backends: tuple[RoutedBackend, ...]
    unavailable: str
    """Message of the 503 that clients receive while there are no backends."""


def redact_route(route: Route, hidden: frozenset[str]) -> GatewayRoute:
    """Return a route without texts that contain a hidden value."""
    backends = tuple(
        RoutedBackend(
            endpoint=backend.name,
            host=host,
            port=port,
            weight=backend.weight,
            prefix=backend.prefix,
            overlap=backend.overlap,
            tls=backend.tls,
            host_header=backend.host,
            priority=backend.priority,
        )
        for backend in route.backends
        for host, port in backend.hosts
    )
    whole = GatewayRoute(prefix=route.prefix, backends=backends, unavailable=route.unavailable)
    return convert(redact(msgspec.to_builtins(whole), hidden), GatewayRoute)


def format_route(route: GatewayRoute) -> Iterator[str]:
    """Yield a route as text: its prefix, then a line for each backend."""
    count = len(route.backends)
    to = f"to {count} endpoint{'' if count == 1 else 's'}"
    yield f"{route.prefix} {to if count else f'answers 503: {route.unavailable}'}"
    for backend in route.backends:
        scheme, authority = "https" if backend.tls else "http", format_authority(backend.host, backend.port)
        url = f"{scheme}://{authority}{backend.prefix}"
        path = "" if backend.prefix else ", path unchanged"
        once = f", {backend.overlap} not repeated" if backend.overlap else ""
        host = f", Host {backend.host_header}" if backend.host_header else ""
        tier = f"priority {backend.priority}, " if backend.priority else ""
        yield f"  {backend.endpoint}: {tier}weight {backend.weight}, {url}{path}{once}{host}"


CHILD_KEYS = (labels.CHILD, "crossplane.io/composition-resource-name")
"""Annotations with the key of a child of an owner: ours, and Crossplane's."""


class Looked(Output, frozen=True, kw_only=True):
    """Objects that the composition required."""

    key: str
    api_version: str
    kind: str
    namespace: str
    name: str
    cluster: str
    found: int
    """Number of such objects in the files."""


class Child(Output, frozen=True, kw_only=True):
    """An object that would be written."""

    key: str
    cluster: str
    """InferenceCluster that it would be written to; empty for the control plane."""
    manifest: dict[str, Any]


class Rendering(Report, frozen=True, kw_only=True):
    """Document of ``modelplane render -o json``."""

    kind: Literal["Rendering"] = "Rendering"
    owner: ObjectName
    doubt: str
    """Reason why nothing can be decided; then no child, route or status would change."""
    children: tuple[Child, ...]
    kept: tuple[str, ...]
    """Keys of observed children that would not change."""
    deleted: tuple[str, ...]
    """Keys of observed children that would be deleted."""
    guards: tuple[str, ...]
    """Objects that the owner's deletion would wait for."""
    routes: tuple[GatewayRoute, ...]
    """Routes of an Envoy gateway; for one that reads Gateway API, an HTTPRoute is among the children."""
    ready: bool
    status: dict[str, Any]
    looked_at: tuple[Looked, ...]
    assumed_ready: tuple[str, ...]
    """Clusters that are assumed ready because their files have no status."""


def render(
    owners: Iterable[Object],
    observed: Iterable[Object],
    required: Iterable[Object],
    gateway_address: str = "",
) -> tuple[Rendering, Object]:
    """Compose the one owner among the objects; return the rendering, and the owner with its status.

    Other objects among the owners are like required ones. Raises ``UserError``.
    """
    owner_objects, children, others = tuple(owners), tuple(observed), tuple(required)
    composed = [item for item in owner_objects if item["kind"] in COMPOSERS]
    if not composed:
        kinds = join_alternatives(sorted(COMPOSERS), "and")
        names = f"contains only {_names(owner_objects)}" if owner_objects else "contains no object"
        raise UserError(f"OWNER {names}: name a file with one of the kinds {kinds}")
    if len(composed) > 1:
        raise UserError(
            f"OWNER contains {len(composed)} objects that Modelplane composes, {_names(composed)}: put one "
            "in its own file, and pass the others with --required"
        )
    if "deletionTimestamp" in composed[0]["metadata"]:
        raise UserError(
            f"{_names(composed)} is being deleted, so the controllers compose nothing: to see the children "
            "from before, remove metadata.deletionTimestamp"
        )
    everything = tuple(map(withdraw_endpoint, add_uids((*children, *others, *owner_objects))))
    store = Store()
    for item in everything:
        store.add(item)
    assumed = assume_ready(store)
    if gateway_address:
        announce(gateway_address, store)
    owner = everything[len(children) + len(others) + owner_objects.index(composed[0])]
    keyed = _keyed(everything[: len(children)])
    owned = [item for item in everything[len(children) :] if _is_owned(item, owner["metadata"]["uid"])]
    keyed = {key: item for item in owned if (key := _key(item))} | keyed
    files = Files(store, tuple(name for name in assumed if not _is_cluster(owner, name)))
    hidden = collect_hidden_values(everything)
    rendering = _rendered(owner, keyed, files, hidden, gateway_address)
    return rendering, redact({**composed[0], "status": rendering.status}, hidden)


def _names(objects: Iterable[Object]) -> str:
    return join_choices([f'{item["kind"]} "{item["metadata"]["name"]}"' for item in objects])


def _is_cluster(owner: Object, name: str) -> bool:
    return (owner["kind"], owner["metadata"]["name"]) == (kind_name(InferenceCluster), name)


def _is_owned(item: Object, uid: str) -> bool:
    """Return True if the controllers made an object for the owner: on its own cluster, or on another one."""
    metadata = item["metadata"]
    if metadata.get("labels", {}).get(labels.OWNER_UID) == uid:
        return True
    return item["kind"] in COMPOSERS and any(
        reference.get("controller") and reference["uid"] == uid
        for reference in metadata.get("ownerReferences", ())
    )


def _key(item: Object) -> str | None:
    annotations = item["metadata"].get("annotations", {})
    return next((str(annotations[name]) for name in CHILD_KEYS if name in annotations), None)


def _keyed(children: Iterable[Object]) -> dict[str, Object]:
    keyed: dict[str, Object] = {}
    for child in children:
        key = _key(child)
        name = f'{child["kind"]} "{child["metadata"]["name"]}"'
        if not key:
            raise UserError(
                f"observed object {name} has no annotation {CHILD_KEYS[0]}: add the annotation with the "
                "child's key, or pass the object with --required"
            )
        if key in keyed:
            raise UserError(f"{name} and another observed object have the same key {key}: remove one of them")
        keyed[key] = child
    return keyed


def _rendered(
    owner: Object, observed: Mapping[str, Object], files: Files, hidden: frozenset[str], gateway_address: str
) -> Rendering:
    try:
        answers, composition = _composed(owner, observed, files.store, gateway_address)
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error
    doubt = composition.cause if isinstance(composition, Blocked) else ""
    if isinstance(composition, Blocked):
        composition = Composition()
    before = owner.get("status", {}).get("conditions", ())
    ready = status_of.derive_ready(composition, observed, before)
    generation = owner["metadata"].get("generation", 0)
    conditions = status_of.encode_conditions((*composition.conditions, ready), before, generation, NEVER)
    status = owner.get("status", {})
    if not doubt:
        status = convert_to_plain(
            {**composition.status, "observedGeneration": generation, "conditions": conditions}
        )
    written = [child for child in composition.children if isinstance(child, Desired)]
    kept = sorted(child.key for child in composition.children if isinstance(child, Keep))
    named = {child.key for child in composition.children}
    return Rendering(
        owner=ObjectName.of(owner),
        doubt=doubt,
        children=tuple(_child(child, hidden) for child in written),
        kept=tuple(sorted(observed) if doubt else kept),
        deleted=() if doubt else tuple(sorted(observed.keys() - named)),
        guards=tuple(map(str, composition.guards)),
        routes=tuple(redact_route(route, hidden) for route in composition.routes),
        ready=ready.holds,
        status=redact(status, hidden),
        looked_at=tuple(_looked(*answer) for answer in answers),
        assumed_ready=list_assumed_ready(files),
    )


def _composed(
    owner: Object, observed: Mapping[str, Object], store: Store, gateway_address: str
) -> tuple[tuple[tuple[Requirement, tuple[Object, ...]], ...], Composition | Blocked]:
    """Return the objects of each requirement, and the composition.

    Some owners record in their status the clusters that they are about to write to, and write once that is
    stored. If the status of a composition adds requirements, it is assumed stored, and composed again.
    """
    composer = COMPOSERS[owner["kind"]]
    looked: set[str] = set()
    while True:
        decoded = decode_as(composer.type, owner)
        requirements = composer.required(decoded, store.find)
        answers = {
            requirement.key: store.find(requirement) or make_original(requirement)
            for requirement in requirements
        }
        # Files need not have what a composition can do without.
        request = Request(
            decoded,
            observed,
            {
                requirement.key: answers[requirement.key]
                for requirement in requirements
                if answers[requirement.key] or not requirement.optional
            },
            find_facts(decoded, store, gateway_address),
        )
        composition = composer.compose(request)
        looked |= answers.keys()
        if isinstance(composition, Composition):
            owner = {**owner, "status": convert_to_plain({**owner.get("status", {}), **composition.status})}
        again = composer.required(decode_as(composer.type, owner), store.find)
        if {requirement.key for requirement in again} <= looked:
            return tuple((requirement, answers[requirement.key]) for requirement in requirements), composition


def _child(child: Desired, hidden: frozenset[str]) -> Child:
    manifest = convert_to_plain(child.manifest)
    annotations = {**manifest["metadata"].get("annotations", {}), labels.CHILD: child.key}
    manifest["metadata"] = {**manifest["metadata"], "annotations": annotations}
    return Child(key=child.key, cluster=child.cluster, manifest=redact(manifest, hidden))


def _looked(requirement: Requirement, answer: Iterable[Object]) -> Looked:
    return Looked(
        key=requirement.key,
        api_version=requirement.api_version,
        kind=requirement.kind,
        namespace=requirement.namespace,
        name=requirement.name,
        cluster=requirement.cluster,
        found=sum(not is_assumed(item) and not is_assumed_original(item) for item in answer),
    )


def format_documents(rendering: Rendering, owner: Object) -> Iterator[str]:
    """Yield the rendering as YAML documents: each child, then the owner with its status."""
    yield "".join(f"# {line}\n" for line in _heading(rendering))
    for child in rendering.children:
        where = f'on InferenceCluster "{child.cluster}"' if child.cluster else "on the control plane"
        yield f"---\n# {child.key}, {where}\n{to_yaml(child.manifest)}"
    yield f"---\n# the owner, with its status before the children are written\n{to_yaml(dict(owner))}"


def _heading(rendering: Rendering) -> Iterator[str]:
    count = len(rendering.children)
    yield f"{rendering.owner}: {count} {'child' if count == 1 else 'children'}"
    for title, items in (
        ("the state is unknown, so nothing changes", (rendering.doubt,) if rendering.doubt else ()),
        ("kept as they are", rendering.kept),
        ("deleted", rendering.deleted),
        ("its deletion waits for", rendering.guards),
        ("assumed ready (no status in the manifest)", _assumed(rendering)),
        ("looked at", tuple(map(_looked_at, rendering.looked_at))),
    ):
        if items:
            yield f"{title}: {', '.join(items)}"
    for route in rendering.routes:
        first, *rest = format_route(route)
        yield f"told to the gateway (Envoy): {first}"
        yield from rest


def _assumed(rendering: Rendering) -> tuple[str, ...]:
    """Return the clusters that are assumed ready, if the composition required any."""
    looked = any(object_.kind == kind_name(InferenceCluster) for object_ in rendering.looked_at)
    return (join_choices(rendering.assumed_ready),) if looked and rendering.assumed_ready else ()


def _looked_at(looked: Looked) -> str:
    name = f' "{looked.name}"' if looked.name else ""
    where = f' on "{looked.cluster}"' if looked.cluster else ""
    return f"{looked.kind}{name}{where} ({looked.found} found)"
