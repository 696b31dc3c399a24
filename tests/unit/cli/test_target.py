from pathlib import Path

import pytest

from modelplane.cli.server_errors import explain_error
from modelplane.cli.target import Target
from modelplane.install import api_server_choice
from modelplane.kube import errors
from modelplane.user_error import UserError


@pytest.fixture
def connected(monkeypatch, tmp_path):
    """Return which kubeconfig a control plane is reached by, of a user without any."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("MODELPLANE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(api_server_choice, "connect", lambda path, *_others: path)
    return lambda **named: Target(**named).open_client()


@pytest.fixture
def running(monkeypatch, tmp_path):
    """Let the fleet of this machine run."""
    monkeypatch.setattr("modelplane.cli.target.is_running", lambda _home: True)
    monkeypatch.setattr("modelplane.cli.target.require_running", lambda _home: None)
    return tmp_path / "modelplane" / "kubeconfig"


@pytest.mark.usefixtures("running")
def test_the_one_that_is_named_comes_first(connected, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "other")
    assert connected(kubeconfig=Path("named")) == Path("named")


@pytest.mark.usefixtures("running")
def test_then_that_of_a_home_that_is_named(connected, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "other")
    assert connected(home=Path("/fleet")) == Path("/fleet/kubeconfig")


@pytest.mark.usefixtures("running")
def test_then_that_of_kubeconfig(connected, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "other")
    assert connected() is None, "as kubectl finds it"


def test_then_the_fleet_of_this_machine(connected, running):
    assert connected() == running


def test_then_the_users_own(connected, tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()
    assert connected() is None, "as kubectl finds it"


def test_where_there_is_none_it_is_said_how_to_have_one(connected, tmp_path):
    with pytest.raises(UserError) as raised:
        connected()
    nothing = f"no fleet is running in {tmp_path}/modelplane, and KUBECONFIG is not set"
    remedy = "run `modelplane up`, or select a control plane with --kubeconfig"
    assert str(raised.value) == f"{nothing}: {remedy}"


def test_a_home_that_is_named_has_to_run(connected, tmp_path, monkeypatch):
    monkeypatch.setenv("MODELPLANE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no fleet in .*: run `modelplane up`"):
        connected()


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        pytest.param(errors.Forbidden(403, "", "no"), "ask the cluster's administrator", id="no permission"),
        pytest.param(errors.NotFound(404, "", "no"), "check that Modelplane is installed", id="no kinds"),
        pytest.param(errors.Unreachable("no"), "check that the control plane is running", id="no answer"),
        pytest.param(errors.ApiError(500, "", "no"), "try again", id="anything else"),
    ],
)
def test_what_an_api_server_has_against_it_is_told_with_what_to_do(error, remedy):
    assert explain_error(error).startswith(f"no: {remedy}")
