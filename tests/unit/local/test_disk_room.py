import shutil
from collections import namedtuple

import pytest

from modelplane.local import home
from modelplane.local.home import Home

Usage = namedtuple("Usage", "free")


@pytest.mark.parametrize(
    ("settings", "free_mib", "said"),
    [
        pytest.param(False, 1024, None, id="enough for a new fleet"),
        pytest.param(
            False,
            1023,
            "only 1023 MiB are free at {root}, and a fleet requires 1024 MiB: free some space",
            id="too little for a new fleet",
        ),
        pytest.param(True, 128, None, id="enough for one that is there"),
        pytest.param(
            True,
            127,
            "only 127 MiB are free at {root}, and its fleet requires 128 MiB: free some space",
            id="too little for one that is there",
        ),
    ],
)
def test_a_new_fleet_needs_more_room_than_one_that_is_there(monkeypatch, tmp_path, settings, free_mib, said):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(free_mib << 20))
    if settings:
        (tmp_path / "settings.json").touch()
    expected = said and said.format(root=tmp_path)
    assert home.find_space_problem(Home(tmp_path)) == expected
