"""AWS: a token for an EKS cluster, from an access key or from the controllers' own web identity.

The token is a signed request to STS for the identity of its sender, which the cluster sends.

Source: AWS CLI, ``aws eks get-token``; aws-iam-authenticator, "API Authorization from Outside a Cluster".
"""

import base64
import configparser
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from modelplane.controllers.clusters.cloud_identities import Credential, Token, make_line

LIFETIME_S: Final = 14 * 60
"""EKS accepts a token for 15 minutes. Source: AWS CLI."""

_REQUEST_S = 60
"""Source: AWS CLI."""

WEB_IDENTITY: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"
"""Variable of the controllers' process that EKS sets if their ServiceAccount has a role."""

_TIMEOUT_S = 10.0
_CLUSTER = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):eks:(?P<region>[a-z]{2}(-[a-z]+)+-[0-9]):[0-9]{12}"
    r":cluster/(?P<name>[0-9A-Za-z][0-9A-Za-z_-]{0,99})"
)
_NO_PROFILE = (
    "not a profile of an AWS credentials file: [default] with aws_access_key_id and aws_secret_access_key, "
    "or with role_arn"
)


class _Keys(NamedTuple):
    """An access key, as botocore takes it."""

    access_key: str
    secret_key: str
    token: str | None = None


def exchange(credential: Credential, sts: str = "") -> Token:
    """Return a token for the cluster of a credential, which is a profile of AWS's credentials file.

    ``sts`` is the address of STS; empty for that of the cluster's region. Raises ``ValueError`` with the
    cause, which does not quote the profile.
    """
    try:
        from botocore import auth, awsrequest, credentials  # noqa: PLC0415 - an extra
    except ImportError:
        raise ValueError("botocore is not installed: install Modelplane with the extra [aws]") from None
    profile = _profile(credential.content)
    cluster = _CLUSTER.fullmatch(credential.cluster)
    if cluster is None:
        raise ValueError(
            "the kubeconfig's cluster name is not the cluster's ARN, which `aws eks update-kubeconfig` "
            "sets: rename the cluster in the kubeconfig"
        )
    region = cluster["region"]
    domain = "amazonaws.com.cn" if cluster["partition"] == "aws-cn" else "amazonaws.com"
    address = f"https://sts.{region}.{domain}/"
    keys, ends = _keys(profile, region, sts or address)
    request = awsrequest.AWSRequest(
        method="GET",
        url=address,
        params={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
        headers={"x-k8s-aws-id": cluster["name"]},
    )
    signer = auth.SigV4QueryAuth(credentials.Credentials(*keys), "sts", region, expires=_REQUEST_S)
    signer.add_auth(request)
    encoded = base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("=")
    return Token(f"k8s-aws-v1.{encoded}", min(ends, time.time() + LIFETIME_S))


def _profile(content: bytes) -> Mapping[str, str]:
    """Return the default profile. Of its fields, only those that are read here have an effect."""
    parser = configparser.RawConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(content.decode())
        profile = parser["default"]
    except (UnicodeDecodeError, configparser.Error, KeyError):
        raise ValueError(_NO_PROFILE) from None
    has_key = profile.get("aws_access_key_id") and profile.get("aws_secret_access_key")
    if not (has_key or profile.get("role_arn")):
        raise ValueError(_NO_PROFILE)
    return profile


def _keys(profile: Mapping[str, str], region: str, sts: str) -> tuple[_Keys, float]:
    """Return the access key to sign with, and its end: that of the profile, or of the role that it names."""
    own = None
    if key := profile.get("aws_access_key_id"):
        own = _Keys(key, profile.get("aws_secret_access_key", ""), profile.get("aws_session_token"))
    role = profile.get("role_arn")
    if own and not role:
        return own, float("inf")
    from botocore import exceptions  # noqa: PLC0415 - an extra

    try:
        answer = _assumed(str(role), own, region, sts)
    except exceptions.ClientError as error:
        raise ValueError(f"AWS refuses the role: {make_line(str(error))}") from None
    except exceptions.BotoCoreError as error:
        raise ValueError(f"AWS STS doesn't respond: {make_line(str(error))}") from None
    found = answer["Credentials"]
    keys = _Keys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
    return keys, found["Expiration"].timestamp()


def _assumed(role: str, own: _Keys | None, region: str, sts: str) -> Any:
    """Return STS's answer for a role, which is assumed by a key or else by the controllers' web identity."""
    import botocore.session  # noqa: PLC0415 - an extra
    from botocore import UNSIGNED  # noqa: PLC0415 - an extra
    from botocore.config import Config  # noqa: PLC0415 - an extra

    key = own or _Keys("", "")  # a request that is not signed does not use it
    client = botocore.session.Session().create_client(
        "sts",
        region_name=region,
        endpoint_url=sts,
        aws_access_key_id=key.access_key,
        aws_secret_access_key=key.secret_key,
        aws_session_token=key.token,
        config=Config(
            signature_version=None if own else UNSIGNED,
            connect_timeout=_TIMEOUT_S,
            read_timeout=_TIMEOUT_S,
            retries={"total_max_attempts": 1},
            proxies={},
        ),
    )
    wanted = {"RoleArn": role, "RoleSessionName": "modelplane"}
    if own:
        return client.assume_role(**wanted)
    try:
        token = Path(os.environ[WEB_IDENTITY]).read_text()
    except (KeyError, OSError, UnicodeDecodeError):
        raise ValueError(
            f"there is no access key, and the controllers have no web identity ({WEB_IDENTITY}): add a "
            "key, or give the controllers' ServiceAccount a role"
        ) from None
    return client.assume_role_with_web_identity(**wanted, WebIdentityToken=token)
