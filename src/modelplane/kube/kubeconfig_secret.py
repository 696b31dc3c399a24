"""Kubeconfig in a Secret: the one place where it is read and checked.

The writers of a Secret do not choose what runs on this machine. So a kubeconfig from a Secret has only fields
of an allow-list: the address of an API server, how to verify it, and a credential, all of them as values. A
kubeconfig in a file of the user's own is not read here, and may have any field.

One rule: errors name the Secret, its key and the field, never their content.

The claims of a token are its account and its lifetime, as the token itself states them. Nothing is verified:
the claims tell only when to replace a token.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import urlsplit

import msgspec
import yaml

_LONGEST = 16 * 1024
"""Longest token that is read, in characters; one of an API server has about 1,000."""

_Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, before the year 10000."""


# The one in C is ten times as fast, and not in every build of the library.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of every kubeconfig from a Secret."""
_DEEPEST = 20
"""Deepest nesting of a kubeconfig; an ordinary one has six levels."""
LARGEST: Final = 256 * 1024
"""Largest size of a kubeconfig, in bytes; an ordinary one has 10 KiB."""
ACCEPTED: Final[Mapping[str, frozenset[str]]] = {
    "context": frozenset({"cluster", "user", "namespace"}),
    "cluster": frozenset({"server", "certificate-authority-data"}),
    "user": frozenset({"token", "client-certificate-data", "client-key-data", "username", "password"}),
}
"""The fields that have an effect; each is a text."""
_WITHOUT_EFFECT: Final = frozenset({"extensions", "disable-compression"})
_CREDENTIAL: Final = "use a token, or client-certificate-data and client-key-data"
REFUSED: Final[Mapping[str, str]] = {
    "exec": f"it would run a program in the controllers: {_CREDENTIAL}",
    "auth-provider": f"it would run code of a cloud in the controllers: {_CREDENTIAL}",
    "tokenFile": "it would read a file of the controllers: use token",
    "client-certificate": "it would read a file of the controllers: use client-certificate-data",
    "client-key": "it would read a file of the controllers: use client-key-data",
    "certificate-authority": "it would read a file of the controllers: use certificate-authority-data",
    "proxy-url": "it would send the credential through a proxy: remove it",
    "insecure-skip-tls-verify": (
        "it would send the credential to an unverified server: use certificate-authority-data"
    ),
    "tls-server-name": (
        "the certificate is verified for the host in server: use a name of the certificate there"
    ),
}
"""Reasons against known fields, with the remedy. Any other field that is not accepted is refused too."""


class _Payload(msgspec.Struct):
    sub: str
    iat: _Time | None = None
    exp: _Time | None = None


_decode = msgspec.json.Decoder(_Payload).decode


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The time for which a token is valid, in seconds since 1970."""

    issued: float
    expires: float

    def choose_renewal(self, share: float) -> float:
        """Return the time to renew the token: at half of its life, five percent earlier or later.

        ``share``, from 0 to 1, distributes the tokens of a fleet.
        """
        return self.find_time_after(0.45 + 0.1 * share)

    @property
    def last_quarter(self) -> float:
        """The time from which less than a quarter of the life is left."""
        return self.find_time_after(0.75)

    def find_time_after(self, part: float) -> float:
        """Return the time at which a part of the life is over."""
        return self.issued + part * (self.expires - self.issued)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token that matter for its renewal."""

    subject: str
    lifetime: Lifetime | None
    """None if the token does not expire."""


def decode_claims(token: str) -> Claims | None:
    """Return the claims of a token; None if it has none, or contradictory ones."""
    parts = token.split(".", 3)
    if len(token) > _LONGEST or len(parts) != 3:
        return None
    try:
        payload = _decode(base64.urlsafe_b64decode(f"{parts[1]}==="))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    if payload.exp is None:
        return Claims(payload.sub, None)
    if payload.iat is None or payload.iat >= payload.exp:
        return None
    return Claims(payload.sub, Lifetime(payload.iat, payload.exp))


def read_content(
    secret: Mapping[str, Any] | None, key: str, where: str, what: str = "the cluster's kubeconfig"
) -> bytes:
    """Return the text of the kubeconfig; ``where`` and ``what`` name the Secret in the ``ValueError``."""
    if secret is None:
        raise ValueError(f"there is no {where}: create it with {what}")
    encoded = secret.get("data", {}).get(key)
    if not encoded:
        raise ValueError(f'{where} has no key "{key}"')
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f'key "{key}" of {where} is not base64') from None


def parse_kubeconfig(text: bytes, key: str, where: str) -> dict[str, Any]:
    """Return the current context of a kubeconfig, with accepted fields only. Raises ``ValueError``."""
    named = f'key "{key}" of {where}'
    if len(text) > LARGEST:
        raise ValueError(
            f"{named} is larger than {LARGEST // 1024} KiB: leave only the cluster's context in it"
        )
    try:
        _check_events(text)
        kubeconfig = dict(yaml.load(text, LOADER))  # noqa: S506 - a safe loader, whichever of the two
    except Exception:  # noqa: BLE001 - constructors of YAML's tags raise whatever their code happens to
        # Not the parser's message: it quotes the text, which has credentials.
        raise ValueError(f"{named} is not a kubeconfig") from None
    return _current(kubeconfig, named)


def has_credential(kubeconfig: Mapping[str, Any]) -> bool:
    """Return True if the user of a kubeconfig that ``parse_kubeconfig`` returned has a credential."""
    return any(user["user"] for user in kubeconfig["users"])


def find_token(kubeconfig: Mapping[str, Any]) -> str:
    """Return the token of a kubeconfig that ``parse_kubeconfig`` returned; empty if its user has none."""
    return str(kubeconfig["users"][0]["user"].get("token", ""))


def replace_token(kubeconfig: Mapping[str, Any], token: str) -> dict[str, Any]:
    """Return a kubeconfig that ``parse_kubeconfig`` returned, with another token."""
    [entry] = kubeconfig["users"]
    return {**kubeconfig, "users": [{**entry, "user": {**entry["user"], "token": token}}]}


def _check_events(text: bytes) -> None:
    """Raise ``ValueError`` for what would overflow the loader's stack or memory, and end the process."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        # Aliases that merge one another multiply.
        if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
            raise ValueError("nested too deeply, or with aliases")


def _current(kubeconfig: Mapping[str, Any], named: str) -> dict[str, Any]:
    """Return the current context, its cluster and its user, each checked, and nothing else."""
    current = kubeconfig.get("current-context")
    if not isinstance(current, str) or not current:
        raise ValueError(f"{named} has no current-context: name a context there")
    context = _entry(kubeconfig, "context", current, named)
    used = {part: _entry(kubeconfig, part, context.get(part, ""), named) for part in ("cluster", "user")}
    if not _is_https(used["cluster"].get("server", "")):
        _refuse(
            "clusters[].cluster.server", "it is not an https:// address: use that of the API server", named
        )
    return {
        "current-context": current,
        "contexts": [{"name": current, "context": context}],
        **{f"{part}s": [{"name": context[part], part: entry}] for part, entry in used.items()},
    }


def _entry(kubeconfig: Mapping[str, Any], part: str, name: str, named: str) -> dict[str, str]:
    """Return the fields of a named context, cluster or user that have an effect."""
    listed = kubeconfig.get(f"{part}s")
    entries = (
        [entry for entry in listed if (isinstance(entry, Mapping) and entry.get("name") == name)]
        if isinstance(listed, list)
        else []
    )
    if len(entries) != 1 or not isinstance(entries[0].get(part), Mapping):
        raise ValueError(f"{named} does not have one {part} of the name that its current context uses")
    fields = {field: value for field, value in entries[0][part].items() if value}
    for field, value in fields.items():
        path = f"{part}s[].{part}.{field}"
        if field not in ACCEPTED[part] | _WITHOUT_EFFECT:
            _refuse(path, REFUSED.get(field, "it is not one that Modelplane reads: remove it"), named)
        if field in ACCEPTED[part] and not isinstance(value, str):
            _refuse(path, "it is not text: put the value in quotes", named)
    return {field: value for field, value in fields.items() if field in ACCEPTED[part]}


def _is_https(server: str) -> bool:
    """Return True if an address is a host behind TLS, and carries no credential or query."""
    try:
        parts = urlsplit(server)
        return bool(
            parts.scheme == "https"
            and parts.hostname
            and (parts.port is None or parts.port > 0)
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:
        return False


def _refuse(field: str, why: str, named: str) -> NoReturn:
    raise ValueError(f"{named} is not accepted, field {field[:128]!a}: {why}")


def rewrite_token(text: bytes, token: str, key: str, where: str) -> bytes:
    """Return the text with another token of the current context's user. Raises ``ValueError``.

    Everything else remains, comments and other contexts included.
    """
    before = parse_kubeconfig(text, key, where)
    try:
        whole = text.decode()
        users = map(_fields, _fields(yaml.compose(whole, LOADER))["users"].value)
        name = before["users"][0]["name"]
        [named] = [entry for entry in users if "name" in entry and entry["name"].value == name]
        node = _fields(named["user"])["token"]
        start, end = node.start_mark.index, node.end_mark.index
        # A block scalar includes the line breaks after it.
        replaced = whole[start:end]
        breaks = replaced[len(replaced.rstrip()) :]
        after = f'{whole[:start]}"{token}"{breaks}{whole[end:]}'.encode()
        if parse_kubeconfig(after, key, where) == replace_token(before, token):
            return after
    except (LookupError, ValueError):
        pass  # the cause would quote the text, which has credentials
    raise ValueError(f'cannot replace the token in key "{key}" of {where}: write it there in one line')


def _fields(node: Any) -> dict[str, Any]:
    """Return the fields of a mapping; of a repeated one the last counts, as where the text is loaded."""
    return {key.value: value for key, value in node.value}
