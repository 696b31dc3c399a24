"""What Kubernetes makes of the gateway's pods: they run, and their Service has an address."""

import copy
from typing import Any

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.gateway import configuration_state
from modelplane.gateway.configuration_state import GatewayState
from support.crossplane.api import ApiServer, Event
from support.crossplane.fleet import Fleet
from support.crossplane.objects import Key, Object, set_conditions
from support.crossplane.simulation import DONE, Result

ADDRESS = "203.0.113.7"
SERVICE = Key("", "Service", SYSTEM_NAMESPACE, "modelplane-gateway")
DEPLOYMENT = Key("apps", "Deployment", SYSTEM_NAMESPACE, "modelplane-gateway")
PUBLISHER = Key("apps", "Deployment", SYSTEM_NAMESPACE, "modelplane-gateway-controller")


class GatewayPods:
    """Runs the Deployments of the control plane, gives Services an address, and publishes a state."""

    first_delay = longest_delay = 1.0
    workers = 1

    def __init__(self, fleet: Fleet) -> None:
        self._api: ApiServer = fleet.api
        self._run = True
        fleet.simulation.add(fleet.api, self)

    def stop(self) -> None:
        """Let no pod become available."""
        self._run = False

    def start(self) -> None:
        """Let every pod become available."""
        self._run = True
        for key in (DEPLOYMENT, PUBLISHER):
            self.reconcile(key)

    def publish(self, **said: Any) -> None:
        """Report the state of the configuration, as the publisher does."""
        reported = configuration_state.build_manifest(GatewayState(**said), SYSTEM_NAMESPACE)
        self._api.apply(reported, "publisher")

    def wakes(self, event: Event) -> list[Key]:
        is_pods = event.key.kind == "Deployment"
        return [event.key] if is_pods or event.key == SERVICE else []

    def reconcile(self, key: Key) -> Result:
        item = self._api.get(key)
        if item is None or "deletionTimestamp" in item["metadata"]:
            return DONE
        before = copy.deepcopy(item.get("status"))
        if key == SERVICE:
            item["status"] = {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}
        else:
            self._make_available(item)
        if item["status"] != before:
            self._api.update_status(item, "kubernetes")
        return DONE

    def _make_available(self, deployment: Object) -> None:
        status = "True" if self._run else "False"
        made = {"type": "Available", "status": status, "reason": "Test", "message": "as the test says"}
        deployment.setdefault("status", {})
        set_conditions(deployment, [made], "2026-01-01T00:00:00Z")
