"""Identities: credentials of clouds, exchanged for tokens that are renewed."""

import asyncio

import pytest

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.controllers.clusters.cloud_identities import Credential, Identities, Token

KEY = Credential(IdentityType.GOOGLE, b"key", 'Secret "key" in namespace "modelplane-system"')
OTHER = Credential(IdentityType.GOOGLE, b"other", 'Secret "other" in namespace "modelplane-system"')


class Cloud:
    """A clock, and a cloud that answers a token for an hour of it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.asked: list[bytes] = []
        self.problem = ""
        self.told: list[str] = []
        self.identities = Identities({IdentityType.GOOGLE: self.exchange}, self.told.append, lambda: self.now)

    def exchange(self, credential: Credential) -> Token:
        content = credential.content
        self.asked.append(content)
        if self.problem:
            raise ValueError(self.problem)
        return Token(f"{content.decode()}-{len(self.asked)}", self.now + 3600)

    async def pass_by(self, seconds: float) -> None:
        self.now += seconds
        await self.identities.look()

    def token(self, cluster: str, credential: Credential = KEY) -> str:
        found = self.identities.use(cluster, credential)
        return found.text if isinstance(found, Token) else found


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


async def test_clusters_with_the_same_credential_share_a_token(cloud: Cloud) -> None:
    names = [f"c{number}" for number in range(100)]
    assert {cloud.token(name) for name in names} == {
        'the credential in Secret "key" in namespace "modelplane-system" is being exchanged for a token'
    }
    await cloud.pass_by(1)
    assert cloud.asked == [b"key"]
    assert sorted(cloud.told) == sorted(names)
    assert {cloud.token(name) for name in names} == {"key-1"}


async def test_a_token_is_renewed_at_half_of_its_life(cloud: Cloud) -> None:
    cloud.token("east")
    await cloud.pass_by(1)
    await cloud.pass_by(1799)
    assert len(cloud.asked) == 1
    await cloud.pass_by(2)
    assert cloud.token("east") == "key-2"
    assert cloud.told == ["east", "east"]


async def test_a_failure_is_retried_ever_more_seldom_and_the_token_is_used_to_its_end(cloud: Cloud) -> None:
    cloud.token("east")
    await cloud.pass_by(1)
    cloud.problem = "it has been revoked"
    for _ in range(1000):
        await cloud.pass_by(3)
    assert 6 <= len(cloud.asked) <= 15
    assert cloud.token("east") == "key-1"
    await cloud.pass_by(601)
    assert cloud.token("east") == (
        'the credential in Secret "key" in namespace "modelplane-system" cannot be used: it has been revoked'
    )


async def test_a_credential_that_no_cluster_uses_is_not_renewed(cloud: Cloud) -> None:
    cloud.token("east")
    cloud.token("west")
    await cloud.pass_by(1)
    cloud.token("east", OTHER)
    cloud.identities.release("west")
    await cloud.pass_by(3000)
    assert cloud.asked == [b"key", b"other"]


async def test_a_slow_cloud_delays_no_other_credential(cloud: Cloud) -> None:
    slow = asyncio.Event()
    loop = asyncio.get_running_loop()

    def exchange(credential: Credential) -> Token:
        content = credential.content
        if content == b"key":
            asyncio.run_coroutine_threadsafe(slow.wait(), loop).result(30)
        return Token(content.decode(), cloud.now + 3600)

    identities = Identities({IdentityType.GOOGLE: exchange}, cloud.told.append, lambda: cloud.now)
    identities.use("slow", KEY)
    identities.use("east", OTHER)
    looking = asyncio.create_task(identities.look())
    async with asyncio.timeout(10):
        while cloud.told != ["east"]:
            await asyncio.sleep(0.01)
    slow.set()
    await looking
    assert cloud.told == ["east", "slow"]


def test_neither_a_token_nor_a_credential_is_printed() -> None:
    assert "key-1" not in repr(Token("key-1", 1.0))
    assert "b'key'" not in repr(KEY)
