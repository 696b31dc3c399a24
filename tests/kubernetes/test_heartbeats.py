"""The account that the page on failover shows: it renews the heartbeat of its own cluster only."""

import asyncio
import re
import textwrap
from pathlib import Path

import pytest
import yaml

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.controllers.clusters.heartbeats import renew
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "failover.md"


def shown(cluster):
    """Return the manifests of the page, for a cluster of this name."""
    [block] = [
        each for each in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "Lease" in each
    ]
    manifests = textwrap.dedent(block).replace("heartbeat-east", f"heartbeat-{cluster}")
    return list(yaml.safe_load_all(manifests))


def with_token(kubeconfig, token):
    """Return a kubeconfig whose users have a token instead of their certificates."""
    content = yaml.safe_load(kubeconfig.read_text())
    return content | {
        "users": [{"name": each["name"], "user": {"token": token}} for each in content["users"]]
    }


async def test_a_cluster_renews_its_own_lease_and_may_do_nothing_else(client, control_plane):
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
    for manifest in (*shown("east"), *shown("west")):
        await client.apply(manifest)
    token = await client.create_token("heartbeat-east", SYSTEM_NAMESPACE, 600)
    kubeconfig = with_token(control_plane.kubeconfig, token)
    said: list[str] = []
    async with Client.from_kubeconfig(kubeconfig) as cluster:

        async def allowed():
            try:
                return await cluster.patch(resources.LEASES, "heartbeat-east", {}, SYSTEM_NAMESPACE)
            except errors.Forbidden:  # the server learns of a role a moment after it stores it
                return None

        await eventually(allowed)
        renewing = asyncio.create_task(renew(cluster, "east", "pod", said.append))

        async def renewed():
            lease = await client.get(resources.LEASES, "heartbeat-east", SYSTEM_NAMESPACE)
            # It says so once it has the answer, a moment after the server has the time.
            return said and "renewTime" in (lease.get("spec") or {})

        await eventually(renewed)
        renewing.cancel()
        assert said == ['renews Lease "heartbeat-east" every 10 s']

        stolen = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        for refused in (
            cluster.patch(resources.LEASES, "heartbeat-west", stolen, SYSTEM_NAMESPACE),
            cluster.get(resources.LEASES, "heartbeat-east", SYSTEM_NAMESPACE),
            cluster.list(resources.LEASES, SYSTEM_NAMESPACE),
            cluster.list(resources.SECRETS, SYSTEM_NAMESPACE),
            cluster.delete(resources.LEASES, "heartbeat-east", SYSTEM_NAMESPACE),
        ):
            with pytest.raises(errors.Forbidden):
                await refused
    for manifest in (*shown("east"), *shown("west")):
        resource = await client.find_resource(manifest)
        await client.delete(resource, manifest["metadata"]["name"], SYSTEM_NAMESPACE)
