"""List of models: the names by which requests to the gateway's URL for all models choose a service.

An InferenceGateway that is gone or cannot be read changes no alias that the platform has granted.
"""

from dataclasses import replace

from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway, ModelAlias
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked
from modelplane.gateway.module_files.models import ModelTable, build_model_table
from modelplane.gateway.route_table import Front
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object


class ModelList:
    """Reads the services, and the aliases of the platform."""

    def __init__(self, gateways: Informer, services: Informer) -> None:
        self._gateways = gateways
        self._services = services
        self._granted: tuple[ModelAlias, ...] = ()
        self._former = ModelTable()
        self._seen: tuple[tuple[Object, ...], tuple[ModelAlias, ...], bool] | None = None

    def add(self, front: Front | Blocked) -> Front | Blocked:
        """Return who is admitted, and the names for the services."""
        if isinstance(front, Blocked):
            return front
        if (gateway := self._gateways.get(DEFAULT_NAME)) is not None:
            self._granted = self._read(gateway)
        services, with_keys = tuple(self._services), front.keys is not None
        # Most changes of the gateway are those of endpoints, of which it has many more.
        if (seen := (services, self._granted, with_keys)) != self._seen:
            self._former = build_model_table(services, self._granted, self._former, with_keys=with_keys)
            self._seen = seen
        return replace(front, models=self._former.file)

    def _read(self, gateway: Object) -> tuple[ModelAlias, ...]:
        try:
            return decode_as(InferenceGateway, gateway).spec.aliases
        except InvalidObject:
            return self._granted
