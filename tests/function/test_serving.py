"""How the function is served: to whom, and several requests at a time."""

import ipaddress
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.crossplane.function_process import FunctionProcess, call
from support.crossplane.manifests import (
    inference_class,
    inference_cluster,
    model_deployment,
)
from support.crossplane.protobuf import struct


class Authority:
    """An authority, and certificates that it has signed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._signed(self._name, self._key.public_key(), is_authority=True)
        self.certificate = own.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Return the key and the certificate of somebody on this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        written = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        signed = self._signed(subject, key.public_key(), is_authority=False)
        return written, signed.public_bytes(serialization.Encoding.PEM)

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(here), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def client(self, trusted: "Authority", *, known: bool = True) -> grpc.ChannelCredentials:
        """Return what a client of this authority shows to a server of another."""
        key, certificate = self.issue("crossplane")
        if not known:
            return grpc.ssl_channel_credentials(trusted.certificate)
        return grpc.ssl_channel_credentials(trusted.certificate, key, certificate)


def request() -> fnv1.RunFunctionRequest:
    asked = fnv1.RunFunctionRequest()
    asked.observed.composite.resource.CopyFrom(struct(inference_class()))
    return asked


def answers(process: FunctionProcess, credentials: grpc.ChannelCredentials | None) -> bool:
    """Whether the function answers somebody with these credentials."""
    with process.connect(credentials) as channel:
        try:
            call(channel, request(), timeout_s=3)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE  # noqa: PT017 - any other failure is a defect
            return False
        return True


def test_with_certificates_only_who_has_one_of_the_same_authority_is_answered(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    key, certificate = ours.issue("function")
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    for name, content in (("tls.key", key), ("tls.crt", certificate), ("ca.crt", ours.certificate)):
        (certificates / name).write_bytes(content)
    arguments = ("--tls-certs-dir", str(certificates))
    with FunctionProcess(tmp_path / "log", *arguments, credentials=ours.client(ours)) as process:
        assert {
            "a client of ours": answers(process, ours.client(ours)),
            "a client of another authority": answers(process, theirs.client(ours)),
            "a client that shows nothing": answers(process, ours.client(ours, known=False)),
            "a client that trusts another authority": answers(process, ours.client(theirs)),
            "a client without encryption": answers(process, None),
        } == {
            "a client of ours": True,
            "a client of another authority": False,
            "a client that shows nothing": False,
            "a client that trusts another authority": False,
            "a client without encryption": False,
        }


@pytest.mark.parametrize("missing", ["tls.key", "tls.crt", "ca.crt"])
def test_without_a_certificate_it_does_not_start_and_says_which(tmp_path: Path, missing: str) -> None:
    ours = Authority(tmp_path, "ours")
    key, certificate = ours.issue("function")
    for name, content in (("tls.key", key), ("tls.crt", certificate), ("ca.crt", ours.certificate)):
        if name != missing:
            (tmp_path / name).write_bytes(content)
    process = FunctionProcess(tmp_path / "log", "--tls-certs-dir", str(tmp_path))
    assert process.ends() != 0
    assert missing in process.log


def test_without_encryption_it_answers_whoever_calls(function: FunctionProcess) -> None:
    assert answers(function, None)


def test_a_request_that_takes_long_holds_up_no_other(function: FunctionProcess) -> None:
    large = fnv1.RunFunctionRequest()
    large.observed.composite.resource.CopyFrom(struct(model_deployment(replicas=20)))
    function_requires = function.run(large).requirements.resources
    for key in function_requires:
        large.required_resources[key].SetInParent()
    for number in range(3000):
        item = large.required_resources["clusters"].items.add()
        item.resource.CopyFrom(struct(_ready_cluster(f"c{number}")))
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(function.run, large)
        meanwhile = 0
        while not slow.done():
            function.run(request())
            meanwhile += 1
        assert slow.result().HasField("desired")
    # Where it held up the others, the first of them would have been answered after it.
    assert meanwhile >= 2


def _ready_cluster(name: str) -> dict[str, object]:
    cluster = inference_cluster(name)
    conditions = [
        {"type": type_, "status": "True", "reason": "Known", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_ in ("Ready", "ClusterReady", "BackendReady")
    ]
    devices = inference_class()["spec"]["devices"]
    pool = {"name": "pool", "nodes": 2, "accounting": "DRA", "devices": devices}
    return {**cluster, "status": {"conditions": conditions, "gpuPools": [pool]}}
