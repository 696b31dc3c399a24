"""Manifests of v0.1.0 and v0.3.1 that say the same thing in two ways."""

import pytest

from modelplane.api.clouds.cloud_cluster import ClusterSecret, SecretType
from modelplane.api.clouds.cloud_settings import Credentials, CredentialsKind
from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.api.clouds.serving_stack import Versions
from modelplane.api.fields.cluster.node_pools import Fabric, FabricType, InfiniBand
from modelplane.api.schema.decode import decode

PUBLIC = "modelplane.ai/v1alpha1"
INFRASTRUCTURE = "infrastructure.modelplane.ai/v1alpha1"


def _read(kind, spec, api_version=PUBLIC):
    return decode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "case"}, "spec": spec}).spec


def _fabric(written):
    cluster = _read(
        "InferenceCluster",
        {
            "cluster": {"source": "EKS", "eks": {"region": "us-west-2"}},
            "nodePools": [{"name": "h200", "className": "h200", "zones": ["us-west-2a"], **written}],
        },
    )
    return cluster.node_pools[0].build_interconnect()


@pytest.mark.parametrize(
    ("older", "newer", "meant"),
    [
        pytest.param({}, {"fabric": {}}, Fabric(), id="no fabric"),
        pytest.param({"fabric": "None"}, {"fabric": {"type": "None"}}, Fabric(), id="the fabric None"),
        pytest.param(
            {"fabric": "EFA"}, {"fabric": {"type": "EFA"}}, Fabric(type=FabricType.EFA), id="the fabric EFA"
        ),
    ],
)
def test_a_fabric_means_the_same_as_a_word_and_as_an_object(older, newer, meant):
    assert (_fabric(older), _fabric(newer)) == (meant, meant)


def test_a_fabric_of_infiniband_keeps_its_network():
    written = {"type": "InfiniBand", "infiniband": {"fabric": "fabric-2"}}
    assert _fabric({"fabric": written}) == Fabric(
        type=FabricType.INFINIBAND, infiniband=InfiniBand(fabric="fabric-2")
    )


def test_a_project_of_gke_may_be_given_or_left_to_the_provider():
    clusters = [
        _read("InferenceCluster", {"cluster": {"source": "GKE", "gke": {"region": "us-central1", **project}}})
        for project in ({"project": "my-gcp-project"}, {})
    ]
    assert [cluster.cluster.gke.project for cluster in clusters] == ["my-gcp-project", None]
    assert {cluster.cluster.gke.region for cluster in clusters} == {"us-central1"}


def test_an_identity_without_a_type_is_one_of_google():
    existing = {"secretRef": {"name": "kubeconfig"}, "identitySecretRef": {"name": "identity"}}
    cluster = _read("InferenceCluster", {"cluster": {"source": "Existing", "existing": existing}}).cluster
    identity = cluster.existing.identity_secret_ref
    assert (identity.type, identity.key) == (IdentityType.GOOGLE, "private_key")


def test_credentials_that_are_not_named_are_those_of_the_provider():
    cluster = _read(
        "InferenceCluster",
        {"cluster": {"source": "AKS", "aks": {"location": "westeurope", "credentials": {}}}},
    ).cluster
    assert cluster.aks.credentials == Credentials(
        type=CredentialsKind.CLUSTER_PROVIDER_CONFIG, name="default"
    )


@pytest.mark.parametrize("path", ["/v1/", "/"])
def test_a_path_is_rewritten_to_what_the_manifest_says(path):
    endpoint = _read("ModelEndpoint", {"url": "https://api.together.xyz/", "rewritePath": path})
    assert endpoint.rewrite_path == path


@pytest.mark.parametrize(
    "word",
    [
        "Kubeconfig",
        "GCPServiceAccountKey",
        "GoogleApplicationCredentials",
        "AWSWebIdentityCredentials",
        "NebiusServiceAccountCredentials",
    ],
)
def test_a_secret_says_its_content_in_the_words_of_either_version(word):
    secret = {"type": word, "name": "secret", "key": "private_key"}
    (read,) = _read("ServingStack", {"secrets": [secret]}, INFRASTRUCTURE).secrets
    assert read == ClusterSecret(type=SecretType(word), name="secret", key="private_key")


def test_a_serving_stack_that_says_nothing_has_every_version():
    stack = _read(
        "ServingStack",
        {"secrets": [{"type": "Kubeconfig", "name": "secret", "key": "kubeconfig"}]},
        INFRASTRUCTURE,
    )
    assert stack.versions == Versions(
        gateway_api="v1.5.1",
        cert_manager="v1.17.1",
        envoy_gateway="v1.8.1",
        prometheus="72.6.2",
        leader_worker_set="v0.8.0",
        node_feature_discovery="0.18.3",
        nvidia_dra_driver="0.4.0",
    )
    assert (stack.nvidia_driver_root, stack.gateway.class_name, stack.gateway.listeners) == ("/", "envoy", ())


def test_a_project_of_a_gke_cluster_is_read_and_not_needed():
    pool = {"name": "system", "role": "System", "machineType": "e2-standard-4"}
    clusters = [
        _read("GKECluster", {"region": "us-central1", "nodePools": [pool], **project}, INFRASTRUCTURE)
        for project in ({"project": "my-gcp-project"}, {})
    ]
    assert [cluster.project for cluster in clusters] == ["my-gcp-project", None]
    assert clusters[0].node_pools == clusters[1].node_pools
    assert (clusters[0].node_pools[0].min_node_count, clusters[0].node_pools[0].max_node_count) == (0, 8)
