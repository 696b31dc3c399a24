"""An API server that stores what is written, in a few lines: enough to save a fleet and to restore it."""

import copy
import itertools
import json
import uuid
from typing import Any

import httpx2

from modelplane.backup.contents import list_contents
from modelplane.controllers.fleet_resources import find_known, resource_of
from modelplane.kube.client import Client

Object = dict[str, Any]

_COLLECTIONS = {each.resource.plural for each in list_contents()} | {"secrets"}


class StoringServer:
    """Stores objects by their path; each write may be made to fail."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes: list[tuple[str, str]] = []
        self.fails_after: int | None = None
        """The number of writes after which none is answered any more."""
        self.expired = False
        """Whether earlier versions are not kept."""
        self._versions = itertools.count(1000)

    def client(self) -> Client:
        """Return a client of it."""
        http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(self))
        return Client(http, "tester", known=find_known)

    def put(self, item: Object) -> Object:
        """Store an object as it is."""
        resource, metadata = resource_of(item), item["metadata"]
        path = resource.build_path(metadata.get("namespace"), metadata["name"])
        stored = copy.deepcopy(item)
        stored["metadata"] = {"uid": str(uuid.uuid4()), **stored["metadata"]}
        stored["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[path] = stored
        return stored

    def get(self, kind: str, name: str) -> Object:
        """Return an object by kind and name."""
        return next(
            each for each in self.objects.values() if (each["kind"], each["metadata"]["name"]) == (kind, name)
        )

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if request.method == "GET":
            return self._read(path, dict(request.url.params))
        if self.fails_after is not None and len(self.writes) >= self.fails_after:
            raise httpx2.ConnectError("cut off")
        self.writes.append((request.method, path))
        body = json.loads(request.content)
        manager = request.url.params.get("fieldManager", "")
        if request.method == "POST":
            return self._create(path, body, manager)
        return self._patch(path, body, manager, request.headers["content-type"])

    def _read(self, path: str, params: dict[str, str]) -> httpx2.Response:
        if path in self.objects:
            return _answer(self.objects[path])
        if path == "/apis":
            return _answer({"kind": "APIGroupList", "groups": []})
        if path.rsplit("/", 1)[-1] not in _COLLECTIONS:
            return self._missing(path)
        if self.expired and "resourceVersion" in params:
            return httpx2.Response(410, json={"kind": "Status", "message": "too old"})
        key, _, value = params.get("labelSelector", "").partition("=")
        found = [
            copy.deepcopy(each)
            for place, each in sorted(self.objects.items())
            if (resource_of(each).build_path() == path or place.rsplit("/", 1)[0] == path)
            and (not key or each["metadata"].get("labels", {}).get(key) == value)
        ]
        begin, limit = int(params.get("continue", 0)), int(params.get("limit", 10**6))
        rest = str(begin + limit) if begin + limit < len(found) else ""
        metadata = {"resourceVersion": "1000", "continue": rest}
        return _answer({"kind": "List", "metadata": metadata, "items": found[begin : begin + limit]})

    @staticmethod
    def _missing(path: str) -> httpx2.Response:
        return httpx2.Response(404, json={"kind": "Status", "message": f'"{path}" not found'})

    def _create(self, path: str, body: Object, manager: str) -> httpx2.Response:
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            return httpx2.Response(409, json={"kind": "Status", "message": "exists"})
        body.pop("status", None)
        body["metadata"] |= {"uid": str(uuid.uuid4()), "managedFields": [{"manager": manager}]}
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[place] = body
        return _answer(body)

    def _patch(self, path: str, body: Object, manager: str, content_type: str) -> httpx2.Response:
        place, subresource, _ = path.partition("/status")
        if "apply" in content_type:
            self.put(body)["metadata"]["managedFields"] = [{"manager": manager}]
            if body["kind"] == "CustomResourceDefinition":
                established = {"conditions": [{"type": "Established", "status": "True"}]}
                self.objects[place]["status"] = established
            return _answer(self.objects[place])
        if place not in self.objects:
            return self._missing(place)
        stored = self.objects[place]
        part = {"status": body["status"]} if subresource else {k: v for k, v in body.items() if k != "status"}
        _merge(stored, part)
        if "managedFields" not in body.get("metadata", {}):
            stored["metadata"].setdefault("managedFields", []).append({"manager": manager})
        stored["metadata"]["resourceVersion"] = str(next(self._versions))
        return _answer(stored)


def _merge(stored: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(stored.get(key), dict):
            _merge(stored[key], value)
        else:
            stored[key] = value


def _answer(content: Any) -> httpx2.Response:
    return httpx2.Response(200, json=content)
