"""Reading a cluster whose answers are not trusted: bounded, and a page at a time."""

from typing import Any

import httpx2
import pytest

from modelplane.controllers import fleet_resources
from modelplane.install.registration import looking
from modelplane.install.registration.looking import look
from modelplane.install.registration.observed import MOST_NODES, Gateway
from modelplane.kube.client import Client
from modelplane.kube.errors import ApiError

Object = dict[str, Any]

VERSION = {"gitVersion": "v1.34.1"}
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "u-1"}}
DRA = {"kind": "APIGroup", "versions": [{"version": "v1"}, {"version": "v1beta1"}, {"version": "-"}, 7]}
GATEWAYS = "/apis/gateway.networking.k8s.io/v1/gateways"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Server:
    """A cluster that answers what it is given, and counts the requests for each path."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers: dict[str, object] = {
            "/version": VERSION,
            "/api/v1/namespaces/kube-system": NAMESPACE,
            "/api/v1/nodes": listed(),
            **answers,
        }
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append(path)
        answer = self.answers.get(path)
        if answer is None:
            return httpx2.Response(404, json={"kind": "Status", "message": f'"{path}" not found'})
        if isinstance(answer, bytes):
            return httpx2.Response(200, content=answer)
        if isinstance(answer, dict) and "pages" in answer:
            pages = answer["pages"]
            place = int(request.url.params.get("continue", "0"))
            return httpx2.Response(200, json=listed(pages[place], place + 1 < len(pages) and str(place + 1)))
        return httpx2.Response(200, json=answer)

    def client(self) -> Client:
        http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(self))
        return Client(http, "modelplane-cli", known=fleet_resources.find_known)


def listed(items: object = (), token: object = "") -> Object:
    return {"kind": "List", "metadata": {"continue": token or ""}, "items": items}


def node(name: str) -> Object:
    return {"metadata": {"name": name}}


async def test_every_page_is_read() -> None:
    server = Server({"/api/v1/nodes": {"pages": [[node("a")], [node("b"), 7], []]}})
    async with server.client() as client:
        seen = await look(client)
    assert [each.name for each in seen.nodes] == ["a", "b"]
    assert (seen.uid, seen.version) == ("u-1", "v1.34.1")


async def test_what_is_not_served_is_not_asked_for() -> None:
    server = Server({})
    async with server.client() as client:
        seen = await look(client)
    assert (seen.dra_versions, seen.gateway, seen.nodes) == ((), None, ())
    assert not any("resource.k8s.io/v1" in path or "gateways" in path.split("/") for path in server.asked)


async def test_devices_and_the_gateway_are_read_where_they_are_served() -> None:
    definition = {"kind": "CustomResourceDefinition", "metadata": {"name": "gateways"}}
    own = {"kind": "Gateway", "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"}}
    other = {"metadata": {"name": "main", "namespace": "infra"}}
    system = "/apis/gateway.networking.k8s.io/v1/namespaces/modelplane-system/gateways/inference-gateway"
    server = Server(
        {
            "/apis/resource.k8s.io": DRA,
            "/apis/resource.k8s.io/v1/resourceslices": listed(),
            "/apis/resource.k8s.io/v1/deviceclasses": listed([{"metadata": {"name": "gpu"}, "spec": {}}]),
            f"{CRDS}/gateways.gateway.networking.k8s.io": definition,
            GATEWAYS: listed([own, other]),
            "/apis/gateway.networking.k8s.io/v1/gatewayclasses": listed([{"spec": {"controllerName": "x"}}]),
            system: own,
        }
    )
    async with server.client() as client:
        seen = await look(client)
    assert seen.dra_versions == ("v1", "v1beta1")
    assert [each.name for each in seen.device_classes] == ["gpu"]
    assert (seen.gateway, seen.other_gateways) == (Gateway(False, ()), ("infra/main",))
    assert [*seen.definitions] == ["gateways.gateway.networking.k8s.io"]
    assert [*seen.gateway_controllers] == ["x"]


async def test_an_answer_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MOST_BYTES", 2**20)
    server = Server({"/api/v1/nodes": b" " * (2**20 + 1)})
    async with server.client() as client:
        with pytest.raises(ApiError, match="/api/v1/nodes answers more than 1 MiB"):
            await look(client)


async def test_pages_without_end_are_not_followed() -> None:
    server = Server({"/api/v1/nodes": listed([], "0")})
    async with server.client() as client:
        seen = await look(client)
    assert seen.nodes == ()
    assert server.asked.count("/api/v1/nodes") <= MOST_NODES // 500 + 1


@pytest.mark.parametrize("answer", [b"[]", b"<html>", b'"text"'])
async def test_what_is_no_object_is_an_error(answer: bytes) -> None:
    server = Server({"/version": answer})
    async with server.client() as client:
        with pytest.raises(ApiError, match="/version did not return a Kubernetes object"):
            await look(client)


@pytest.mark.parametrize("path", ["/version", "/api/v1/nodes", "/apis/resource.k8s.io"])
@pytest.mark.parametrize("field", ["items", "metadata", "versions", "gitVersion"])
@pytest.mark.parametrize("value", [7, [7], {"a": 7}, "text", None])
async def test_fields_of_another_type_are_left_out(path: str, field: str, value: object) -> None:
    server = Server({path: {field: value}})
    async with server.client() as client:
        seen = await look(client)
    assert (seen.nodes, seen.dra_versions) == ((), ())
