"""Distributions as pip installs them, in a folder of their own."""

import json
import re
import sys
from pathlib import Path

import pytest

import modelplane
from modelplane.crossplane.package import runtime
from modelplane.user_error import UserError


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install distributions of which nothing but metadata and a few files is there."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, *requires, files=(), extras=(), editable=False, recorded=True):
        folder = tmp_path / f"{re.sub('[-.]', '_', name.lower())}-1.0.dist-info"
        folder.mkdir()
        metadata = [f"Name: {name}", "Version: 1.0", *(f"Provides-Extra: {each}" for each in extras)]
        metadata += [f"Requires-Dist: {each}" for each in requires]
        (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *metadata, ""]))
        (folder / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": editable}}))
        noted = [f"{folder.name}/{each}" for each in ("METADATA", "RECORD", "INSTALLER", "direct_url.json")]
        if recorded:
            (folder / "RECORD").write_text("".join(f"{each},,\n" for each in [*files, *noted]))

    return install


def _names(found):
    return [each.name for each in found]


def _paths(name):
    [found] = [each for each in runtime.required() if each.name == name]
    return sorted(file.path for file in runtime.files(found, "app"))


def test_what_the_function_needs_is_followed_through_extras_and_markers(installed):
    installed(
        "modelplane",
        "b_b",
        "grpc-like[tls] ; extra == 'function'",
        "not-wanted ; extra == 'local'",
        "not-here ; python_version < '3'",
        extras=["function", "local"],
    )
    installed("B.b", "a")
    installed("a", "b-b")
    installed("grpc-like", "secure ; extra == 'tls'", "unused ; extra == 'other'", extras=["tls", "other"])
    installed("secure")
    assert _names(runtime.required()) == ["modelplane", "a", "B.b", "grpc-like", "secure"]


def test_a_distribution_that_is_not_installed_is_named_with_who_needs_it(installed):
    installed("modelplane", "not-here-either", extras=["function"])
    with pytest.raises(UserError) as refused:
        runtime.required()
    assert str(refused.value) == (
        "cannot make a runtime: not-here-either, which modelplane needs, is not installed: "
        "run `pip install '.[function]'` in a checkout of Modelplane"
    )


def test_metadata_of_before_the_extra_is_told(installed):
    installed("modelplane", extras=["local"])
    with pytest.raises(UserError, match=r'the installed modelplane 1\.0 knows no extra "function"'):
        runtime.required()


def test_scripts_caches_and_what_pip_notes_are_left_out(installed):
    files = ["../../bin/x", "x/__init__.py", "x/__pycache__/a.pyc", "x/old.pyc", "x/data.json", "x.pth"]
    installed("modelplane", "x", extras=["function"])
    installed("x", files=files)
    assert _paths("x") == ["app/x-1.0.dist-info/METADATA", "app/x/__init__.py", "app/x/data.json"]


def test_modelplane_in_editable_mode_has_the_files_of_its_folder(installed):
    installed("modelplane", extras=["function"], editable=True, files=["_editable.pth"])
    paths = _paths("modelplane")
    source = Path(modelplane.__file__).parent
    assert [path for path in paths if path.startswith("app/modelplane/") and "pycache" not in path] == sorted(
        f"app/modelplane/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )
    assert [path for path in paths if not path.startswith("app/modelplane/")] == [
        "app/modelplane-1.0.dist-info/METADATA"
    ]


@pytest.mark.parametrize(
    ("how", "reason"),
    [({"editable": True}, "is installed in editable mode"), ({"recorded": False}, "no record of its files")],
    ids=["another one in editable mode", "one that a system's package manager installed"],
)
def test_a_distribution_whose_files_are_not_known_is_refused(installed, how, reason):
    installed("modelplane", "x", extras=["function"])
    installed("x", **how)
    with pytest.raises(UserError, match=reason):
        _paths("x")


def test_here_the_function_has_what_it_needs():
    assert {"grpcio", "protobuf", "msgspec"} <= set(_names(runtime.required()))
    assert "pytest" in sys.modules
    assert "pytest" not in _names(runtime.required())
