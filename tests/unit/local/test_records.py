import pytest

from modelplane.local import records
from modelplane.local.home import Home
from modelplane.local.records import Record, State


def test_a_record_is_read_as_it_was_written(tmp_path):
    home = Home(tmp_path)
    home.create()
    record = Record("etcd", State.BACK_OFF, 0, 12.5, 3, "killed by SIGKILL")
    records.write(home, record)
    assert records.read(home.record("etcd")) == record


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
    assert records.read(path) is None
