import pytest

from modelplane.host.errors import LocalError
from modelplane.local import binary
from modelplane.local.build import VERSION, Progress, build


@pytest.fixture
def go(tmp_path):
    """A program that says and does what Go does, in its order."""
    program = tmp_path / "go"
    program.write_text(
        """#!/bin/sh
case "$1 $FAIL" in
"env "*) echo /tmp ;;
"list list") echo "go: x@v1: no such host" >&2; exit 1 ;;
"list "*) echo "go: downloading x v1" >&2; printf 'x/a\\nx/b\\nx\\n' ;;
"build build") printf 'x/a\\n# x/a\\na.go:1:1: broken\\n' >&2; exit 1 ;;
"build "*) printf 'x/a\\nx/b\\nx\\n' >&2
  while [ "$1" != -o ]; do shift; done; echo binary > "$2" ;;
esac
"""
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def target(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "binary"


def test_every_step_of_a_build_is_reported(tmp_path, go, target):
    reports: list[Progress] = []
    build(tmp_path, target, go, reports.append)
    assert target.read_text() == "binary\n"
    assert list(dict.fromkeys(reports)) == [
        Progress("downloading Go modules"),
        Progress("downloading Go modules", 1),
        Progress("compiling", 1, 3),
        Progress("compiling", 2, 3),
        Progress("linking", 3, 3),
    ]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        pytest.param("list", "go list failed:\n  go: x@v1: no such host", id="modules that cannot be had"),
        pytest.param(
            "build", "go build failed:\n  # x/a\n  a.go:1:1: broken", id="sources that do not compile"
        ),
    ],
)
def test_a_failed_build_says_what_go_said_and_leaves_nothing(
    tmp_path, go, target, monkeypatch, step, message
):
    monkeypatch.setenv("FAIL", step)
    with pytest.raises(LocalError) as raised:
        build(tmp_path, target, go, lambda _progress: None)
    assert str(raised.value) == f"cannot build the control plane's binary: {message}"
    assert list(target.parent.iterdir()) == []


def test_the_version_that_the_binary_reports_is_the_one_that_go_mod_requires():
    assert f"k8s.io/kubernetes {VERSION}\n" in (binary.find_sources() / "go.mod").read_text()
