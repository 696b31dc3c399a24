"""``modelplane envoy`` holds the ports of the clusters too before anyone writes routes."""

import socket

from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.local import gateway_module


def test_a_cluster_whose_port_another_program_has_is_an_error_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway_module, "find", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        options = [f"--dir={tmp_path}", f"--port={port}", f"--cluster=local:{taken}"]
        result = CliRunner().invoke(main, ["envoy", *options])
    assert result.exit_code == 1
    assert f"another program uses port {taken} of 127.0.0.1: stop that program" in result.output
