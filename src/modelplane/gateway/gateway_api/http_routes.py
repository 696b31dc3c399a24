"""Routes of an inference cluster's gateway, from its HTTPRoutes and InferencePools.

This is the part of the Gateway API that replicas use: rules that match a path prefix and a token, replace the
prefix, and divide requests among Services by weight, or send them to an InferencePool (Gateway API Inference
Extension v1), whose picker chooses among its pods. A route that uses more is not served at all, because
serving half of it would be wrong; ``check_supported`` names the field.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE, Object, get_full_name
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.gateway.route_table import Backend, EndpointPicker, Route, Token
from modelplane.gateway.tokens import HEADERS

KIND = "InferencePool"
Hosts = tuple[tuple[str, int], ...]
SERVICE_NAME = "kubernetes.io/service-name"
"""Label of an EndpointSlice that names its Service (KEP-752)."""


class _Cluster:
    """Services, InferencePools and the addresses behind them, found by name."""

    def __init__(
        self,
        services: Iterable[Object],
        slices: Iterable[Object],
        pools: Iterable[Object],
        pods: Iterable[Object],
        address_of: Callable[[str], str],
    ) -> None:
        self._pools = {get_full_name(pool): pool for pool in pools}
        self._pods: defaultdict[str, tuple[Object, ...]] = defaultdict(tuple)
        for pod in pods:
            self._pods[pod["metadata"]["namespace"]] += (pod,)
        self._services = {get_full_name(service): service for service in services}
        self._slices: dict[tuple[str, str], list[Object]] = {}
        for endpoint_slice in slices:
            if endpoint_slice.get("addressType") == "FQDN":
                continue  # deprecated, and no pod has one
            service = endpoint_slice["metadata"].get("labels", {}).get(SERVICE_NAME, "")
            self._slices.setdefault((endpoint_slice["metadata"]["namespace"], service), []).append(
                endpoint_slice
            )
        self._address_of = address_of

    def list_hosts(self, namespace: str, service: str, port: int) -> tuple[tuple[str, int], ...]:
        """Return the addresses and ports of the ready endpoints of a Service's port, sorted."""
        manifest = self._services.get((namespace, service))
        names = (
            {entry.get("name", "") for entry in get_list(manifest, "spec", "ports") if entry["port"] == port}
            if manifest
            else set()
        )
        hosts = {
            (self._address_of(endpoint["addresses"][0]), slice_port["port"])
            for endpoint_slice in self._slices.get((namespace, service), ())
            for slice_port in get_list(endpoint_slice, "ports")
            if (slice_port.get("name") or "") in names and "port" in slice_port
            for endpoint in get_list(endpoint_slice, "endpoints")
            # Absent means ready (discovery/v1, EndpointConditions).
            if get_map(endpoint, "conditions").get("ready") is not False
        }
        return tuple(sorted(hosts))

    def find_pool(self, namespace: str, name: str) -> tuple[Hosts, EndpointPicker | None]:
        """Return the ready pods of an InferencePool and its picker; no pods if it cannot be served."""
        pool = self._pools.get((namespace, name))
        if pool is None or check_pool(pool):
            return (), None
        reference = pool["spec"]["endpointPickerRef"]
        port = reference["port"]["number"]
        picker = EndpointPicker(
            f"{namespace}/{name}/picker",
            self.list_hosts(namespace, reference["name"], port),
            fails_open=reference.get("failureMode") == "FailOpen",
        )
        hosts = {
            (self._address_of(pod["status"]["podIP"]), target["number"])
            for pod in list_ready(pool, self._pods[namespace])
            for target in pool["spec"]["targetPorts"]
        }
        return tuple(sorted(hosts)), picker


def build_workload_routes(
    http_routes: Iterable[Object],
    services: Iterable[Object],
    endpoint_slices: Iterable[Object],
    address_of: Callable[[str], str],
    *,
    pools: Iterable[Object] = (),
    pods: Iterable[Object] = (),
) -> tuple[Route, ...]:
    """Return the routes attached to the inference gateway, older HTTPRoutes first.

    ``address_of`` maps an address that an EndpointSlice or a pod reports to the one to dial. ``pods`` are
    those of ``pools``.
    """
    cluster = _Cluster(services, endpoint_slices, pools, pods, address_of)
    ours = (route for route in http_routes if is_attached(route) and not check_supported(route))
    return tuple(
        route
        # As the Gateway API orders routes with equal matches: by age, then by name.
        for http_route in sorted(
            ours, key=lambda route: (route["metadata"].get("creationTimestamp", ""), *get_full_name(route))
        )
        for number, rule in enumerate(get_list(http_route, "spec", "rules"))
        for route in _routes(http_route, number, rule, cluster)
    )


def is_attached(http_route: Object) -> bool:
    """Return True if a route names the inference gateway as a parent."""
    namespace = http_route["metadata"]["namespace"]
    return any(
        parent["name"] == GATEWAY_NAME
        and parent.get("namespace", namespace) == SYSTEM_NAMESPACE
        and parent.get("kind", "Gateway") == "Gateway"
        for parent in get_list(http_route, "spec", "parentRefs")
    )


def check_supported(http_route: Object) -> Rejected | None:
    """Return the first field of a route that this gateway does not support; None if it supports all."""
    spec = http_route["spec"]
    if spec.get("hostnames"):
        return Rejected(
            subject="spec.hostnames",
            detail="is not supported, because requests are distinguished only by path",
        )
    for number, rule in enumerate(get_list(spec, "rules")):
        for field, fault in _find_faults(rule, http_route["metadata"]["namespace"]):
            return Rejected(subject=f"spec.rules[{number}].{field}", detail=fault)
    return None


def _find_faults(rule: Object, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield each field of a rule that is not supported, and why."""
    for field in sorted(rule.keys() - {"name", "matches", "filters", "backendRefs", "timeouts"}):
        yield field, "is not supported"
    if not all(map(_is_supported, get_list(rule, "matches"))):
        yield "matches", "has more than a path of type PathPrefix, which alone is supported"
    for filter_ in get_list(rule, "filters"):
        if _removes_tokens(filter_):
            continue
        rewrite = filter_.get("urlRewrite", {})
        if "replacePrefixMatch" not in rewrite.get("path", {}) or rewrite.keys() - {"path"}:
            yield "filters", "has more than URLRewrite with replacePrefixMatch, which alone is supported"
    if any(value not in ("0s", "0") for value in get_map(rule, "timeouts").values()):
        yield "timeouts", "must be 0s, because a stream lasts as long as the model speaks"
    references = get_list(rule, "backendRefs")
    for reference in references:
        is_pool = is_pool_reference(reference)
        kind = reference.get("kind", "Service")
        if (kind != "Service" and not is_pool) or reference.get("filters"):
            yield "backendRefs", "must name Services and InferencePools without filters"
        if is_pool and len(references) > 1:
            yield "backendRefs", f'must name no other backend than InferencePool "{reference["name"]}"'
        if reference.get("namespace", namespace) != namespace:
            yield "backendRefs", f'names {kind} "{reference["name"]}" of another namespace'


def _is_supported(match: Object) -> bool:
    """Return True for a match of a path prefix, with a token or without one."""
    if match.keys() - {"headers"} != {"path"} or match["path"].get("type", "PathPrefix") != "PathPrefix":
        return False
    headers = match.get("headers", ())
    known = [
        header for header in headers if header["name"] in HEADERS and header.get("type", "Exact") == "Exact"
    ]
    return len(known) == len(headers) == len(match.keys() & {"headers"})


def _removes_tokens(rule_filter: Object) -> bool:
    """Return True for a filter that removes tokens, which no engine gets from this gateway anyway."""
    modifier = rule_filter.get("requestHeaderModifier", {})
    return modifier.keys() == {"remove"} and set(modifier["remove"]) <= set(HEADERS)


def _routes(http_route: Object, number: int, rule: Object, cluster: _Cluster) -> Iterator[Route]:
    namespace, name = get_full_name(http_route)
    rewrites = (filter_ for filter_ in get_list(rule, "filters") if not _removes_tokens(filter_))
    prefix = next((rewrite["urlRewrite"]["path"]["replacePrefixMatch"] for rewrite in rewrites), "")
    references = [reference for reference in get_list(rule, "backendRefs") if reference.get("weight", 1) > 0]
    backends = tuple(
        backend
        for reference in references
        if (backend := _backend(reference, f"{namespace}/{name}/{number}", namespace, cluster)).hosts
    )
    backends = tuple(
        replace(candidate, prefix=f"{prefix.rstrip('/')}/" if prefix else "") for candidate in backends
    )
    wanted = ", ".join(sorted(f'"{reference["name"]}"' for reference in references)) or "none"
    behind = KIND if any(map(is_pool_reference, references)) else "Services"
    unavailable = (
        f'cannot serve HTTPRoute "{namespace}/{name}": no ready pod behind its {behind} ({wanted}): '
        f"see kubectl get pods,endpointslices -n {namespace}"
    )
    for match in rule.get("matches") or ({"path": {"value": "/"}},):
        value = match["path"].get("value", "/")
        asked = next((Token(header["name"], header["value"]) for header in get_list(match, "headers")), None)
        yield Route(
            name=f"{namespace}/{name}",
            prefix=f"{value.rstrip('/')}/",
            backends=backends,
            unavailable="" if backends else unavailable,
            token=asked,
        )


def _backend(reference: Object, route: str, namespace: str, cluster: _Cluster) -> Backend:
    """Return the backend of a rule's reference, as yet without a prefix."""
    name, weight = reference["name"], reference.get("weight", 1)
    if is_pool_reference(reference):
        hosts, picker = cluster.find_pool(namespace, name)
        return Backend(f"{route}/{name}", hosts, weight, picker=picker)
    port = reference["port"]
    return Backend(f"{route}/{name}:{port}", cluster.list_hosts(namespace, name, port), weight)


def is_pool_reference(reference: Object) -> bool:
    """Return True if a backend of an HTTPRoute is an InferencePool."""
    return reference.get("kind") == KIND and reference.get("group") == "inference.networking.k8s.io"


def list_ready(pool: Object, pods: Iterable[Object]) -> tuple[Object, ...]:
    """Return the pods of a pool that take requests, by their names."""
    labels = get_map(pool, "spec", "selector", "matchLabels").items()
    chosen = (
        pod
        for pod in pods
        if labels and labels <= get_map(pod, "metadata", "labels").items() and _is_ready(pod)
    )
    return tuple(sorted(chosen, key=lambda pod: str(pod["metadata"]["name"])))


def _is_ready(pod: Object) -> bool:
    status = get_map(pod, "status")
    conditions = {condition["type"]: condition["status"] for condition in get_list(status, "conditions")}
    is_ending = "deletionTimestamp" in pod["metadata"]
    return not is_ending and bool(status.get("podIP")) and conditions.get("Ready") == "True"


def check_pool(pool: Object) -> Rejected | None:
    """Return the field of a pool that this gateway does not support; None if it supports all."""
    reference = pool["spec"]["endpointPickerRef"]
    if reference.get("group") or reference.get("kind", "Service") != "Service":
        return Rejected(subject="spec.endpointPickerRef", detail="must name a Service")
    if "port" not in reference:
        return Rejected(subject="spec.endpointPickerRef.port", detail="is missing")
    return None
