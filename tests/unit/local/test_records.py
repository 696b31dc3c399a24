import errno

import pytest

from modelplane.local.home import Home
from modelplane.local.supervision import process_records
from modelplane.local.supervision.process_records import ProcessState, Record


def test_a_record_is_read_as_it_was_written(tmp_path):
    home = Home(tmp_path)
    home.create()
    record = Record("etcd", ProcessState.BACK_OFF, 0, 12.5, 3, "killed by SIGKILL")
    process_records.write(home, record)
    assert process_records.read(home.record("etcd")) == record


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="an empty file"),
        pytest.param("[]", id="another type"),
        pytest.param('{"name": "etcd", "state": "Dancing", "pid": 1, "since": 0}', id="an unknown state"),
        pytest.param('{"name": "etcd", "state": "Running"}', id="a missing field"),
    ],
)
def test_what_is_not_a_record_counts_as_none(tmp_path, content):
    path = tmp_path / "etcd.json"
    path.write_text(content)
    assert process_records.read(path) is None


def test_on_a_full_disk_a_record_takes_the_place_of_the_one_that_is_there(tmp_path, monkeypatch):
    home = Home(tmp_path)
    home.create()
    process_records.write(
        home, Record("etcd", ProcessState.RUNNING, 12345, 1.5, 3, "a longer text than the next one has")
    )

    def full(path, _content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(process_records, "write_private", full)
    record = Record("etcd", ProcessState.BACK_OFF, 0, 2.5, 4, "exited")
    process_records.write(home, record)
    assert process_records.read(home.record("etcd")) == record
