from typing import Any

import pytest

from modelplane.api.clouds.cluster_origin import Source
from modelplane.compose.clouds import flow
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Composition, Desired, Keep, Unknown
from unit.compose.clouds.composed import composed, said

GKE = RECIPES[Source.GKE]
EKS = RECIPES[Source.EKS]
CONTAINER = "xpkg.crossplane.io/crossplane-contrib/provider-gcp-container"
POOL = {
    "name": "gpu",
    "role": "GPU",
    "machineType": "g2-standard-8",
    "minNodeCount": 0,
    "maxNodeCount": 2,
    "zones": ["us-central1-a"],
    "gpu": {"acceleratorType": "nvidia-l4"},
}


def _gke(**spec: Any) -> dict[str, Any]:
    return {"region": "us-central1", "project": "my-project", "nodePools": [POOL], **spec}


def test_a_provider_that_is_not_installed_is_named_and_nothing_is_written() -> None:
    composition = composed(GKE, _gke(), {"network": {}}, {flow.DEFINITION_KEY + CONTAINER: ()})
    assert said(composition) == (
        "ProviderNotInstalled",
        f"the CRDs for Google Cloud are not installed: install Crossplane's package {CONTAINER}:v2.6.0",
    )
    assert [each.key for each in composition.children] == ["network"]


def test_a_definition_that_is_being_deleted_counts_as_missing() -> None:
    key = flow.DEFINITION_KEY + "xpkg.crossplane.io/crossplane-contrib/provider-gcp-compute"
    leaving = {"metadata": {"name": "networks", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert said(composed(GKE, _gke(), required={key: (leaving,)}))[0] == "ProviderNotInstalled"


def test_a_definition_that_cannot_be_read_is_no_reason_to_change_anything() -> None:
    key = flow.DEFINITION_KEY + "xpkg.crossplane.io/crossplane-contrib/provider-gcp-compute"
    composition = composed(GKE, _gke(), {"network": {}}, {key: Unknown("forbidden")})
    assert said(composition) == (
        "ProviderNotInstalled",
        "cannot read CustomResourceDefinition networks.compute.gcp.m.upbound.io: forbidden",
    )
    assert [each.key for each in composition.children] == ["network"]


@pytest.mark.parametrize(
    ("spec", "name", "cause"),
    [
        pytest.param(
            {"networking": {"podCidr": "10.0.0.0/16"}},
            "starter",
            "nodeCidr 10.0.0.0/24 and podCidr 10.0.0.0/16 overlap: use separate ranges",
            id="ranges overlap",
        ),
        pytest.param(
            {"nodePools": [{**POOL, "zones": ["us-east1-b"]}]},
            "starter",
            'pool "gpu": zone us-east1-b is not in region us-central1',
            id="a zone of another region",
        ),
        pytest.param(
            {
                "nodePools": [
                    {
                        **POOL,
                        "zones": ["us-central1-a", "us-central1-b"],
                        "minNodeCount": 3,
                        "maxNodeCount": 3,
                    }
                ]
            },
            "starter",
            "pool \"gpu\": 3 nodes can't be divided evenly among the pool's zones: make nodeCount a "
            "multiple of the number of zones, or use one pool per zone",
            id="a fixed size that no zone can have",
        ),
        pytest.param(
            {"systemPool": {"minNodeCount": 4}},
            "starter",
            "systemPool: minNodeCount is greater than maxNodeCount",
            id="a system pool without a size",
        ),
        pytest.param(
            {},
            "1st",
            "the cluster's name begins with a digit, but names on Google Cloud must begin with a letter",
            id="a name that Google Cloud does not accept",
        ),
    ],
)
def test_settings_that_contradict_each_other_change_nothing(
    spec: dict[str, Any], name: str, cause: str
) -> None:
    composition = composed(GKE, _gke(**spec), {"network": {}, "cluster": {}}, name=name)
    assert said(composition) == ("InvalidSettings", cause)
    assert [each.key for each in composition.children] == ["cluster", "network"]


def _eks(**spec: Any) -> dict[str, Any]:
    pool = {
        "name": "gpu",
        "role": "GPU",
        "instanceType": "g6.xlarge",
        "zones": ["us-east-2a"],
        "gpu": {"acceleratorType": "nvidia-l4"},
    }
    return {"region": "us-east-2", "nodePools": [pool | spec.pop("pool", {})], **spec}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param(
            {"pool": {"zones": ["us-east-1a"]}},
            'pool "gpu": zone us-east-1a is not in region us-east-2',
            id="a zone of another region",
        ),
        pytest.param(
            {"pool": {"zones": ["us-east-2d"]}},
            'pool "gpu": the cluster has no subnet in zone us-east-2d: add a range to '
            "networking.subnetCidrs, or list the zones in networking.zones",
            id="a zone without a subnet",
        ),
        pytest.param(
            {"networking": {"subnetCidrs": ["10.0.0.0/17", "10.0.128.0/17"]}},
            "vpcCidr 10.0.0.0/16 is too small for private subnets that are as large as the public subnets",
            id="no room for private subnets",
        ),
        pytest.param(
            {"networking": {"subnetCidrs": ["10.0.0.0/20", "10.1.0.0/20"]}},
            "subnetCidrs[1] 10.1.0.0/20 is not inside vpcCidr 10.0.0.0/16",
            id="a subnet outside the VPC",
        ),
        pytest.param(
            {"networking": {"zones": ["us-east-2a"]}},
            "networking.zones has 1 items, but subnetCidrs has 3: use the same number",
            id="too few zones",
        ),
    ],
)
def test_settings_of_eks_that_contradict_each_other_change_nothing(spec: dict[str, Any], cause: str) -> None:
    composition = composed(EKS, _eks(**spec), {"vpc": {}, "cluster": {}})
    assert said(composition) == ("InvalidSettings", cause)
    assert [each.key for each in composition.children] == ["cluster", "vpc"]


def test_a_range_added_to_a_vpc_moves_no_private_subnet() -> None:
    def private(composition: Composition) -> dict[str, str]:
        return {
            each.key: each.manifest["spec"]["forProvider"]["cidrBlock"]
            for each in composition.children
            if isinstance(each, Desired) and each.key.startswith("private-subnet-")
        }

    first = composed(EKS, _eks())
    made = {each.key: each.manifest for each in first.children if isinstance(each, Desired)}
    ranges = ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20", "10.0.96.0/20"]
    wider = composed(EKS, _eks(networking={"subnetCidrs": ranges}), made)
    assert private(wider) == private(first) | {"private-subnet-3": "10.0.112.0/20"}


def test_nodes_with_adapters_are_kept_while_aws_does_not_report_their_groups() -> None:
    pool = {"fabric": "EFA", "instanceType": "p4d.24xlarge"}
    kept: dict[str, Any] = {"nodegroup-gpu": {}, "launch-template-gpu": {}}
    composition = composed(EKS, _eks(pool=pool), kept)
    assert {each.key for each in composition.children if isinstance(each, Keep)} == set(kept)


@pytest.mark.parametrize(
    ("region", "arn"),
    [
        ("us-east-2", "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"),
        ("cn-north-1", "arn:aws-cn:iam::aws:policy/AmazonEKSClusterPolicy"),
        ("us-gov-west-1", "arn:aws-us-gov:iam::aws:policy/AmazonEKSClusterPolicy"),
    ],
)
def test_the_policies_are_those_of_the_partition_of_the_region(region: str, arn: str) -> None:
    composition = composed(EKS, _eks(region=region, pool={"zones": [f"{region}a"]}))
    [attached] = [each for each in composition.children if each.key == "role-cluster-amazoneksclusterpolicy"]
    assert isinstance(attached, Desired)
    assert attached.manifest["spec"]["forProvider"]["policyArn"] == arn


def test_a_cluster_is_not_moved_to_another_project() -> None:
    made = {"spec": {"forProvider": {"workloadIdentityConfig": {"workloadPool": "first-one.svc.id.goog"}}}}
    assert said(composed(GKE, _gke(), {"cluster": made})) == (
        "InvalidSettings",
        "project is my-project, but the cluster is in first-one: a cluster can't be moved",
    )


def test_without_an_account_everything_that_does_not_need_its_project_is_composed() -> None:
    composition = composed(GKE, {"region": "us-central1", "nodePools": [POOL]})
    reason, message = said(composition)
    assert reason == "NotFound"
    assert message.endswith(
        'ClusterProviderConfig "default" of gcp.m.upbound.io/v1beta1: does not exist: create it'
    )
    assert {each.key for each in composition.children} == {
        "network",
        "subnet",
        "service-account",
        "service-account-key",
        "nodepool-system",
        "nodepool-gpu",
        "projectservice-filestore",
    }


def test_an_existing_cluster_keeps_its_project_while_the_account_cannot_be_read() -> None:
    made = {"spec": {"forProvider": {"workloadIdentityConfig": {"workloadPool": "first-one.svc.id.goog"}}}}
    composition = composed(
        GKE, {"region": "us-central1", "nodePools": [POOL]}, {"cluster": made}, {"account": Unknown("down")}
    )
    [cluster] = [each for each in composition.children if isinstance(each, Desired) and each.key == "cluster"]
    assert cluster.manifest["spec"]["forProvider"]["workloadIdentityConfig"] == {
        "workloadPool": "first-one.svc.id.goog"
    }


def test_the_error_of_a_provider_is_in_the_condition() -> None:
    message = "googleapi: Error 403: Quota exceeded"
    broken = {"status": {"conditions": [{"type": "Synced", "status": "False", "message": message}]}}
    assert said(composed(GKE, _gke(), {"network": broken})) == (
        "Provisioning",
        f'0 of 9 resources are ready: Network "starter-network-e2514": {message}',
    )


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        pytest.param(
            "https response error StatusCode: 403, RequestID: {id}, api error Denied",
            "https response error StatusCode: 403, api error Denied",
            id="AWS",
        ),
        pytest.param(
            "internal error, Correlation ID: {id}, Operation ID: {id}, Timestamp: 2020-08-14T00:0{n}:11Z.",
            "internal error",
            id="Azure",
        ),
        pytest.param(
            "AADSTS700016: not found.\r\nTrace ID: {id}\r\nCorrelation ID: {id}\r\n"
            "Timestamp: 2020-04-11 18:2{n}:24Z",
            "AADSTS700016: not found.",
            id="Microsoft Entra",
        ),
        pytest.param(
            '{{"error":"denied","trace_id":"{id}","timestamp":"2020-04-11 18:2{n}:24Z","code":7}}',
            '{"error":"denied","code":7}',
            id="Microsoft Entra, as JSON",
        ),
        pytest.param(
            "rpc error: code = NotFound desc = no subnet, request = {id}, trace = {id}",
            "rpc error: code = NotFound desc = no subnet",
            id="Nebius",
        ),
        pytest.param(
            "Bad Request: an operation id is missing",
            "Bad Request: an operation id is missing",
            id="words that are no id",
        ),
    ],
)
def test_the_same_error_has_the_same_text_whatever_the_id_of_the_request(message: str, shown: str) -> None:
    for number, request in enumerate(("0f3aab12-8e66d35acd7a", "77bc0264-193493ad6380")):
        text = message.format(id=request, n=number)
        broken = {"status": {"conditions": [{"type": "Synced", "status": "False", "message": text}]}}
        assert said(composed(EKS, _eks(), {"vpc": broken}))[1].partition('": ')[2] == shown


def test_a_cluster_is_ready_once_every_resource_is() -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "atProvider": {"member": "m"}}}
    first = composed(GKE, _gke(), {"service-account": ready})
    everything = {
        each.key: {**each.manifest, **ready} for each in first.children if isinstance(each, Desired)
    }
    assert said(composed(GKE, _gke(), everything)) == ("ClusterRunning", "all 9 resources are ready")
    assert composed(GKE, _gke(), {**everything, "subnet": {}}).ready is False
