from pathlib import Path

import pytest

from modelplane.backup.archive import Reference, Seal, make_salt, read_passphrase
from modelplane.user_error import UserError

PASSPHRASE = b"correct horse battery staple"
ONE = Reference(kind="Secret", namespace="ml", name="one")


def _with(reference: Reference, sealed: str) -> Reference:
    return Reference(kind=reference.kind, namespace=reference.namespace, name=reference.name, sealed=sealed)


def test_a_content_is_read_with_its_passphrase() -> None:
    salt = make_salt()
    sealed = Seal(PASSPHRASE, salt).seal(ONE, {"data": {"a": "b"}})
    assert Seal(PASSPHRASE, salt).unseal(_with(ONE, sealed)) == {"data": {"a": "b"}}


@pytest.mark.parametrize(
    ("passphrase", "salt", "name", "cut"),
    [
        pytest.param(b"wrong horse battery staple", "", "one", 0, id="another passphrase"),
        pytest.param(PASSPHRASE, make_salt(), "one", 0, id="another file"),
        pytest.param(PASSPHRASE, "", "two", 0, id="another Secret"),
        pytest.param(PASSPHRASE, "", "one", 4, id="damaged"),
        pytest.param(PASSPHRASE, "", "one", 1, id="no base64"),
        pytest.param(PASSPHRASE, "", "one", 400, id="empty"),
    ],
)
def test_any_other_content_is_refused(passphrase: bytes, salt: str, name: str, cut: int) -> None:
    own = make_salt()
    sealed = Seal(PASSPHRASE, own).seal(ONE, {"data": {"a": "b"}})
    reference = _with(
        Reference(kind="Secret", namespace="ml", name=name), sealed[: max(len(sealed) - cut, 0)]
    )
    with pytest.raises(UserError, match=f'cannot decrypt Secret "ml/{name}"'):
        Seal(passphrase, salt or own).unseal(reference)


@pytest.mark.parametrize("salt", ["", "AAAA", "not base64", "\u00e9"])
def test_a_salt_of_another_length_is_refused(salt: str) -> None:
    with pytest.raises(UserError, match="the backup's salt is damaged"):
        Seal(PASSPHRASE, salt)


def test_a_passphrase_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(PASSPHRASE + b"\r\nmore\n")
    assert read_passphrase(tmp_path / "file") == PASSPHRASE


@pytest.mark.parametrize("content", [b"", b"\n", b"elevenchars\n"])
def test_a_short_passphrase_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match="shorter than 12 characters"):
        read_passphrase(tmp_path / "file")
