import pytest

from modelplane.host.errors import LocalError
from modelplane.local import binary
from modelplane.local.build import find_or_install, read_needed_version, read_version


def fake_go(path, says):
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def test_the_lowest_version_is_the_one_that_go_mod_names(tmp_path):
    (tmp_path / "go.mod").write_text("module x\n\ngo 1.25.0\n\nrequire y v1.2.3\n")
    assert read_needed_version(tmp_path) == (1, 25)


def test_the_control_planes_module_names_a_version():
    assert read_needed_version(binary.find_sources()) >= (1, 25)


@pytest.mark.parametrize(
    ("says", "understood"),
    [
        pytest.param("go1.26.8", (1, 26), id="a release"),
        pytest.param("go1.27rc1", (1, 27), id="a release candidate"),
        pytest.param("devel", (0, 0), id="something else"),
    ],
)
def test_a_go_says_its_version(tmp_path, says, understood):
    assert read_version(fake_go(tmp_path / "bin" / "go", says)) == understood


def test_the_go_on_path_is_taken_when_it_is_new_enough(tmp_path, monkeypatch):
    go = fake_go(tmp_path / "path" / "go", "go1.26.0")
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    assert find_or_install((1, 25), tmp_path / "own", lambda _text: None) == go


def test_one_that_was_installed_before_is_taken_when_the_one_on_path_is_too_old(tmp_path, monkeypatch):
    go = fake_go(tmp_path / "path" / "go", "go1.19.0")
    own = fake_go(tmp_path / "own" / "go" / "bin" / "go", "go1.27.3")
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    assert find_or_install((1, 25), tmp_path / "own", lambda _text: None) == own


def test_a_go_mod_without_a_version_is_an_error(tmp_path):
    (tmp_path / "go.mod").write_text("module x\n")
    with pytest.raises(LocalError, match="doesn't contain a Go version"):
        read_needed_version(tmp_path)
