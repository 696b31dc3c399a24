import pytest

from modelplane.api.fields.cluster.node_pools import Fabric, FabricType, InfiniBand, NodePool

INFINIBAND = Fabric(type=FabricType.INFINIBAND, infiniband=InfiniBand(fabric="fabric-2"))


@pytest.mark.parametrize(
    ("fabric", "identity"),
    [
        pytest.param(None, None, id="no fabric joins no pool"),
        pytest.param("EFA", None, id="a technology alone joins no pool"),
        pytest.param(Fabric(type=FabricType.EFA, name="rack-1"), "EFA/rack-1", id="a name joins"),
        pytest.param(Fabric(name="rack-1"), "None/rack-1", id="a name joins the pools without a technology"),
        pytest.param(INFINIBAND, "InfiniBand/fabric-2", id="a physical network joins"),
        pytest.param(
            Fabric(type=FabricType.INFINIBAND, name="rack-1", infiniband=INFINIBAND.infiniband),
            "InfiniBand/rack-1",
            id="a name counts for more than the physical network",
        ),
    ],
)
def test_pools_are_joined_by_the_type_and_name_of_their_fabric(fabric, identity):
    assert NodePool(name="p", class_name="c", fabric=fabric).find_fabric_identity() == identity
