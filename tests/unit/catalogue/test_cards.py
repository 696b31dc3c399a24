"""Memory that a class declares, compared with the memory that its card publishes."""

import pytest

from modelplane.api.fields.cluster.devices import Device
from modelplane.api.schema.decode import convert
from modelplane.catalogue.cards import CARDS, find_overstatements

NVIDIA = {"driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com"}
AMD = {"driver": "gpu.amd.com", "deviceClassName": "gpu.amd.com"}
HOPPER = {"architecture": {"string": "Hopper"}}
ADA = {"architecture": {"string": "Ada Lovelace"}}


def product(name):
    return {"productName": {"string": name}}


H100 = product("NVIDIA H100 80GB HBM3")


def device(memory, attributes, **fields):
    given = {"name": "gpu", **NVIDIA, "attributes": attributes, "capacity": {"memory": {"value": memory}}}
    return convert(given | fields, Device)


def said(*devices):
    return [str(each) for each in find_overstatements(devices)]


def test_the_size_of_the_name_is_more_than_the_card_publishes():
    [line] = said(device("80Gi", H100))
    assert line == (
        'device "gpu" declares 80Gi of memory, but NVIDIA H100 80GB HBM3 publishes 81559Mi, so pods that ask '
        "for more remain Pending: declare 81559Mi"
    )


@pytest.mark.parametrize(
    ("found", "published"),
    [
        pytest.param(device("80Gi", HOPPER), 81559, id="by architecture and nominal size"),
        pytest.param(device("81920Mi", HOPPER), 81559, id="in another unit"),
        pytest.param(device("141Gi", HOPPER), 143771, id="of another nominal size"),
        pytest.param(device("81560Mi", H100), 81559, id="one more than the product publishes"),
        pytest.param(
            device("1Gi", H100, capacity={"gpu.nvidia.com/memory": {"value": "80Gi"}}),
            81559,
            id="under the full name",
        ),
        pytest.param(
            device("192Gi", product("AMD_Instinct_MI300X_OAM"), **AMD),
            196592,
            id="of AMD",
        ),
    ],
)
def test_a_card_is_known_by_product_or_by_architecture_and_nominal_size(found, published):
    assert [each.card.memory_mi for each in find_overstatements([found])] == [published]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(device("81559Mi", H100), id="as published"),
        pytest.param(device("79Gi", HOPPER), id="less"),
        pytest.param(device("80Gi", {"architecture": {"string": "Ampere"}}), id="a card that has all of it"),
        pytest.param(device("100Gi", HOPPER), id="no nominal size"),
        pytest.param(device("80Gi", {}), id="no architecture"),
        pytest.param(device("24Gi", ADA), id="cards that publish different sizes"),
        pytest.param(
            device("80Gi", {"productName": {"string": "NVIDIA H900"}} | HOPPER), id="unknown product"
        ),
        pytest.param(
            device("80Gi", {"productName": {"string": "NVIDIA H100 PCIe"}}),
            id="a figure without confirmation",
        ),
        pytest.param(device("80Gi", H100 | {"type": {"string": "mig"}}), id="a partition by type"),
        pytest.param(device("80Gi", H100, deviceClassName="mig.nvidia.com"), id="a partition by class"),
        pytest.param(device("80Gi", H100, claim="Synthetic"), id="not claimed"),
        pytest.param(device("80Gi", H100, driver="cpu.example.com"), id="another driver"),
        pytest.param(device("1e999", HOPPER), id="more than a float can be"),
        pytest.param(device("1e9999", H100), id="more than a quantity can be"),
    ],
)
def test_what_may_be_right_is_not_overstated(found):
    assert said(found) == []


def test_every_card_publishes_at_most_its_nominal_size():
    assert [each.product for each in CARDS if each.memory_mi > max(each.nominal_gi) * 1024] == []


@pytest.mark.parametrize(
    ("product", "floor"),
    [
        ("NVIDIA L4", 22),
        ("NVIDIA L40S", 44),
        ("NVIDIA H100 80GB HBM3", 79),
        ("NVIDIA H100 NVL", 93),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95),
        ("NVIDIA H200", 140),
        ("NVIDIA B200", 179),
        ("NVIDIA GB200", 185),
        ("NVIDIA B300 SXM6 AC", 268),
        ("NVIDIA GB300", 277),
        ("AMD_Instinct_MI300X_OAM", 191),
        ("NVIDIA A100-SXM4-80GB", 80),
    ],
)
def test_the_figure_that_works_is_the_largest_whole_one_below_the_published(product, floor):
    assert [each.floor_gi for each in CARDS if each.product == product] == [floor]
