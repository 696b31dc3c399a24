"""Private keys of kubeconfigs in files of the machine."""

import base64
import tempfile
from pathlib import Path

import pytest

from modelplane.kube import connection
from support import certificates


def test_a_client_key_is_in_no_file_with_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates.authority(tmp_path)
    certificates.server_context(tmp_path, "client")
    pair = base64.b64encode((tmp_path / "client.pem").read_bytes()).decode()
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"client-certificate-data": pair, "client-key-data": pair}}],
    }

    def refuse() -> None:
        raise AssertionError("a temporary file")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    http = connection.connect_by_kubeconfig(kubeconfig, 1.0)
    assert http.base_url.scheme == "https"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
