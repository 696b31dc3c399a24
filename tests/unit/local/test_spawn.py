"""A process that cannot be started, whatever else goes wrong."""

import os

import pytest

from modelplane.local.home import Home
from modelplane.local.supervision import spawn
from modelplane.local.supervision.processes import Lived, Process


@pytest.mark.parametrize(
    ("log", "program"),
    [
        pytest.param("", "/nonexistent/program", id="the program is gone"),
        pytest.param(
            "/dev/full", "/nonexistent/program", id="the program is gone and its log cannot be written"
        ),
        pytest.param("", os.fsdecode(b"/caf\xe9/program"), id="the program is gone and its name is no text"),
    ],
)
def test_a_child_that_cannot_become_its_program_ends(tmp_path, log, program):
    home = Home(tmp_path)
    home.create()
    if log:
        home.log("etcd").symlink_to(log)
    parent = os.getpid()
    try:
        pid = spawn.start(home, Process("etcd", (program,), tmp_path, Lived(1)))
    finally:
        if os.getpid() != parent:
            os._exit(1)  # a child that came back here
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == spawn.NOT_EXECUTED
    if not log:
        assert home.log("etcd").read_bytes().startswith(b"cannot start " + os.fsencode(program))
