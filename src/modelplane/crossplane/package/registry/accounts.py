"""Accounts for registries, as container tools store them.

``docker login`` and ``podman login`` write a file of accounts, or hand them to a credential helper: a program
``docker-credential-NAME`` that prints the account of a host. No message of this module has a password.
"""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from modelplane.crossplane.package.errors import PackageError

_HELPER_TIMEOUT_S = 30
DOCKER_HUB = "docker.io"
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"


@dataclass(frozen=True, slots=True)
class Account:
    """A name and a password or token; its text has neither."""

    name: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """The value of a header ``Authorization``."""
        return f"Basic {base64.b64encode(f'{self.name}:{self.password}'.encode()).decode()}"


def stored(host: str, environment: Mapping[str, str] = os.environ) -> Account | None:
    """Return the stored account for a registry; None if there is none."""
    for path in _files(environment):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise PackageError(f'cannot read the accounts in "{path}": {error.strerror}') from error
        found = _account(host, _document(path, content), path)
        if found is not None:
            return found
    return None


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files of accounts in the order of precedence, that of Podman's tools first."""
    if named := environment.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
        return
    if folder := environment.get("XDG_RUNTIME_DIR"):
        yield Path(folder, "containers", "auth.json")
    yield Path(environment.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"


def _document(path: Path, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        # An error of the parser would quote the content.
        raise PackageError(f'"{path}" is no file of accounts: it is no JSON object: log in again')
    return found


def _account(host: str, document: dict[str, Any], path: Path) -> Account | None:
    keys = (host, f"https://{host}", *((_DOCKER_HUB_KEY,) if host == DOCKER_HUB else ()))
    helpers = document.get("credHelpers")
    helper = next((helpers[key] for key in keys if key in helpers), "") if isinstance(helpers, dict) else ""
    auths = document.get("auths")
    entry = next((auths[key] for key in keys if key in auths), None) if isinstance(auths, dict) else None
    if helper or (not _has_secret(entry) and (helper := document.get("credsStore"))):
        return _helped(str(helper), _DOCKER_HUB_KEY if host == DOCKER_HUB else host)
    return _decoded(entry, path, host) if _has_secret(entry) else None


def _has_secret(entry: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(entry, dict) and bool(entry.get("auth") or entry.get("username"))


def _decoded(entry: dict[str, Any], path: Path, host: str) -> Account:
    if entry.get("identitytoken"):
        raise _identity_token(host)
    if not entry.get("auth"):
        return Account(str(entry["username"]), str(entry.get("password", "")))
    try:
        name, _, password = base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise PackageError(f'"{path}" has an account for {host} that is damaged: log in again') from None
    return Account(name, password)


def _helped(helper: str, host: str) -> Account | None:
    """Return the account that a credential helper has; None if it has none."""
    program = f"docker-credential-{helper}"
    if "/" in helper:
        raise PackageError(f'"{program}" is no name of a credential helper: correct the file of accounts')
    try:
        done = subprocess.run(
            [program, "get"],
            input=host.encode(),
            capture_output=True,
            timeout=_HELPER_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise PackageError(
            f"the accounts are kept by {program}, which is not on PATH: install it, or name the account with "
            "--username and --password-stdin"
        ) from None
    except subprocess.TimeoutExpired:
        raise PackageError(
            f"{program} has not answered for {_HELPER_TIMEOUT_S} s: unlock its store, or name the account "
            "with --username and --password-stdin"
        ) from None
    if done.returncode:
        return None
    try:
        found = json.loads(done.stdout)
        account = Account(found["Username"], found["Secret"])
    except (ValueError, KeyError, TypeError):
        raise PackageError(f"{program} has answered with no account: log in again") from None
    if account.name == "<token>":
        raise _identity_token(host)
    return account


def _identity_token(host: str) -> PackageError:
    return PackageError(
        f"the account for {host} is an identity token, which cannot be used here: name an account with "
        "--username and --password-stdin"
    )
