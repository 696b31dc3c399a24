"""Files, folders and standard input."""

import errno
import io
import os

import pytest

from modelplane.offline.files import sources
from modelplane.offline.files.sources import Origin, Source, Unopened


def read(*paths, stdin=b""):
    return list(sources.read(map(str, paths), lambda: io.BytesIO(stdin)))


def test_a_folder_gives_its_manifests_in_order_and_none_that_is_hidden(tmp_path):
    for name in ("b.yaml", "a.yml", "c/d.json", "e.txt", ".github/f.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert read(tmp_path) == [
        Source(f"{tmp_path}/a.yml", "a.yml", Origin.WALKED),
        Source(f"{tmp_path}/b.yaml", "b.yaml", Origin.WALKED),
        Source(f"{tmp_path}/c/d.json", "c/d.json", Origin.WALKED),
    ]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    (tmp_path / "a.yaml").write_text("a")
    assert read(tmp_path, tmp_path / "a.yaml") == [Source(f"{tmp_path}/a.yaml", "a", Origin.WALKED)]


def test_a_file_that_is_named_is_read_whatever_its_ending(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    assert read(tmp_path / "a.txt") == [Source(f"{tmp_path}/a.txt", "a")]


def test_a_folder_that_cannot_be_read_is_told_and_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.yaml").write_text("a")
    scandir = os.scandir

    def refusing(path):
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert read(tmp_path) == [
        Unopened(f"{tmp_path}/closed", "cannot be read: Permission denied"),
        Source(f"{tmp_path}/a.yaml", "a", Origin.WALKED),
    ]


def test_a_folder_without_manifests_is_told():
    # The folder of these tests has Python only.
    folder = __file__.rpartition("/")[0]
    assert read(folder) == [Unopened(folder, "the folder contains no .yaml, .yml or .json file")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("é".encode(), "é", id="UTF-8"),
        pytest.param(b"\xef\xbb\xbfa", "a", id="UTF-8 with a byte order mark"),
        pytest.param("é".encode("utf-16"), "é", id="UTF-16, as Windows' shell redirects"),
    ],
)
def test_an_encoding_that_kubectl_reads_is_read(content, text):
    assert read("-", stdin=content) == [Source("stdin", text, Origin.PIPED)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"a\xff", "byte 2 is not UTF-8: save it as UTF-8", id="another encoding"),
        pytest.param(b"\x7fELF\0\xff", "not text: save it as UTF-8", id="a program"),
    ],
)
def test_what_is_no_text_is_told(content, why):
    assert read("-", stdin=content) == [Unopened("stdin", why)]


def test_a_file_that_is_too_large_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 1024 * 1024)
    assert read("-", stdin=b" " * (1024 * 1024 + 1)) == [
        Unopened("stdin", "larger than 1 MiB: split the file")
    ]


def test_a_file_that_cannot_be_opened_does_not_stop_the_next(tmp_path):
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "b.yaml").write_text("b")
    assert read(tmp_path) == [
        Unopened(f"{tmp_path}/a.yaml", "cannot be read: No such file or directory"),
        Source(f"{tmp_path}/b.yaml", "b", Origin.WALKED),
    ]
