from ipaddress import IPv4Network

import pytest

from modelplane.host import addresses
from modelplane.kubelet.pods import pods

NODE = IPv4Network(addresses.find_cidr(0))


def test_an_address_follows_from_the_uid() -> None:
    address = pods.choose_address("a-uid", (), NODE)
    assert address == pods.choose_address("a-uid", (), NODE)
    assert address != pods.choose_address("another-uid", (), NODE)
    assert addresses.find_bound(addresses.find_reported(address)) == address


def test_a_taken_address_is_not_given_again() -> None:
    taken = {pods.choose_address("a-uid", (), NODE)}
    assert pods.choose_address("a-uid", taken, NODE) not in taken


def test_every_address_is_given_once_and_none_more() -> None:
    few = IPv4Network("198.18.16.0/23")
    taken: set[str] = set()
    for number in range(508):
        taken.add(pods.choose_address(str(number), taken, few))
    assert len(taken) == 508
    assert {address.rpartition(".")[2] for address in taken}.isdisjoint({"0", "255"})
    with pytest.raises(
        RuntimeError, match=r"all addresses in 198\.18\.16\.0/23 are in use: delete pods on this node"
    ):
        pods.choose_address("one more", taken, few)


def test_nodes_of_one_machine_never_share_an_address() -> None:
    ranges = [IPv4Network(addresses.find_cidr(place)) for place in range(16)]
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)
    assert {str(each.supernet(new_prefix=16)) for each in ranges} == {"198.18.0.0/16"}
