from modelplane.api.clouds.cluster_origin import ClusterOrigin, Existing, KubeconfigSecret, Source
from modelplane.api.rejected import Rejected
from modelplane.compose.cluster.cluster_kubeconfig import KubeconfigReference, kubeconfig_reference


def test_an_existing_cluster_has_its_kubeconfig_in_the_secret_that_it_names() -> None:
    existing = Existing(secret_ref=KubeconfigSecret(name="west", key="admin"))
    reference = kubeconfig_reference(ClusterOrigin(source=Source.EXISTING, existing=existing), None)
    assert reference == KubeconfigReference("west", "admin", "modelplane-system")
    assert str(reference) == 'Secret "west" in namespace "modelplane-system"'


def test_a_cluster_of_a_cloud_has_none_yet() -> None:
    assert kubeconfig_reference(ClusterOrigin(source=Source.GKE), None) == Rejected(
        subject="a cluster of source GKE", detail="has no kubeconfig yet"
    )
