import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers import local_copies
from modelplane.controllers.local_copies import NamedObjects
from modelplane.kube.client import Client

TOKEN = Requirement("auth-secret", "v1", "Secret", "ml-team", "token")
PATH = "/api/v1/namespaces/ml-team/secrets"


class Bench:
    """Named objects, those who are told of them, and what is still required."""

    def __init__(self, client: Client) -> None:
        self.told: list[str] = []
        self.required = [TOKEN]
        self.named = NamedObjects(
            client, lambda item: self.told.append(item["metadata"]["name"]), self.required.__contains__
        )

    async def answer(self, requirement: Requirement = TOKEN) -> tuple[Any, ...] | Unknown:
        """Return what is found once its reader has been told to look again."""
        assert self.named.find(requirement) == Unknown("it is still being read", loading=True)
        while requirement.name not in self.told:
            await asyncio.sleep(0.02)
        return self.named.find(requirement)


@pytest.fixture
async def bench(client: Client) -> AsyncIterator[Bench]:
    made = Bench(client)
    yield made
    await made.named.close()


def _secret() -> dict[str, Any]:
    metadata = {"name": "token", "namespace": "ml-team", "uid": "u", "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


async def test_an_object_is_found_by_its_name(bench: Bench, plane: Any) -> None:
    plane._lists[PATH] = [_secret()]
    assert await bench.answer() == (_secret(),)
    assert "token" in bench.told


async def test_who_waits_for_an_object_that_is_not_there_is_told(bench: Bench) -> None:
    assert await bench.answer() == ()
    assert bench.told == ["token"]


async def test_an_object_that_may_not_be_read_is_not_a_missing_one(bench: Bench, plane: Any) -> None:
    plane.refuse("GET", PATH, 403, "secrets is forbidden")
    assert await bench.answer() == Unknown("secrets is forbidden")
    assert bench.told == ["token"]


async def test_a_copy_that_nobody_requires_any_more_is_dropped(bench: Bench) -> None:
    await bench.answer()
    bench.required.clear()
    other = Requirement("auth-secret", "v1", "Secret", "ml-team", "other")
    await bench.answer(other)
    assert [name.name for name in bench.named._copies["ml-team"]] == ["other"]


@pytest.mark.virtual_time
async def test_a_namespace_that_names_too_many_objects_takes_nothing_from_another(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copies, "MOST_PER_NAMESPACE", 3)
    bench.required[:] = [replace(TOKEN, name=f"token-{number}") for number in range(5)]
    found = [bench.named.find(requirement) for requirement in bench.required]
    assert [each.loading for each in found if isinstance(each, Unknown)] == [True, True, True, False, False]
    assert 'at most 3 Secrets and ConfigMaps are watched for namespace "ml-team"' in str(found[3])
    assert await bench.answer(replace(TOKEN, namespace="other-team", name="token-of-others")) == ()

    own = [Requirement("own-namespace", "v1", "Namespace", name=f"team-{number}") for number in range(5)]
    bench.required += own
    loading = Unknown("it is still being read", loading=True)
    assert [bench.named.find(each) for each in own] == [loading] * 5, "they are in no namespace"
    del bench.required[-5:]

    sweep = asyncio.create_task(bench.named.run())
    del bench.required[:2]
    await asyncio.sleep(15)
    assert {"token-3", "token-4"} <= set(bench.told), "they are told that there is room"
    assert bench.named.find(bench.required[-1]) == Unknown("it is still being read", loading=True)
    sweep.cancel()
