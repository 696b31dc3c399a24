"""Credentials of the gateway's backends, from the Secrets that the routes name.

Only named Secrets are read, each in the namespace of its endpoint. One that cannot be read changes nothing:
what it gave before stays in force.
"""

from collections.abc import Callable, Iterable

from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.model_endpoint import secret_requirement
from modelplane.gateway.credentials import build_header, list_references
from modelplane.gateway.envoy.module_filters import CREDENTIALS
from modelplane.gateway.module_files.route_files import CredentialFile, SecretHeader
from modelplane.gateway.route_table import Route
from modelplane.kube.informer import Key, build_key
from modelplane.kube.resources import Object

Find = Callable[[Requirement], tuple[Object, ...] | Unknown]
"""Returns the objects of a requirement, or why they are unknown."""


class ProviderCredentials:
    """Reads the credentials that routes name."""

    def __init__(self, find: Find, former: Callable[[str], str]) -> None:
        """``former`` returns a file of the gateway, also one that an earlier process wrote."""
        self._find = find
        self._former = former
        self._file: CredentialFile | None = None
        self._leaving: frozenset[str] = frozenset()
        self._named: frozenset[Key] = frozenset()
        self.loading = False
        """True if a Secret that was named in the last ``read`` is being read for the first time."""

    def concerns(self, item: Object) -> bool:
        """Return True if an object is a Secret that was named in the last ``read``."""
        return item["kind"] == "Secret" and build_key(item) in self._named

    def requires(self, requirement: Requirement) -> bool:
        """Return True if a requirement is one of the Secrets that were named in the last ``read``."""
        return requirement.kind == "Secret" and Key(requirement.namespace, requirement.name) in self._named

    def read(self, routes: Iterable[Route]) -> CredentialFile:
        """Return the credentials that are in force."""
        references = {reference.name: reference for reference in list_references(routes)}
        self._named = frozenset(
            Key(reference.namespace, reference.secret) for reference in references.values()
        )
        self.loading = False
        if self._file is None:
            self._file = CredentialFile.parse(self._former(CREDENTIALS))
        found: dict[str, SecretHeader] = {}
        for name, reference in references.items():
            secrets = self._find(secret_requirement(reference.namespace, reference.secret))
            if not isinstance(secrets, Unknown):
                header = build_header(reference, next(iter(secrets), None))
                if isinstance(header, SecretHeader):
                    found[name] = header
                continue
            self.loading = self.loading or secrets.loading
            if name in self._file.credentials:
                found[name] = self._file.credentials[name]
        # Backends that routes have left are in use until Envoy has read the others.
        left = self._file.credentials.keys() - references.keys() - self._leaving
        self._leaving = frozenset(left)
        self._file = CredentialFile(found | {name: self._file.credentials[name] for name in left})
        return self._file
