import pytest

from modelplane.api.inference_cluster import Fabric, FabricType, InfiniBand, NodePool


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param(None, Fabric(), id="no fabric is type None"),
        pytest.param("None", Fabric(), id="the word None is type None"),
        pytest.param("EFA", Fabric(type=FabricType.EFA), id="the word EFA is type EFA"),
        pytest.param(
            Fabric(type=FabricType.INFINIBAND, infiniband=InfiniBand(fabric="fabric-2")),
            Fabric(type=FabricType.INFINIBAND, infiniband=InfiniBand(fabric="fabric-2")),
            id="an object is itself",
        ),
    ],
)
def test_a_fabric_has_one_form_whichever_way_it_was_written(written, meant):
    assert NodePool(name="p", class_name="c", fabric=written).interconnect() == meant
