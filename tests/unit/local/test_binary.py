import pytest

from modelplane.host.errors import LocalError
from modelplane.local import binary


@pytest.fixture
def module(tmp_path):
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    (folder / "main.go").write_text("package main")
    (folder / "go.mod").write_text("module x")
    return folder


def test_the_key_changes_with_any_source_and_with_nothing_else(module):
    first = binary.compute_module_key(module)
    (module / "README.md").write_text("words")
    assert binary.compute_module_key(module) == first
    (module / "go.mod").write_text("module y")
    assert binary.compute_module_key(module) != first


def test_the_key_tells_where_one_file_ends_and_the_next_begins(module):
    (module / "a.go").write_text("x")
    (module / "b.go").write_text("y")
    first = binary.compute_module_key(module)
    (module / "a.go").write_text("xb.go")
    (module / "b.go").write_text("")
    assert binary.compute_module_key(module) != first


def test_the_environment_variable_names_the_binary(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.touch(mode=0o755)
    monkeypatch.setenv("MODELPLANE_KUBERNETES_BINARY", str(program))
    assert binary.find() == program


def test_a_variable_that_names_no_program_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MODELPLANE_KUBERNETES_BINARY", str(tmp_path / "absent"))
    with pytest.raises(LocalError, match=r"^MODELPLANE_KUBERNETES_BINARY names .*/absent, which is not"):
        binary.find()


def test_a_binary_in_the_cache_is_found_under_its_key(tmp_path, monkeypatch):
    monkeypatch.delenv("MODELPLANE_KUBERNETES_BINARY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert binary.find() is None
    cached = (
        tmp_path
        / "modelplane/kubernetes"
        / binary.compute_module_key(binary.find_sources())
        / "modelplane-kubernetes"
    )
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert binary.find() == cached


def test_kubectl_is_the_binary_with_a_first_argument(tmp_path):
    assert binary.build_kubectl_argv(tmp_path, ("get", "pods")) == [str(tmp_path), "kubectl", "get", "pods"]
