import base64

import yaml

from modelplane.local.kubernetes.control_plane import Pki
from modelplane.local.setup import Access, build_kubeconfig, ensure_kubeconfig


def encoded(text):
    return base64.b64encode(text).decode()


def test_a_kubeconfig_carries_its_certificates_and_the_address(tmp_path):
    files = Pki(tmp_path)
    files.authority.write_bytes(b"authority")
    files.find_certificate("admin").write_bytes(b"certificate")
    files.find_key("admin").write_bytes(b"key")
    assert yaml.safe_load(build_kubeconfig(Access("modelplane", files, "admin", 6444))) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "modelplane",
                "cluster": {
                    "server": "https://127.0.0.1:6444",
                    "certificate-authority-data": encoded(b"authority"),
                },
            }
        ],
        "users": [
            {
                "name": "modelplane",
                "user": {
                    "client-certificate-data": encoded(b"certificate"),
                    "client-key-data": encoded(b"key"),
                },
            }
        ],
        "contexts": [{"name": "modelplane", "context": {"cluster": "modelplane", "user": "modelplane"}}],
        "current-context": "modelplane",
    }


def test_a_kubeconfig_that_is_right_is_left_alone(tmp_path):
    path = tmp_path / "kubeconfig"
    ensure_kubeconfig(path, "content")
    first = path.stat()
    ensure_kubeconfig(path, "content")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    ensure_kubeconfig(path, "other")
    assert path.read_text() == "other"
