import json
import socket
import subprocess
import sys
from dataclasses import astuple

import pytest

from modelplane.local.errors import LocalError
from modelplane.local.ports import OWNERS, Ports, choose, free, load, load_or_choose


@pytest.mark.parametrize(
    ("taken", "chosen"),
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
def test_ports_are_chosen(taken, chosen):
    assert choose(lambda port: port not in taken) == chosen


def test_a_machine_without_a_free_port_is_an_error_that_names_the_range():
    with pytest.raises(LocalError, match=r"^no port from 6443 to 32767 of 127\.0\.0\.1 is free"):
        choose(lambda _port: False)


def test_chosen_ports_are_kept_even_when_the_preferred_ones_become_free(tmp_path):
    settings = tmp_path / "settings.json"
    first = load_or_choose(settings, (), is_free=lambda port: port != 6443)
    assert load_or_choose(settings, (), is_free=lambda _port: True) == first == load(settings)
    assert settings.stat().st_mode & 0o777 == 0o600


def test_a_kept_port_that_a_stranger_took_is_an_error_that_names_it(tmp_path):
    settings = tmp_path / "settings.json"
    load_or_choose(settings, (), is_free=lambda _port: True)
    with pytest.raises(LocalError, match=r"^port 8800 of 127\.0\.0\.1, which envoy uses, is taken"):
        load_or_choose(settings, (), is_free=lambda port: port != 8800)


def test_a_kept_port_that_the_fleet_itself_holds_is_fine(tmp_path):
    settings = tmp_path / "settings.json"
    ports = load_or_choose(settings, (), is_free=lambda _port: True)
    assert load_or_choose(settings, ("envoy",), is_free=lambda port: port not in {8800, 8801}) == ports


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="an empty file"),
        pytest.param("[]", id="another type"),
        pytest.param(json.dumps({"ports": {"front": 1}}), id="an unknown port"),
    ],
)
def test_settings_that_cannot_be_read_are_an_error_that_names_the_file(tmp_path, content):
    settings = tmp_path / "settings.json"
    settings.write_text(content)
    with pytest.raises(LocalError, match=f"^cannot read {settings}"):
        load(settings)


def test_every_port_has_an_owner():
    assert len(OWNERS) == len(astuple(Ports()))


def test_a_port_that_another_starting_fleet_has_chosen_is_not_chosen_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    choosing = (
        "from modelplane.local.ports import free_and_unclaimed\n"
        "print(next(port for port in range(20000, 30000) if free_and_unclaimed(port)), flush=True)\n"
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
        chosen = {process.stdout.readline() for process in (first, second)}
        for process in (first, second):
            process.communicate("\n")
    assert len(chosen) == 2


def test_a_port_is_free_until_someone_listens_on_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not free(port)
    assert free(port)
