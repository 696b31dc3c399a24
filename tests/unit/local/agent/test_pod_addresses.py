import pytest

from modelplane.local import addresses
from modelplane.local.agent import pod_addresses


def test_an_address_follows_from_the_uid() -> None:
    address = pod_addresses.choose("a-uid", ())
    assert address == pod_addresses.choose("a-uid", ())
    assert address != pod_addresses.choose("another-uid", ())
    assert addresses.bound(addresses.reported(address)) == address


def test_a_taken_address_is_not_given_again() -> None:
    taken = {pod_addresses.choose("a-uid", ())}
    assert pod_addresses.choose("a-uid", taken) not in taken


def test_every_address_is_given_once_and_none_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_addresses, "_COUNT", 300)
    taken: set[str] = set()
    for number in range(300):
        taken.add(pod_addresses.choose(str(number), taken))
    assert len(taken) == 300
    assert {address.rpartition(".")[2] for address in taken}.isdisjoint({"0", "255"})
    with pytest.raises(RuntimeError, match="all 300 are taken: delete pods of this node"):
        pod_addresses.choose("one more", taken)
