"""The file of a backup: whole or refused, private, and never in place of another."""

import os
import stat
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from modelplane.backup import planning
from modelplane.backup.archive import (
    FORMAT,
    MOST_BYTES,
    NAME,
    Damaged,
    Header,
    Reference,
    open_file,
    write_file,
)
from modelplane.user_error import UserError

HEADER = Header(
    name=NAME, format=FORMAT, modelplane="0.6.0", time="2026-01-01T00:00:00Z", resource_version="7"
)


def cluster(name: str = "east", uid: str = "u", **metadata: Any) -> dict[str, Any]:
    about = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceCluster"}
    return {**about, "metadata": {"name": name, "uid": uid, **metadata}, "spec": {}}


KUBECONFIG = Reference(kind="Secret", namespace="modelplane-system", name="east-kubeconfig")


def write(
    path: Path, *items: dict[str, Any], header: Header = HEADER, reference: Reference = KUBECONFIG
) -> bytes:
    with write_file(path) as file:
        file.begin(header)
        for item in items:
            file.add(item)
        file.refer(reference)
        file.finish()
    return path.read_bytes()


def read(path: Path) -> planning.Plan:
    with open_file(path) as reader:
        return planning.read(reader, None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("whole") / "fleet", cluster(), cluster("west", "v"))


def test_a_file_is_private_and_has_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "fleet", cluster())
    assert stat.S_IMODE((tmp_path / "fleet").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["fleet"]
    plan = read(tmp_path / "fleet")
    assert list(map(str, plan.entries)) == ['InferenceCluster "east"']
    assert [str(each.reference) for each in plan.references] == ['Secret "modelplane-system/east-kubeconfig"']


@pytest.mark.parametrize("what", ["file", "link", "link to nothing"])
def test_no_file_is_replaced(tmp_path: Path, what: str) -> None:
    path, other = tmp_path / "fleet", tmp_path / "other"
    if what == "file":
        path.write_text("precious")
    else:
        other.write_text("precious") if what == "link" else None
        path.symlink_to(other)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileExistsError):
        write(path, cluster())
    assert sorted(tmp_path.iterdir()) == before
    assert not path.exists() or path.read_text() == "precious"


def _interrupted(path: Path, other: str = "") -> None:
    """Break a backup off, or let another file appear meanwhile."""
    with write_file(path) as file:
        file.begin(HEADER)
        if not other:
            raise KeyboardInterrupt
        path.write_text(other)


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    with pytest.raises(FileExistsError):
        _interrupted(path, "precious")
    assert path.read_text() == "precious"
    assert [each.name for each in tmp_path.iterdir()] == ["fleet"]


def test_a_backup_that_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path / "fleet")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_cut_off_anywhere_is_refused(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(Damaged):
            read(path)


@hypothesis.settings(max_examples=300, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(data=st.data())
def test_a_file_with_a_changed_byte_is_refused(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda each: each != whole[place]))
    (tmp_path / "fleet").write_bytes(whole[:place] + bytes((byte,)) + whole[place + 1 :])
    with pytest.raises((Damaged, UserError)):
        read(tmp_path / "fleet")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda _whole: b"", "the file is empty", id="empty"),
        pytest.param(lambda whole: whole + b"{}\n", "there is data after the end", id="appended"),
        pytest.param(
            lambda whole: whole.replace(b'"kind":"InferenceCluster","metadata":{"name":"west"', b"", 1),
            "is not a line of a backup",
            id="no JSON",
        ),
        pytest.param(
            lambda whole: b"".join(line for line in whole.splitlines(True) if b'"west"' not in line),
            "does not match its checksum",
            id="a line less",
        ),
        pytest.param(
            lambda whole: b"".join(whole.splitlines(True)[1:]),
            "header is not its first line",
            id="no header",
        ),
        pytest.param(lambda _whole: b"\x7fELF\n", "is not a line of a backup", id="a program"),
        pytest.param(lambda _whole: b"[" * 100_000 + b"\n", "is not a line of a backup", id="deep"),
        pytest.param(lambda _whole: b'"' + b"x" * MOST_BYTES, "a line is longer than 8 MiB", id="long"),
        pytest.param(
            lambda whole: whole.replace(NAME.encode(), b"other"), ("not a Modelplane backup"), id="another's"
        ),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(
    whole: bytes, tmp_path: Path, change: Any, why: str
) -> None:
    (tmp_path / "fleet").write_bytes(change(whole))
    with pytest.raises(Damaged, match=why):
        read(tmp_path / "fleet")


def test_what_is_no_regular_file_is_refused() -> None:
    with pytest.raises(Damaged, match="not a regular file"), open_file(Path(os.devnull)):
        pass


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"format": FORMAT + 1}, "this version reads format 1: use that version", id="format"),
        pytest.param({"modelplane": "99.0.0"}, "by Modelplane 99.0.0, which is newer than", id="Modelplane"),
    ],
)
def test_a_file_of_a_newer_version_is_refused(tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    known = {"name": NAME, "format": FORMAT, "modelplane": "0.6.0", "time": "", "resource_version": "7"}
    write(tmp_path / "fleet", header=Header(**{**known, **fields}))
    with pytest.raises(UserError, match=why):
        read(tmp_path / "fleet")


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "ml", "uid": "u"}}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "a", "uid": "u"},
}
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "kube-system", "uid": "u"},
}
CIRCLE = [{"kind": "InferenceCluster", "uid": "u"}]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        pytest.param([SECRET], "not an object of a backup", id="a Secret in clear"),
        pytest.param([BINDING], "not an object of a backup", id="a permission"),
        pytest.param([CONFIG_MAP], "not an object of a backup", id="a ConfigMap of others"),
        pytest.param([cluster("../../namespaces/kube-system")], "no valid name", id="a path for a name"),
        pytest.param([cluster("a?dryRun=All")], "no valid name", id="a parameter for a name"),
        pytest.param([cluster("a" * 254)], "no valid name", id="a long name"),
        pytest.param([cluster(uid="a,b")], "no valid name and uid", id="no uid"),
        pytest.param([cluster(namespace="ml")], "not an object of a backup", id="a namespace too many"),
        pytest.param([cluster(labels=["a"])], "not an object of a backup", id="labels that are a list"),
        pytest.param(
            [cluster(ownerReferences={"a": 1})], "not an object of a backup", id="owners that are a map"
        ),
        pytest.param([{"kind": "InferenceCluster"}], "not an object of a backup", id="nothing"),
        pytest.param([cluster(), cluster(uid="v")], 'InferenceCluster "east" appears twice', id="twice"),
        pytest.param([cluster(), cluster("west")], "two objects have the same uid", id="one uid"),
        pytest.param([cluster(ownerReferences=CIRCLE)], "too many levels of owners", id="its own owner"),
    ],
)
def test_objects_that_no_backup_has_are_refused(
    tmp_path: Path, items: list[dict[str, Any]], why: str
) -> None:
    write(tmp_path / "fleet", *items)
    with pytest.raises(Damaged, match=why):
        read(tmp_path / "fleet")


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        pytest.param("ml", "../services/shop:80/proxy/reset", id="a path for a name"),
        pytest.param("ml/services/shop:80/proxy", "a", id="a path for a namespace"),
        pytest.param("ml", "a?watch=1", id="a parameter"),
        pytest.param("ml", "\x1b]0;title\x07", id="commands for a terminal"),
        pytest.param("ml", "", id="no name"),
        pytest.param("", "a", id="no namespace"),
    ],
)
def test_names_of_secrets_that_no_backup_has_are_refused(tmp_path: Path, namespace: str, name: str) -> None:
    # A restore asks the API server for each by its path, with the permissions of its user.
    write(tmp_path / "fleet", reference=Reference(kind="Secret", namespace=namespace, name=name))
    with pytest.raises(Damaged, match="is not a line of a backup"):
        read(tmp_path / "fleet")
