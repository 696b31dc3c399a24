"""A namespace with a service, deployments with region rules, and endpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

from modelplane.api import labels
from modelplane.api.inference_gateway import Backend
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Blocked, Composition, Request, Unknown
from modelplane.compose.facts import ServiceFacts
from modelplane.compose.service.model_service import compose

API = "modelplane.ai/v1alpha1"
NAMESPACE = "ml"

Manifest = dict[str, Any]


def _object(kind: str, name: str, spec: Manifest, own: Mapping[str, str] | None = None) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE, **({"labels": dict(own)} if own else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(name: str, *regions: str, own: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Return a deployment with a region rule; with labels of its own, it is written as a template."""
    settings = {**({"regions": list(regions)} if regions else {}), **spec}
    if own is None:
        return _object("ModelDeployment", name, {"replicas": 1, **settings})
    return _object(
        "ModelDeployment", name, {"replicas": 1, "template": {"metadata": {"labels": own}, "spec": settings}}
    )


def endpoint(name: str, region: str = "", url: str = "", **own: str) -> Manifest:
    """Return an endpoint with labels: that of its deployment as ``of``, and others as they are."""
    carried = {labels.DEPLOYMENT if key == "of" else key: value for key, value in own.items()}
    spec = {"url": url or f"http://{name}.example", **({"region": region} if region else {})}
    return _object("ModelEndpoint", name, {**spec, "rewritePath": f"/{name}/"}, carried)


def service(*tiers: Mapping[str, str]) -> ModelService:
    """Return a service with one tier for each selector."""
    entries = [{"selector": {"matchLabels": dict(wanted)}, "priority": at} for at, wanted in enumerate(tiers)]
    return decode_as(ModelService, _object("ModelService", "qwen", {"endpoints": entries}))


def composed(
    owner: ModelService,
    deployments: Sequence[Manifest] | Unknown,
    endpoints: Sequence[Manifest],
    proxy: Backend = Backend.ENVOY,
    observed: Mapping[str, Manifest] | None = None,
) -> Composition | Blocked:
    """Compose the service behind a gateway on this machine."""
    gateway = {
        **_object("InferenceGateway", "default", {"backend": str(proxy)}),
        "status": {"address": "127.0.0.1:8080", "backend": str(proxy)},
    }
    found = deployments if isinstance(deployments, Unknown) else tuple(deployments)
    required = {"gateway": (gateway,), "endpoints": tuple(endpoints), "deployments": found}
    facts = ServiceFacts(proxy, gateway_is_local=True)
    return compose(Request(owner, observed or {}, required, facts))


def routed(composition: Composition | Blocked) -> dict[str, tuple[int, int]]:
    """Return priority and weight of each endpoint that a composed service routes to."""
    assert isinstance(composition, Composition)
    [route] = composition.routes
    return {each.name.rpartition("/")[2]: (each.priority, each.weight) for each in route.backends}
