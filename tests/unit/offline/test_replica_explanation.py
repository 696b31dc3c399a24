"""Why a replica is where it is, and why it serves or not."""

import pytest

from modelplane.api.model_replica import ModelReplica
from modelplane.offline.explain.replica_explanation import Routing, explain_replica
from modelplane.offline.plan.fleet_of_files import assemble
from modelplane.scheduler.existing.retention import STILL_FITS
from support.manifests import API, CLASS, DEPLOYMENT, cluster, joined, loaded

REPLICA = f"""\
apiVersion: {API}
kind: ModelReplica
metadata:
  name: qwen-3f2a1
  namespace: ml-team
  labels: {{modelplane.ai/deployment: qwen, modelplane.ai/cluster: west, modelplane.ai/replica-index: "0"}}
spec:
  clusterName: west
  engines:
    - name: qwen
      members:
        - nodePoolName: pool
          deviceRequests:
            - name: gpu
              deviceClassName: gpu.nvidia.com
              selectors: [{{cel: device.driver == "gpu.nvidia.com"}}]
          template: {{spec: {{containers: [{{name: engine, image: "vllm/vllm-openai:v0.23.0"}}]}}}}
"""
ENDPOINT = f"""\
apiVersion: {API}
kind: ModelEndpoint
metadata: {{name: qwen-3f2a1, namespace: ml-team, labels: {{modelplane.ai/deployment: qwen}}}}
spec: {{url: "http://192.0.2.7:80/v1"}}
"""
SERVICE = f"""\
apiVersion: {API}
kind: ModelService
metadata: {{name: qwen, namespace: ml-team}}
spec: {{endpoints: [{{selector: {{matchLabels: {{modelplane.ai/deployment: qwen}}}}}}]}}
"""
FLEET = joined(CLASS, cluster("west"))


def ready(holds, message=""):
    said = f"type: Ready, status: '{holds}', reason: X, lastTransitionTime: '2026-11-22T00:00:00Z'"
    return f"status:\n  conditions: [{{{said}, message: '{message}'}}]\n"


def explained(*documents, live=False):
    found = loaded(joined(*documents))
    assert found.problems == ()
    files = assemble(found.objects, live=live)
    [wanted] = files.store.list_kind(ModelReplica)
    return explain_replica(files, wanted)


def test_a_replica_that_serves_is_where_the_scheduler_keeps_it():
    found = explained(FLEET, DEPLOYMENT, REPLICA + ready(True), ENDPOINT, SERVICE)
    assert (found.ready, found.reason, found.cluster, found.deployment) == (True, "", "west", "qwen")
    assert (found.placement.state, found.placement.reason) == (
        "stays",
        STILL_FITS,
    )
    assert found.endpoint == "http://192.0.2.7:80/v1"
    assert found.services == (
        Routing(service="qwen", percent=100.0, reason="matches modelplane.ai/deployment=qwen"),
    )
    assert found.notes == ()


def test_one_that_does_not_serve_says_why_and_where_to_look():
    found = explained(FLEET, DEPLOYMENT, REPLICA + ready(False, "the image cannot be pulled"), live=True)
    assert (found.ready, found.reason, found.endpoint, found.services) == (
        False,
        "X: the image cannot be pulled",
        "",
        (),
    )
    assert found.notes[-1] == "for the engines' logs, run `modelplane logs mr/qwen-3f2a1 -n ml-team`"


def test_one_that_is_to_go_says_so():
    fewer = DEPLOYMENT.replace("replicas: 1", "replicas: 0")
    found = explained(FLEET, fewer, REPLICA + ready(True))
    assert (found.placement.state, found.placement.reason) == ("goes", "scaled down")


def test_a_file_without_a_status_has_none():
    found = explained(FLEET, DEPLOYMENT, REPLICA)
    assert (found.ready, found.reason, found.conditions) == (False, "no status yet", ())


@pytest.mark.parametrize(
    ("fleet", "live", "notes"),
    [
        pytest.param(
            (DEPLOYMENT,),
            False,
            ('no file contains InferenceCluster "west"',),
            id="no file has its cluster",
        ),
        pytest.param(
            (DEPLOYMENT,),
            True,
            ('InferenceCluster "west" does not exist',),
            id="its cluster is gone",
        ),
        pytest.param(
            (DEPLOYMENT, cluster("west") + ready(False, "its API server does not answer")),
            False,
            ('InferenceCluster "west" is not ready: X: its API server does not answer',),
            id="its cluster is not ready",
        ),
        pytest.param(
            (FLEET,),
            False,
            ("no file contains the ModelDeployment, so the reason for the placement is unknown",),
            id="no file has its deployment",
        ),
    ],
)
def test_what_is_around_it_is_told(fleet, live, notes):
    assert explained(*fleet, REPLICA + ready(True), live=live).notes == notes


def test_a_claim_that_no_card_matches_is_told_with_the_figure_that_works():
    hopper = CLASS.replace("count: 1\n", "count: 1\n      attributes: {architecture: {string: Hopper}}\n")
    memory = """device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("141Gi")) >= 0"""
    waiting = REPLICA.replace('{cel: device.driver == "gpu.nvidia.com"}', f"{{cel: '{memory}'}}")
    fleet = joined(hopper.replace("23034Mi", "141Gi"), cluster("west"))
    [note] = explained(fleet, DEPLOYMENT, waiting + ready(False, "Pending")).notes
    assert note == (
        'pool pool of InferenceCluster "west": device "gpu" declares 141Gi of memory, but NVIDIA H200 '
        "publishes 143771Mi, so pods that ask for more remain Pending: declare 143771Mi"
    )
