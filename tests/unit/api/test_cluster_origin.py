from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cluster_origin import Source


def test_a_cluster_is_made_on_any_of_the_clouds_or_exists():
    assert [*map(str, Source)] == [*map(str, Cloud), "Existing"]
