"""Kinds that are not known beforehand are found by the server's own word."""

from typing import Any

import httpx2
import pytest

from modelplane.kube import errors, resources
from modelplane.kube.client import Client

CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "ns"}}
JOBS = {"name": "jobs", "kind": "Job", "namespaced": True}
STATUS = {"name": "cronjobs/status", "kind": "CronJob", "namespaced": True}
CRON_JOBS = {"name": "cronjobs", "kind": "CronJob", "namespaced": True}
GROUPS = {"kind": "APIGroupList", "groups": [{"versions": [{"groupVersion": "apps/v1"}]}]}


class Server:
    """Answers what it is given by path, accepts every write to a kind that it has, and keeps a record."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(f"{request.method} {request.url.path}")
        if request.method == "PATCH" and any(
            f"/{each['name']}/" in request.url.path
            for found in self.answers.values()
            for each in found.get("resources", ())
        ):
            return httpx2.Response(200, json=CRON_JOB)
        found = self.answers.get(request.url.path)
        return httpx2.Response(404, text="404 page not found") if found is None else _json(found)

    @property
    def client(self) -> Client:
        transport = httpx2.MockTransport(self)
        return Client(httpx2.AsyncClient(base_url="http://server", transport=transport), "modelplane")


def _json(content: Any) -> httpx2.Response:
    return httpx2.Response(200, json=content)


def _kinds(*listed: Any) -> dict[str, Any]:
    return {"kind": "APIResourceList", "resources": list(listed)}


async def test_a_kind_that_is_not_known_is_asked_for_once_and_written() -> None:
    server = Server({"/apis/batch/v1": _kinds(JOBS, STATUS, CRON_JOBS)})
    client = server.client
    await client.apply(CRON_JOB)
    await client.apply(CRON_JOB)
    write = "PATCH /apis/batch/v1/namespaces/ns/cronjobs/c"
    assert server.asked == ["GET /apis/batch/v1", write, write]


async def test_a_kind_that_is_known_is_not_asked_for() -> None:
    server = Server({"/apis/apps/v1": _kinds({"name": "deployments", "kind": "Deployment"})})
    await server.client.apply({**CRON_JOB, "apiVersion": "apps/v1", "kind": "Deployment"})
    assert server.asked == ["PATCH /apis/apps/v1/namespaces/ns/deployments/c"]


async def test_a_kind_that_is_installed_later_is_found_then() -> None:
    server = Server({"/apis/batch/v1": _kinds(JOBS)})
    client = server.client
    with pytest.raises(errors.NotInstalled, match="kind CronJob of batch/v1 is not installed"):
        await client.apply(CRON_JOB)
    server.answers["/apis/batch/v1"] = _kinds(JOBS, CRON_JOBS)
    assert (await client.find_resource(CRON_JOB)).plural == "cronjobs"


@pytest.mark.parametrize(
    ("manifest", "named"),
    [
        pytest.param(CRON_JOB, "kind CronJob of batch/v1", id="one that is not known beforehand"),
        pytest.param(
            {**CRON_JOB, "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"},
            "kind LeaderWorkerSet of leaderworkerset.x-k8s.io/v1",
            id="one that is known beforehand",
        ),
    ],
)
async def test_a_kind_whose_group_is_not_installed_is_named(manifest: Any, named: str) -> None:
    with pytest.raises(errors.NotInstalled, match=f"{named} is not installed"):
        await Server({"/apis": GROUPS}).client.apply(manifest)


async def test_a_404_of_something_in_front_of_the_server_is_no_word_of_it() -> None:
    with pytest.raises(errors.ApiError, match="cannot tell whether there is /apis/batch/v1") as raised:
        await Server({"/apis": {"kind": "Page"}}).client.apply(CRON_JOB)
    assert not isinstance(raised.value, errors.NotInstalled)


async def test_a_missing_namespace_is_not_a_missing_kind() -> None:
    message = 'namespaces "ns" not found'
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.method)
        return httpx2.Response(404, json={"kind": "Status", "reason": "NotFound", "message": message})

    transport = httpx2.MockTransport(answer)
    client = Client(httpx2.AsyncClient(base_url="http://server", transport=transport), "modelplane")
    with pytest.raises(errors.NotFound, match=message):
        await client.apply({**CRON_JOB, "kind": "Job"})
    assert asked == ["PATCH"]


async def test_a_core_kind_is_found_too() -> None:
    endpoints = {"name": "endpoints", "kind": "Endpoints", "namespaced": True}
    server = Server({"/api/v1": _kinds(endpoints)})
    found = await server.client.find_resource({"apiVersion": "v1", "kind": "Endpoints"})
    assert found == resources.Resource("", "v1", "Endpoints", "endpoints")
