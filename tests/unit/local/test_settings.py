import json

import pytest

from modelplane.host.errors import LocalError
from modelplane.local.home import Home
from modelplane.local.ports import Ports
from modelplane.local.settings import AS_BEFORE, Choice, LocalSettings, choose, load


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def chosen(home, choice=AS_BEFORE, running=(), held=()):
    return choose(home, choice, running, lambda port: port not in held)


def test_at_first_the_control_plane_is_its_own_one_cluster(home):
    assert chosen(home) == LocalSettings(Ports()) == load(home)
    assert home.settings.stat().st_mode & 0o777 == 0o600


def test_several_clusters_have_ports_of_their_own(home):
    settings = chosen(home, Choice(clusters=2, register=False))
    assert settings == LocalSettings(
        Ports(agent=0, workload_gateway=0),
        {
            "local-1": Ports(6444, 10250, 0, 8801),
            "local-2": Ports(6445, 10251, 0, 8802),
        },
        register=False,
    )
    assert load(home) == settings


def test_what_was_chosen_is_kept_even_when_the_preferred_ports_become_free(home):
    first = chosen(home, Choice(clusters=2, register=False), held=(6443, 8800))
    assert chosen(home) == first


def test_a_port_that_an_earlier_version_used_is_forgotten(home):
    home.settings.write_text('{"ports": {"api_server": 6444, "scheduler": 10259}}')
    assert load(home) == LocalSettings(Ports(api_server=6444))


def test_a_fleet_grows_and_what_was_there_stays(home):
    before = chosen(home, Choice(clusters=1))
    after = chosen(home, Choice(clusters=3))
    assert (after.ports, after.clusters["local-1"]) == (before.ports, before.clusters["local-1"])
    assert list(after.clusters) == ["local-1", "local-2", "local-3"]


@pytest.mark.parametrize(
    ("first", "then", "has"),
    [
        pytest.param(Choice(clusters=2), Choice(clusters=1), "2 clusters", id="fewer clusters"),
        pytest.param(
            Choice(), Choice(clusters=2), "a control plane that is its own cluster", id="others than its own"
        ),
    ],
)
def test_no_cluster_is_left_out(home, first, then, has):
    before = chosen(home, first)
    with pytest.raises(LocalError, match=f"has {has}, which would be lost: choose another --home"):
        chosen(home, then)
    assert load(home) == before


@pytest.mark.parametrize(
    ("choice", "name", "value"),
    [
        pytest.param(Choice(register=False), "register", False, id="whether clusters are registered"),
        pytest.param(Choice(container_engine="podman"), "container_engine", "podman", id="what runs images"),
        pytest.param(Choice(host_commands=True), "host_commands", True, id="what pods may execute"),
    ],
)
def test_what_is_said_once_holds_until_something_else_is_said(home, choice, name, value):
    before = getattr(chosen(home), name)
    chosen(home, choice)
    assert (getattr(chosen(home), name), before == value) == (value, False)


def test_a_running_fleet_is_not_told_anything_new(home):
    before = chosen(home, Choice(clusters=1))
    with pytest.raises(
        LocalError, match=("is running with other settings: run `modelplane down`, and repeat the command")
    ):
        chosen(home, Choice(clusters=2), running=("supervisor",))
    assert chosen(home, Choice(clusters=1), running=("supervisor",)) == before == load(home)


@pytest.mark.parametrize(
    ("held", "name"),
    [
        pytest.param(6443, "control-plane", id="of the fleet's own control plane"),
        pytest.param(10251, "local-2-agent", id="of a further cluster"),
    ],
)
def test_a_kept_port_that_a_stranger_took_is_an_error_that_names_it(home, held, name):
    chosen(home, Choice(clusters=2))
    with pytest.raises(
        LocalError, match=rf"^another program uses port {held} of 127\.0\.0\.1, which {name} uses"
    ):
        chosen(home, held=(held,))
    assert chosen(home, running=(name,), held=(held,)) == load(home)


def test_one_control_plane_does_not_stand_for_another(home):
    chosen(home, Choice(clusters=2))
    with pytest.raises(
        LocalError, match=r"another program uses port 6444 of .*, which local-1-control-plane uses"
    ):
        chosen(home, running=("control-plane", "local-2-control-plane"), held=(6443, 6444, 6445))


def test_one_envoy_listens_for_all(home):
    settings = chosen(home, Choice(clusters=2))
    assert chosen(home, running=("envoy",), held=(8800, 8801, 8802)) == settings


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="an empty file"),
        pytest.param("[]", id="another type"),
        pytest.param(json.dumps({"ports": {"front": 1}}), id="an unknown port"),
        pytest.param(json.dumps({"ports": {}, "clusters": []}), id="clusters of another type"),
        pytest.param(json.dumps({"ports": {}, "more": 1}), id="an unknown setting"),
    ],
)
def test_settings_that_cannot_be_read_are_an_error_that_names_the_file(home, content):
    home.settings.write_text(content)
    with pytest.raises(LocalError, match=f"^cannot read {home.settings}"):
        load(home)


def test_a_home_where_nothing_was_started_says_so(home):
    with pytest.raises(LocalError, match=r"^no fleet was started in"):
        load(home)
