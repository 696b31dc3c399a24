"""Requests to a repository of a registry: authorization, verdicts, and new tries.

Credentials go to the registry, and to the token server that it names if that is reached over HTTPS or is the
registry itself. They are in no message, not even if the registry repeats them.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.package_addresses import Target
from modelplane.crossplane.package.registry.accounts import DOCKER_HUB, Account

DELAYS_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses before the second and each later try."""
LONGEST_DELAY_S = 60.0
"""The longest pause that a registry may ask for."""

_TIMEOUT_S = 60.0
_LARGEST_ANSWER = 4 << 20
_LONGEST_MESSAGE = 300
_SHORTEST_SECRET = 4
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

Content = Callable[[], Iterable[bytes]]
"""Opens what is uploaded, anew for each try."""

Result = TypeVar("Result")


class _Unfinished(Exception):
    """A failure without a verdict, which another try may not have."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a registry."""

    status: int
    url: httpx2.URL
    headers: httpx2.Headers
    body: bytes


class Connection:
    """Requests to one repository."""

    def __init__(
        self,
        client: httpx2.Client,
        target: Target,
        account: Account | None,
        *,
        origin: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        scheme = "http" if target.is_loopback else "https"
        # The registry of Docker Hub has another name than its images.
        host = "registry-1.docker.io" if target.host == DOCKER_HUB else target.host
        self.target = target
        self._client = client
        self._account = account
        self._origin = httpx2.URL(origin or f"{scheme}://{host}")
        self._pause = pause
        self._authorization = ""
        self._secrets = {account.password, account.basic.split()[1]} if account else set[str]()

    def url(self, path: str) -> httpx2.URL:
        """Return the address of something of the repository."""
        return self._origin.join(f"/v2/{self.target.path}/{path}")

    def patiently(self, attempt: Callable[[], Result]) -> Result:
        """Return the result of an attempt, after failures without a verdict of another one."""
        for delay in (*DELAYS_S, None):
            try:
                return attempt()
            except _Unfinished as error:
                if delay is None:
                    raise PackageError(f"{error} ({len(DELAYS_S) + 1} tries): try again later") from error
                self._pause(max(delay, min(error.after_s, LONGEST_DELAY_S)))
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def ask(
        self,
        method: str,
        url: httpx2.URL,
        headers: Mapping[str, str] | None = None,
        content: Content | None = None,
    ) -> Answer:
        """Return the answer to one request, with authorization if the registry asks for it."""
        answer = self._send(method, url, headers or {}, content)
        if answer.status == httpx2.codes.UNAUTHORIZED and self._is_registry(url):
            self._authorize(answer)
            answer = self._send(method, url, headers or {}, content)
        if answer.status in _AGAIN:
            raise _Unfinished(self.refusal(answer), _seconds(answer.headers.get("Retry-After", "")))
        if answer.status == httpx2.codes.UNAUTHORIZED:
            raise PackageError(self._unauthorized(answer))
        if answer.status == httpx2.codes.FORBIDDEN:
            who = f'account "{self._account.name}"' if self._account else "a client without an account"
            raise PackageError(
                f"{self.refusal(answer)}: {who} may not do this: let it push to {self.target.path}"
            )
        return answer

    def followed(self, answer: Answer) -> httpx2.URL:
        """Return the address that an answer refers to, which is never less safe than the registry."""
        try:
            found = answer.url.join(answer.headers.get("Location", ""))
        except httpx2.InvalidURL as error:
            raise PackageError(f"{self.target.host} refers to an address that is none") from error
        if found.scheme != "https" and not self._is_registry(found):
            raise PackageError(
                f"{self.target.host} sends the upload to {found.scheme}://{found.host}, which is neither "
                "HTTPS nor the registry: correct the registry's own address in its configuration"
            )
        return found

    def refusal(self, answer: Answer) -> str:
        """Return the sentence for an answer that is not the expected one."""
        said = self._said(answer)
        return f"{self.target.host} answered with status {answer.status}{f' ({said})' if said else ''}"

    def _is_registry(self, url: httpx2.URL) -> bool:
        return _origin(url) == _origin(self._origin)

    def _send(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], content: Content | None
    ) -> Answer:
        authorization = (
            {"Authorization": self._authorization} if self._authorization and self._is_registry(url) else {}
        )
        body = content() if content else None
        with (
            self._reached(url),
            self._client.stream(
                method, url, headers={**headers, **authorization}, content=body, timeout=_TIMEOUT_S
            ) as response,
        ):
            return Answer(response.status_code, url, response.headers, _bounded(response))

    @contextmanager
    def _reached(self, url: httpx2.URL) -> Iterator[None]:
        try:
            yield
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            # The text of an error of TLS says what is wrong with the certificate.
            why = self._clean(str(error)) or type(error).__name__
            message = f"no answer of {url.host}: {why}"
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                remedy = "name the file of your certificate authority in SSL_CERT_FILE"
                raise PackageError(f"{message}: {remedy}") from error
            raise _Unfinished(message) from error

    def _authorize(self, answer: Answer) -> None:
        """Get the authorization that a refusal asks for."""
        challenge = answer.headers.get("WWW-Authenticate", "")
        kind, _, parameters = challenge.partition(" ")
        if kind.lower() == "bearer":
            self._authorization = f"Bearer {self._token(dict(_PARAMETER.findall(parameters)))}"
        elif kind.lower() == "basic" and self._account:
            self._authorization = self._account.basic

    def _token(self, challenge: Mapping[str, str]) -> str:
        try:
            realm = httpx2.URL(challenge.get("realm", ""))
        except httpx2.InvalidURL as error:
            raise PackageError(f"{self.target.host} names no server for tokens") from error
        if realm.scheme != "https" and not self._is_registry(realm):
            raise PackageError(
                f"{self.target.host} asks for credentials to be sent to {realm.scheme}://{realm.host}, which "
                "is not HTTPS: no credentials were sent"
            )
        scope = {"service": challenge.get("service", ""), "scope": f"repository:{self.target.path}:pull,push"}
        headers = {"Authorization": self._account.basic} if self._account else {}
        url = realm.copy_merge_params({name: value for name, value in scope.items() if value})
        with self._reached(url), self._client.stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as got:
            answer = Answer(got.status_code, url, got.headers, _bounded(got))
        if answer.status in _AGAIN:
            raise _Unfinished(self.refusal(answer), _seconds(answer.headers.get("Retry-After", "")))
        found = _json(answer.body)
        token = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
        if answer.status != httpx2.codes.OK or not isinstance(token, str) or not token.isascii():
            raise PackageError(self._unauthorized(answer))
        self._secrets.add(token)
        return token

    def _unauthorized(self, answer: Answer) -> str:
        remedy = f"run `docker login {self.target.host}`, or give --username and --password-stdin"
        if self._account is None:
            return f"{self.refusal(answer)}: it wants an account to push to {self.target.path}: {remedy}"
        return f'{self.refusal(answer)}: it does not accept the account "{self._account.name}": {remedy}'

    def _said(self, answer: Answer) -> str:
        """Return the message of an answer, in the form of the specification."""
        found = _json(answer.body)
        errors = found.get("errors") if isinstance(found, dict) else None
        if not isinstance(errors, list) or not errors or not isinstance(errors[0], dict):
            return ""
        return self._clean(": ".join(str(errors[0][key]) for key in ("code", "message") if key in errors[0]))

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "[hidden]")
        return "".join(letter for letter in text if letter.isprintable())[:_LONGEST_MESSAGE]


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _bounded(response: httpx2.Response) -> bytes:
    body = b""
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _LARGEST_ANSWER:
            raise PackageError(f"{response.url.host} answers with more than {_LARGEST_ANSWER >> 20} MiB")
    return body


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0
