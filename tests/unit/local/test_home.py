from pathlib import Path

import pytest

from modelplane.host.file_system import write_private
from modelplane.local.home import Home, choose_home


def test_every_directory_is_for_the_owner_only_even_one_that_was_open_before(tmp_path):
    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o755)
    home.create()
    assert {directory.stat().st_mode & 0o777 for directory in home.directories} == {0o700}


def test_a_directory_that_is_in_use_and_for_no_fleet_is_none(tmp_path):
    home = Home(tmp_path)
    assert not home.has_other_contents()
    home.create()
    assert not home.has_other_contents(), "a start that was interrupted"
    (tmp_path / "thesis.tex").touch()
    assert home.has_other_contents()
    home.settings.touch()
    assert not home.has_other_contents(), "a file of one's own beside a fleet"


@pytest.mark.parametrize(
    ("chosen", "variable", "root"),
    [
        pytest.param(Path("/chosen"), "/variable", "/chosen", id="the command line comes first"),
        pytest.param(None, "/variable", "/variable", id="the environment comes second"),
        pytest.param(None, "", "/data/modelplane", id="the user's data directory comes last"),
        pytest.param(Path("below"), "", "/usr/below", id="a relative path is made absolute"),
    ],
)
def test_the_home_is_found(monkeypatch, chosen, variable, root):
    monkeypatch.setenv("MODELPLANE_HOME", variable)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.chdir("/usr")
    assert choose_home(chosen) == Home(Path(root))


def test_a_private_file_replaces_an_open_one_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert {
        found.name: (found.read_text(), found.stat().st_mode & 0o777) for found in tmp_path.iterdir()
    } == {"secret": ("new", 0o600)}
