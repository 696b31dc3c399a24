import pytest

from modelplane.api.clouds.cloud_rows import CLOUDS, Cloud, get_cache_storage, list_clouds_where
from modelplane.api.clouds.cluster_origin import ClusterOrigin
from modelplane.api.inference_class import Provisioning
from modelplane.api.listing import join_alternatives


def test_every_cloud_has_one_row_and_settings_of_its_name() -> None:
    assert [row.cloud for row in CLOUDS] == list(Cloud)
    fields = {cloud.lower() for cloud in Cloud}
    assert fields <= {*ClusterOrigin.__struct_fields__}
    assert fields <= {*Provisioning.__struct_fields__}


@pytest.mark.parametrize(
    ("cloud", "storage"),
    [
        pytest.param(Cloud.EKS, "modelplane-rwx-efs", id="one with shared volumes"),
        pytest.param(Cloud.VULTR, "", id="one without"),
    ],
)
def test_a_cloud_names_its_storage_for_caches(cloud: Cloud, storage: str) -> None:
    assert get_cache_storage(cloud) == storage


def test_clouds_are_named_in_a_sentence() -> None:
    assert join_alternatives(list_clouds_where(lambda cloud: cloud.needs_zones)) == "GKE or EKS"
    assert join_alternatives(list_clouds_where(lambda cloud: cloud.needs_a_node)) == "Vultr"
    assert join_alternatives(("a", "b", "c"), "and") == "a, b and c"
