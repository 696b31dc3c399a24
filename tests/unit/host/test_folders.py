import os
from pathlib import Path

from modelplane.host import file_system
from support.traversal import common_folder

NOBODY = 65534


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "removed" / "deep").mkdir(parents=True)
    (tmp_path / "removed" / "deep" / "link").symlink_to(tmp_path / "kept")
    file_system.remove_folder(tmp_path / "removed")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "file").read_text() == "x"


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    file_system.remove_folder(tmp_path / "absent")


def _remove_closed(below: Path) -> None:
    """Remove directories that are closed to their owner, as a user whom directories can be closed to."""
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    closed = below / "removed" / "closed"
    (closed / "deep").mkdir(parents=True)
    (closed / "deep" / "file").write_text("x")
    (closed / "link").symlink_to(below)
    for path in (closed / "deep", closed, below / "removed"):
        path.chmod(0o000)
    file_system.remove_folder(below / "removed")


def test_directories_that_are_closed_to_their_owner_are_removed() -> None:
    with common_folder(0o777) as folder:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _remove_closed(folder)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert list(folder.iterdir()) == []
        assert folder.stat().st_mode & 0o777 == 0o777, "a link's target is not changed"
