"""A fleet in memory, and the server over it."""

from datetime import UTC, datetime
from typing import Any, Self

import pytest
from mcp.server.mcpserver import MCPServer

from modelplane.kube import errors
from modelplane.kube.http_messages import ObjectList
from modelplane.kube.resources import Resource
from modelplane.mcp.documentation_tools import DocumentationTools
from modelplane.mcp.fleet import Fleet
from modelplane.mcp.fleet_tools import FleetTools, SizeTool
from modelplane.mcp.server import build_server
from support.shown_fleet import ShownFleet, small

TEXTS = {
    "docs/how-to/drain.md": "# How to drain a cluster\n\nA drain moves replicas.\n\n"
    "## Limits\n\nTwo at a time.\n\n### More\n\nText.\n\n## End\n",
    "docs/reference/long.md": "# Long\n\n" + "A line of text.\n" * 6000 + "\n## Last\n\nThe end.\n",
    "examples/01-first/README.md": "# First answer\n\nDeploy a model.",
}
SKILLS = {"drain-it": "---\nname: drain-it\ndescription: Drain it.\n---\n\n# Drain it\n\nAsk first.\n"}


class FakeClient:
    """An API server that only lists and gets, and remembers what it was asked for."""

    def __init__(self, shown: ShownFleet) -> None:
        self.shown = shown
        self.asked: list[tuple[str, str]] = []
        self.fields: dict[str, str] = {}
        self.forbidden: set[str] = set()
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None: ...

    def _check(self, resource: Resource, namespace: str | None) -> None:
        self.asked.append((resource.kind, namespace or ""))
        if self.failure is not None:
            raise self.failure
        if resource.kind in self.forbidden:
            raise errors.Forbidden(403, "Forbidden", f'User "eve" cannot list {resource.plural}')

    async def list(self, resource: Resource, namespace: str | None = None, *, fields: str = "") -> ObjectList:
        self._check(resource, namespace)
        self.fields[resource.kind] = fields
        found = [
            item
            for item in self.shown.objects[resource.kind]
            if namespace in (None, item["metadata"].get("namespace"))
        ]
        return ObjectList(tuple(found), "1")

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Any:
        found = await self.list(resource, namespace)
        return next((item for item in found.items if item["metadata"]["name"] == name), None)


@pytest.fixture
def shown() -> ShownFleet:
    return small(datetime(2026, 11, 24, 12, tzinfo=UTC))


@pytest.fixture
def api(shown: ShownFleet) -> FakeClient:
    return FakeClient(shown)


@pytest.fixture
def fleet(api: FakeClient) -> Fleet:
    return Fleet(lambda: api)


@pytest.fixture
def served(fleet: Fleet) -> MCPServer:
    return build_server(DocumentationTools(TEXTS, {}), SKILLS, FleetTools(fleet), SizeTool(fleet))
