"""Access to a cluster: the kubeconfig that its connection uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from modelplane.kube import kubeconfig_secret
from modelplane.kube.token_claims import Claims, decode_claims


@dataclass(frozen=True, slots=True)
class Supplied:
    """A token from elsewhere, for a kubeconfig without a credential."""

    token: str = field(default="", repr=False)
    """Empty if there is none."""
    problem: str = ""
    """The reason for which there is none, although the kubeconfig needs one; empty otherwise."""


@dataclass(frozen=True, slots=True)
class Access:
    """A kubeconfig from a Secret."""

    key: str
    where: str
    """The Secret as messages name it."""
    content: bytes = field(repr=False)
    kubeconfig: Mapping[str, Any] = field(repr=False)
    """Its current context."""
    claims: Claims | None
    """The claims of its token; None if it has none, or if it is renewed elsewhere."""

    supplied: Supplied = Supplied()
    """The token to use if the kubeconfig has no credential."""

    @classmethod
    def of(
        cls,
        content: bytes,
        key: str,
        where: str,
        *,
        supplied: Supplied = Supplied(),
        is_renewed: bool = False,
    ) -> Self:
        """Read a kubeconfig. Raises ``ValueError`` for one that is not accepted.

        ``is_renewed`` tells that a provider renews the token: its claims are then not read.
        """
        kubeconfig = kubeconfig_secret.parse_kubeconfig(content, key, where)
        if kubeconfig_secret.has_credential(kubeconfig):
            claims = None if is_renewed else decode_claims(kubeconfig_secret.find_token(kubeconfig))
            return cls(key, where, content, kubeconfig, claims, supplied)
        if supplied.problem:
            raise ValueError(supplied.problem)
        if supplied.token:
            kubeconfig = kubeconfig_secret.replace_token(kubeconfig, supplied.token)
        return cls(key, where, content, kubeconfig, None, supplied)

    @property
    def token(self) -> str:
        """The token; empty if it has none."""
        return kubeconfig_secret.find_token(self.kubeconfig)

    def differs_in_token_only(self, other: "Access") -> bool:
        """Return True if another access has a token too, and is the same otherwise."""
        same = (self.key, self.where) == (other.key, other.where) and self.token and other.token
        return bool(same) and self.kubeconfig == kubeconfig_secret.replace_token(other.kubeconfig, self.token)

    def with_token(self, token: str) -> bytes:
        """Return its text with another token. Raises ``ValueError`` if that is not possible."""
        return kubeconfig_secret.rewrite_token(self.content, token, self.key, self.where)
