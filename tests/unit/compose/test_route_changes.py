"""While the endpoints of a service come and go, no request is lost on a gateway of the Gateway API."""

from typing import Any

import pytest

from modelplane.api.model_service import ModelService
from modelplane.api.names import name_front
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Keep, Request
from modelplane.compose.facts import ServiceFacts
from modelplane.compose.service.model_service import compose
from modelplane.gateway.gateway_api import route_tree
from modelplane.gateway.gateway_api.route_tree import ROUTE
from support.http_route_semantics import NOT_FOUND, Gateway, Request as Asked

SERVICE = decode_as(
    ModelService,
    {
        "metadata": {"name": "qwen", "namespace": "ml-team", "uid": "u"},
        "spec": {"endpoints": [{"selector": {"matchLabels": {"model": "qwen"}}}]},
    },
)
ACCEPTED = [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}]


def _endpoint(number: int) -> dict[str, Any]:
    metadata = {"name": f"e{number:03}", "namespace": "ml-team", "labels": {"model": "qwen"}}
    spec = {"url": "http://192.0.2.7", "rewritePath": f"/ml-team/e{number:03}/"}
    kind = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelEndpoint"}
    return {**kind, "metadata": metadata, "spec": spec}


class Bench:
    """A gateway, and the objects of one service on it."""

    def __init__(self, backend: str, *, deletes_first: bool) -> None:
        self.backend = backend
        self.deletes_first = deletes_first
        self.stored: dict[str, dict[str, Any]] = {}

    def reconcile(self, endpoints: int) -> bool:
        """Carry out one composition, change by change; return True if it changed anything."""
        gateway = {"status": {"address": "203.0.113.1", "backend": self.backend}}
        found = tuple(map(_endpoint, range(endpoints)))
        composition = compose(
            Request(
                SERVICE,
                dict(self.stored),
                {"gateway": (gateway,), "endpoints": found, "deployments": ()},
                ServiceFacts(),
            )
        )
        assert isinstance(composition, Composition)
        children = {each.key: each for each in composition.children}
        writes = {
            key: {**each.manifest, "metadata": {**each.manifest["metadata"], "generation": 1}}
            for key, each in children.items()
            if isinstance(each, Desired)
        }
        drops = self.stored.keys() - children.keys()
        kept = {key for key, each in children.items() if isinstance(each, Keep)}
        assert kept <= self.stored.keys()
        changes = [(key, item) for key, item in writes.items() if self._known(key) != item]
        deletions: list[Any] = [(key, None) for key in sorted(drops)]
        for key, item in [*deletions, *changes] if self.deletes_first else [*changes, *deletions]:
            if item is None:
                del self.stored[key]
            else:
                self.stored[key] = item
            self._check()
        for item in self.stored.values():
            item["status"] = {"parents": [{"conditions": ACCEPTED}]}
        return bool(changes or deletions)

    def _known(self, key: str) -> dict[str, Any]:
        return {name: value for name, value in self.stored.get(key, {}).items() if name != "status"}

    def _check(self) -> None:
        if ROUTE in self.stored:
            routes = [item for key, item in self.stored.items() if key.startswith(ROUTE)]
            implementation = route_tree.find_implementation(self.backend, ())
            gateway = Gateway(implementation, routes, name_front("qwen"))
            shares = gateway.shares(Asked("/ml-team/qwen/v1/models"))
            assert NOT_FOUND not in {name for name, _ in shares}, "a request is lost"


@pytest.mark.parametrize("deletes_first", [True, False])
@pytest.mark.parametrize("backend", ["Traefik", "EnvoyGateway", "GatewayAPI"])
def test_no_change_of_the_endpoints_loses_a_request(backend: str, deletes_first: bool) -> None:
    bench = Bench(backend, deletes_first=deletes_first)
    for endpoints in (1, 2, 3, 16, 17, 40, 39, 17, 16, 2, 1):
        rounds = 0
        while bench.reconcile(endpoints):
            rounds += 1
            assert rounds < 6, "it never comes to rest"
        routes = [item for key, item in bench.stored.items() if key.startswith(ROUTE)]
        rules = [rule for item in routes for rule in item["spec"]["rules"]]
        named = {each["name"] for rule in rules for each in rule["backendRefs"]}
        assert len(named - {name_front("qwen")}) == endpoints
