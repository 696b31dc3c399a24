import asyncio
import base64
import json

import pytest

from modelplane.kube.errors import Forbidden
from modelplane.operations.pod_logs import ClusterUnreachable, InferenceClusters

CLUSTER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceCluster",
    "metadata": {"name": "west"},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "west-kubeconfig"}}},
        "nodePools": [{"name": "pool", "className": "l4", "nodeCount": 1}],
    },
}

SECRET = 'Secret "west-kubeconfig" in namespace "modelplane-system"'


def kubeconfig(**user):
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


class ControlPlane:
    """Answers with the objects that it is given, by kind."""

    def __init__(self, **objects):
        self.objects = objects

    async def get(self, resource, _name, _namespace=None):
        await asyncio.sleep(0)
        found = self.objects.get(resource.kind)
        if isinstance(found, Exception):
            raise found
        return found


def secret(content):
    return {"data": {"kubeconfig": base64.b64encode(json.dumps(content).encode()).decode()}}


async def test_a_cluster_is_reached_by_its_kubeconfig_and_asked_for_it_once():
    plane = ControlPlane(InferenceCluster=CLUSTER, Secret=secret(kubeconfig(token="t")))
    clusters = InferenceClusters(plane)
    client, *others = await asyncio.gather(*(clusters.get_client("west") for _ in range(3)))
    assert [other is client for other in others] == [True, True]
    plane.objects.clear()
    assert await clusters.get_client("west") is client
    await clusters.close()


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        pytest.param({}, 'there is no InferenceCluster "west"', id="no cluster"),
        pytest.param(
            {"InferenceCluster": CLUSTER},
            f"there is no {SECRET}: create it with the cluster's kubeconfig",
            id="no Secret",
        ),
        pytest.param(
            {
                "InferenceCluster": CLUSTER,
                "Secret": Forbidden(403, "", "secrets is forbidden"),
            },
            "secrets is forbidden",
            id="a Secret that may not be read",
        ),
        pytest.param(
            {"InferenceCluster": CLUSTER, "Secret": secret(kubeconfig(exec={"command": "sh"}))},
            f"key \"kubeconfig\" of {SECRET} is not accepted, field 'users[].user.exec': it would run a "
            "program in the controllers: use a token, or client-certificate-data and client-key-data",
            id="a kubeconfig that would start a program here",
        ),
    ],
)
async def test_why_a_cluster_cannot_be_asked_is_one_sentence(objects, why):
    with pytest.raises(ClusterUnreachable) as raised:
        await InferenceClusters(ControlPlane(**objects)).get_client("west")
    assert str(raised.value) == f"{why}: use kubectl with a kubeconfig of that cluster"
