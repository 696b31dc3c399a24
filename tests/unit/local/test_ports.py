import socket
import subprocess
import sys
from dataclasses import asdict, astuple

import pytest

from modelplane.host.errors import LocalError
from modelplane.local.ports import (
    ALONE,
    BEHIND,
    FRONT,
    OWNERS,
    Ports,
    can_listen,
    choose,
    find_taken,
)


@pytest.mark.parametrize(
    ("held", "chosen"),
    [
        pytest.param(set(), Ports(), id="the preferred ports are chosen where they are free"),
        pytest.param({6443, 6444}, Ports(api_server=6445), id="a taken port gives way to the next free one"),
        pytest.param(
            {8800},
            Ports(gateway=8801, workload_gateway=8802),
            id="a port that another process of the fleet got is not chosen twice",
        ),
    ],
)
def test_ports_are_chosen(held, chosen):
    assert choose(is_free=lambda port: port not in held) == chosen


def test_a_machine_without_a_free_port_is_an_error_that_names_the_range():
    with pytest.raises(LocalError, match=r"^no port between 6443 and 32767 on 127\.0\.0\.1 is free"):
        choose(is_free=lambda _port: False)


@pytest.mark.parametrize(
    ("names", "unused"),
    [
        pytest.param(ALONE, set(), id="a control plane that is its own cluster uses all"),
        pytest.param(FRONT, {"agent", "workload_gateway"}, id="one in front of others runs no pods"),
        pytest.param(BEHIND, {"gateway"}, id="one behind it has no gateway"),
    ],
)
def test_only_the_ports_that_are_used_are_chosen(names, unused):
    ports = asdict(choose(names, is_free=lambda _port: True))
    assert {name for name, port in ports.items() if not port} == unused


def test_a_port_that_another_control_plane_of_the_fleet_has_is_not_chosen():
    assert choose(taken=[6443, 6444], is_free=lambda _port: True).api_server == 6445


@pytest.mark.parametrize(
    ("running", "found"),
    [
        pytest.param((), (8800, "envoy"), id="a stranger has it"),
        pytest.param(("envoy",), None, id="our own process that runs has it"),
    ],
)
def test_a_port_that_is_in_use(running, found):
    assert find_taken(Ports(), running, is_free=lambda port: port != 8800) == found


def test_a_port_that_is_not_used_cannot_be_taken():
    assert find_taken(Ports(agent=0), (), is_free=bool) is None


def test_every_port_has_an_owner():
    assert len(OWNERS) == len(astuple(Ports()))


def test_a_port_that_another_starting_fleet_has_chosen_is_not_chosen_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    choosing = (
        "from modelplane.local.ports import claim_free\n"
        "print(next(port for port in range(20000, 30000) if claim_free(port)), flush=True)\n"
        "input()"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", choosing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as first,
        subprocess.Popen(
            [sys.executable, "-c", choosing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as second,
    ):
        assert first.stdout
        assert second.stdout
        chosen = {output.readline() for output in (first.stdout, second.stdout)}
        for process in (first, second):
            process.communicate("\n")
    assert len(chosen) == 2


def test_a_machine_without_a_place_for_claims_is_an_error_that_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        LocalError, match=r"Not a directory: set XDG_CACHE_HOME to a directory that you can write to"
    ):
        choose()


def test_a_port_is_free_until_someone_listens_on_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not can_listen(port)
    assert can_listen(port)


@pytest.mark.parametrize(
    ("family", "address", "is_free"),
    [
        pytest.param(socket.AF_INET, "0.0.0.0", False, id="a server of every address has it"),
        pytest.param(socket.AF_INET6, "::", False, id="a server of IPv6 that takes IPv4 too has it"),
        pytest.param(socket.AF_INET6, "::1", True, id="a server of IPv6 alone is no obstacle"),
    ],
)
def test_a_port_is_another_programs_whatever_the_address_it_listens_at(family, address, is_free):
    with socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::") as server:
        assert can_listen(server.getsockname()[1]) is is_free
