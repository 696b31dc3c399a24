import json
import os
import socket
from pathlib import Path

from modelplane.gateway.route_table import Listener
from modelplane.host import sockets
from modelplane.proxy import admin as envoy_admin, envoy_bootstrap


def test_the_administration_interface_is_named_from_the_directory_however_long_its_path(
    tmp_path: Path,
) -> None:
    directory = tmp_path / ("x" * 200)
    envoy_bootstrap.prepare(directory, (Listener("front-door", "127.0.0.1", 8080),))
    admin = json.loads((directory / "bootstrap.json").read_text())["admin"]
    assert admin == {"address": {"pipe": {"path": "./admin.sock", "mode": 0o600}}}
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connection:
        here = os.open(directory, os.O_PATH)
        listening.bind(f"/proc/self/fd/{here}/admin.sock")
        os.close(here)
        listening.listen()
        sockets.connect(connection, envoy_admin.find_admin_socket(directory))
