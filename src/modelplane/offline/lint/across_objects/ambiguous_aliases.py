"""Aliases of the InferenceGateway that a client can also read as another ModelService.

One rule: the gateway answers 409 for a name that fits two services that the client may use, so a warning
names both. A client that may use only one of them receives that one.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from modelplane.api.kinds import MODEL_SERVICE
from modelplane.offline.files.diagnostics import Problem, Severity
from modelplane.offline.files.manifest_objects import Manifest
from modelplane.offline.lint.advice import Configs

if TYPE_CHECKING:
    from modelplane.api.inference_gateway import InferenceGatewaySpec, ModelAlias


class Check(msgspec.Struct):
    """Names of ModelServices, and aliases, of the objects read so far."""

    _gateways: "list[tuple[Manifest, InferenceGatewaySpec]]" = msgspec.field(default_factory=list)
    _named: defaultdict[str, set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))
    """Services by name, as NAMESPACE/SERVICE."""

    def read(self, manifest: Manifest, decoded: Any) -> None:
        """Remember an object that names a service."""
        if manifest.kind is MODEL_SERVICE:
            namespace, name = decoded.metadata.namespace or "default", decoded.metadata.name
            self._named[name].add(f"{namespace}/{name}")
            return
        from modelplane.api.inference_gateway import DEFAULT_NAME  # noqa: PLC0415  for gateways only

        if decoded.metadata.name == DEFAULT_NAME:
            self._gateways.append((manifest, decoded.spec))

    def find_problems(self, _configs: Configs) -> Iterator[Problem]:
        """Warn of each alias that a client can also read as another service."""
        for manifest, spec in self._gateways:
            for index, alias in enumerate(spec.aliases):
                others = sorted(self._named.get(alias.name, set()) - {alias.service})
                other = next((service for service in others if _meets(spec, alias, service)), None)
                if other is not None:
                    message = (
                        f'"{alias.name}" is also ModelService {other}: a client with access to both receives '
                        f"409 for this name: rename the alias, or grant no namespace both {alias.service} "
                        f"and {other}"
                    )
                    problem = manifest.report(("spec", "aliases", index, "name"), message)
                    yield replace(problem, severity=Severity.WARNING)


def _meets(spec: "InferenceGatewaySpec", alias: "ModelAlias", other: str) -> bool:
    """Return True if a client for which an alias counts may use its service and another one."""
    from modelplane.api.inference_gateway import EVERY_NAMESPACE, Authentication  # noqa: PLC0415  as above
    from modelplane.gateway.module_files.key_rights import (  # noqa: PLC0415  as above
        grant_of,
        list_not_granted,
        list_services,
    )

    if spec.authentication is not Authentication.API_KEY:
        return EVERY_NAMESPACE in alias.namespaces
    both = (alias.service, other)
    namespaces = set(alias.namespaces)
    if EVERY_NAMESPACE in namespaces:
        # A namespace without a grant of its own stands for all of them.
        namespaces |= {grant.namespace for grant in spec.key_grants}
        namespaces |= {service.partition("/")[0] for service in both}
        namespaces.discard(EVERY_NAMESPACE)
    grants = ((namespace, grant_of(spec.key_grants, namespace)) for namespace in namespaces)
    return any(
        grant is not None and not list_not_granted(both, list_services(grant.services, namespace))
        for namespace, grant in grants
    )
