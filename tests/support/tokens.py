"""Tokens as API servers issue them, and kubeconfigs with one."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

NAMESPACE = "modelplane-system"
ACCOUNT = "modelplane-inference-cluster"
SUBJECT = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"


def token(subject: str = SUBJECT, **claims: float) -> str:
    """Return a token with claims and a signature that nothing has verified."""
    payload = json.dumps({"sub": subject, **claims}).encode()
    return f"e30.{_encoded(payload)}.c2ln"


def kubeconfig(namespace: str = "", **user: str) -> bytes:
    """Return a kubeconfig of one user; port 1 refuses at once."""
    where = {"namespace": namespace} if namespace else {}
    content: dict[str, Any] = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", **where}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }
    return yaml.safe_dump(content).encode()


def signed(key: Path, uid: str, issued: float, expires: float) -> str:
    """Return a token of the identity with any lifetime, by the key of an API server of ours."""
    issuer = "https://kubernetes.default.svc.cluster.local"
    account = {"namespace": NAMESPACE, "serviceaccount": {"name": ACCOUNT, "uid": uid}}
    times = {"iat": int(issued), "exp": int(expires)}
    return _signed(key, {"iss": issuer, "aud": [issuer], "sub": SUBJECT, "kubernetes.io": account, **times})


def endless(key: Path, uid: str, secret: str) -> str:
    """Return a token of the identity as Kubernetes writes it into a Secret, valid forever."""
    about = {"namespace": NAMESPACE, "secret.name": secret}
    about |= {"service-account.name": ACCOUNT, "service-account.uid": uid}
    claims = {f"kubernetes.io/serviceaccount/{name}": value for name, value in about.items()}
    return _signed(key, {"iss": "kubernetes/serviceaccount", "sub": SUBJECT, **claims})


def _signed(key: Path, claims: Mapping[str, Any]) -> str:
    parts: tuple[Mapping[str, Any], ...] = ({"alg": "ES256", "typ": "JWT"}, claims)
    text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    numbers = decode_dss_signature(loaded.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_encoded(b''.join(each.to_bytes(32, 'big') for each in numbers))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
