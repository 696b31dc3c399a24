"""Gateway manager: the controllers' part about the gateway, without the rest.

Under Crossplane, Crossplane reconciles, and the gateway still needs its configuration. This process composes
the routes of ModelServices from the same objects, publishes the files of the gateway and their state, and
writes nothing else. One rule: it publishes only while Crossplane owns the definitions.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.meta import SYSTEM_NAMESPACE, Model, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked, Request, Requirement, Unknown
from modelplane.compose.definition_owner import DefinitionOwner
from modelplane.compose.facts import ServiceFacts
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.definition_check import Definitions
from modelplane.controllers.fleet_resources import resource_of_kind
from modelplane.controllers.gateway.budget_enforcement import Budgets, Tiers
from modelplane.controllers.gateway.fleet_routes import Composed
from modelplane.controllers.gateway.gateway_admission import Admission, ModelList, NamedKeys
from modelplane.controllers.gateway.gateway_controller import GatewayController, GatewaySources
from modelplane.controllers.gateway.named_secrets import Certificates, ProviderCredentials
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.local_copies import NamedObjects
from modelplane.controllers.process_settings import allow_many
from modelplane.controllers.runnable import Runnable, guarded, run_all
from modelplane.controllers.state_samples import ControllersState
from modelplane.gateway import configuration_state, tokens
from modelplane.gateway.configuration_state import GatewayState
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.route_table import Front
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy

_log = logging.getLogger(__name__)

_RETRY_S = 5.0
_KINDS: tuple[type[Model], ...] = (InferenceGateway, ModelDeployment, ModelEndpoint, ModelKey, ModelService)
_GATEWAY = kind_name(InferenceGateway)


class GatewayManager:
    """Watches what the gateway is configured from, and publishes its configuration."""

    def __init__(self, client: Client, proxy: Proxy) -> None:
        self._client = client
        self._definitions = Definitions(client, DefinitionOwner.CROSSPLANE)
        self._informers = {
            kind_name(type_): Informer(client, resource_of_kind(type_), on_change=self._changed)
            for type_ in _KINDS
        }
        self._named = NamedObjects(client, self._named_changed, self._is_required)
        gateways = self._informers[_GATEWAY]
        services = self._informers[kind_name(ModelService)]
        self._budgets = Budgets(
            proxy,
            tiers=Tiers(services, self._informers[kind_name(ModelEndpoint)], self._services_changed),
            changed=lambda _keys: None,
            touch=self._touch_gateway,
        )
        self._admission = Admission(
            gateways,
            self._informers[kind_name(ModelKey)],
            former=proxy.read_former,
            changed=lambda _keys: None,
            budgets=self._budgets,
        )
        self._models = ModelList(gateways, services)
        self._certificates = Certificates(self._of_envoy, self._certificate)
        self._reporter = _Reporter(client, self._state)
        self._keys = NamedKeys(self._named.find, self._reporter.touch)
        self._gateway = GatewayController(
            proxy,
            dial=lambda address: address,
            compose=self._compose,
            clusters=(),
            opened=self._reporter.touch,
            settings=GatewaySources(
                destinations=self._destinations,
                front=self._front,
                written=self._admission.written,
                certificates=self._certificates,
                credentials=ProviderCredentials(self._named.find, proxy.read_former),
                keys=self._keys,
            ),
        )

    def state(self) -> ControllersState:
        """Return the state that metrics are read from."""
        objects = {kind: tuple(informer) for kind, informer in self._informers.items() if informer.synced}
        return ControllersState(objects=objects, expiries=self._certificates.expiries)

    @property
    def problem(self) -> str | None:
        """The cause if the control plane cannot be watched; None otherwise."""
        informers = (self._definitions.informer, *self._informers.values())
        return next((informer.problem for informer in informers if informer.problem), None)

    async def run(self) -> None:
        """Run until cancelled; raises ``NotOurs`` while Crossplane does not own the definitions."""
        allow_many()
        await guarded(self._run(), self._definitions.run())

    async def _run(self) -> None:
        await self._definitions.wait_until_read()
        await run_all((self._named, self._gateway, self._budgets, self._reporter), self._informers.values())

    def _changed(self, item: Object) -> None:
        namespace, name = build_key(item)
        self._gateway.changed(item, is_gone=self._informers[item["kind"]].get(name, namespace) is None)

    def _touch_gateway(self) -> None:
        self._gateway.touch()

    def _services_changed(self, services: Iterable[Object]) -> None:
        for item in services:
            self._changed(item)

    def _named_changed(self, item: Object) -> None:
        self._gateway.named_changed(item)
        if item["metadata"].get("namespace") == SYSTEM_NAMESPACE:
            self._gateway.secret_changed(item)
            if item["metadata"]["name"] == tokens.SECRET:
                self._gateway.touch()

    def _is_required(self, requirement: Requirement) -> bool:
        if requirement == fleet_gateway.KEYS or self._gateway.requires(requirement):
            return True
        secret = {"metadata": {"name": requirement.name}}
        return requirement.namespace == SYSTEM_NAMESPACE and self._certificates.uses(secret)

    def _of_envoy(self) -> Object | None:
        """Return the InferenceGateway as Envoy has it: before it takes over, and until nothing needs it."""
        gateway = self._informers[_GATEWAY].get(DEFAULT_NAME)
        own = {"backend": str(Backend.ENVOY)}
        return gateway and {
            **gateway,
            **{part: {**gateway.get(part, {}), **own} for part in ("spec", "status")},
        }

    def _certificate(self, name: str) -> Object | None:
        found = self._named.find(Requirement("certificate", "v1", "Secret", SYSTEM_NAMESPACE, name))
        return None if isinstance(found, Unknown) else next(iter(found), None)

    def _destinations(self) -> Destinations | Blocked:
        gateway = self._of_envoy()
        return fleet_gateway.destinations_of((gateway,) if gateway else (), is_local=False)

    async def _front(self) -> Front | Blocked:
        return self._budgets.counting(self._models.add(await self._admission.read()))

    def _compose(self, key: OwnerKey) -> Composed | None:
        """Compose a service for its routes, and write nothing; return None if it is gone."""
        owner = self._informers[key.kind].get(key.name, key.namespace)
        if owner is None:
            return None
        kind = COMPOSERS[key.kind]
        try:
            decoded = decode_as(kind.type, owner)
            requirements = kind.requirements(decoded)
            found = {
                requirement.key: self._find(requirement)
                for requirement in requirements
                if not requirement.optional
            }
            facts = kind.facts()
            if isinstance(decoded, ModelService):
                facts = ServiceFacts(
                    tier_budgets=self._budgets.tiers(decoded), endpoint_share=self._gateway.share(key)
                )
            composition = kind.compose(Request(decoded, {}, found, facts))
        except InvalidObject as error:
            return Composed((), Blocked(str(error)))
        return Composed(requirements, composition)

    def _find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        if requirement == fleet_gateway.REQUIREMENT:
            gateway = self._of_envoy()
            return () if gateway is None else (gateway,)
        informer = self._informers[requirement.kind]
        if requirement.name:
            named = informer.get(requirement.name, requirement.namespace)
            return () if named is None else (named,)
        return tuple(informer.in_namespace(requirement.namespace))

    def _state(self) -> GatewayState:
        announced, tls = self._gateway.address, self._certificates.tls
        return GatewayState(
            # A Service without an address is seen by the owner of the Service.
            problem=announced.problem if announced.tls_problem == announced.problem else "",
            without_module=announced.without_module,
            tls_problem=announced.tls_problem,
            asks_for_keys=announced.asks_for_keys,
            has_tls=tls is not None,
            keys_sent={str(key): since for key, since in self._keys.sent_since(self._keys.known).items()},
        )


class _Reporter(Runnable):
    """Writes the state of the configuration."""

    name = "gateway state"

    def __init__(self, client: Client, state_of: Callable[[], GatewayState]) -> None:
        self._client = client
        self._state_of = state_of
        self._touched = asyncio.Event()
        self._written: GatewayState | None = None

    def touch(self) -> None:
        """Note that the state may have changed."""
        self._touched.set()

    async def run(self) -> None:
        """Write each state, until cancelled."""
        while True:
            await self._touched.wait()
            self._touched.clear()
            current = self._state_of()
            if current == self._written:
                continue
            try:
                await self._client.apply(configuration_state.build_manifest(current, SYSTEM_NAMESPACE))
            except errors.KubernetesError as error:
                _log.warning("cannot write the state of the gateway; trying again: %s", error)
                asyncio.get_running_loop().call_later(_RETRY_S, self.touch)
                continue
            self._written = current
