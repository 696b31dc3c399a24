"""Autoscaling: reads what the gateways count, decides for each InferenceAutoscaler, and writes scales.

A deployment has the requests in progress at its endpoints, and those that services that select it hold.
Without counts, or while something else writes ``spec.replicas`` too, nothing is changed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.meta import kind_name
from modelplane.autoscaling.decision import Settings, decide
from modelplane.autoscaling.state import Counts, Inert, State
from modelplane.compose import standby
from modelplane.compose.conditions import true
from modelplane.compose.readable import readable
from modelplane.controllers.deployment_load import DeploymentLoad
from modelplane.controllers.events import Recorder
from modelplane.controllers.fleet_resources import MODEL_DEPLOYMENTS
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.runnable import Runnable
from modelplane.controllers.scaled import CONTEST, Scaled
from modelplane.gateway.load import Load
from modelplane.kube import errors, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
_KIND = kind_name(InferenceAutoscaler)
_DEPLOYMENT = MODEL_DEPLOYMENTS.kind


class Autoscaling(Runnable):
    """Scales deployments; does nothing without an InferenceAutoscaler."""

    name = "autoscaling"

    def __init__(
        self,
        client: Client,
        informers: Mapping[str, Informer],
        proxy: Proxy | None,
        changed: Callable[[OwnerKey], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``changed`` takes the autoscalers with another state; ``now`` is a monotonic clock, in seconds."""
        self._client = client
        self._informers = informers
        self._proxy = proxy
        self._changed = changed
        self._now = now
        self._recorder = Recorder(client)
        self._scaled: dict[str, Scaled] = {}
        self._before: Load | None = None

    def state(self, autoscaler: InferenceAutoscaler) -> State | None:
        """Return what was decided for an autoscaler; None without a gateway that is read."""
        if self._proxy is None:
            return None
        known = self._scaled.get(autoscaler.metadata.uid)
        return (known or Scaled.of(autoscaler)).state

    async def run(self) -> None:
        """Decide every two seconds, until cancelled."""
        while self._proxy is not None:
            await self.look(self._proxy)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, proxy: Proxy) -> None:
        """Read the counts and decide once for each autoscaler."""
        items = sorted(self._informers[_KIND], key=_age)
        self._scaled = {uid: self._scaled[uid] for uid in map(_uid, items) if uid in self._scaled}
        if not items:
            self._before = None
            return
        try:
            load = await proxy.load()
        except (errors.KubernetesError, OSError) as error:
            load = Load(problem=str(error))
        counted = DeploymentLoad(self._informers, self._before or load, load)
        self._before = load.after(self._before)
        owners: dict[tuple[str, str], str] = {}
        for item in items:
            for autoscaler in readable(InferenceAutoscaler)(item):
                before = self._scaled.setdefault(_uid(item), Scaled.of(autoscaler)).state
                target = autoscaler.metadata.namespace, autoscaler.spec.deployment_ref.name
                owner = owners.setdefault(target, autoscaler.metadata.name)
                await self._look_at(item, autoscaler, owner, counted)
                if before != self._scaled[_uid(item)].state:
                    self._changed(OwnerKey(_KIND, target[0], autoscaler.metadata.name))
            await asyncio.sleep(0)  # many autoscalers do not delay the reconciles

    async def _look_at(
        self, item: Object, autoscaler: InferenceAutoscaler, owner: str, counted: DeploymentLoad
    ) -> None:
        """Decide, unless the deployment is gone or has another autoscaler, which ``owner`` names."""
        namespace, name = autoscaler.metadata.namespace, autoscaler.spec.deployment_ref.name
        deployment = self._informers[_DEPLOYMENT].get(name, namespace)
        if owner != autoscaler.metadata.name:
            problem = f'InferenceAutoscaler "{owner}" is older and scales the ModelDeployment: delete one'
            self._scaled[_uid(item)] = Scaled(state=State(inert=Inert.OTHER_AUTOSCALER, problem=problem))
        elif deployment is None or "deletionTimestamp" in deployment["metadata"]:
            self._scaled[_uid(item)] = Scaled()
        elif why := standby.idle(deployment):
            self._scaled[_uid(item)] = Scaled(state=self._scaled[_uid(item)].state)
            self._scaled[_uid(item)].inert(Inert.STANDBY, why, desired=0, ready=0)
        else:
            await self._decide(item, autoscaler, deployment, counted)

    async def _decide(
        self, item: Object, autoscaler: InferenceAutoscaler, deployment: Object, counted: DeploymentLoad
    ) -> None:
        scaled, now = self._scaled[_uid(item)], self._now()
        replicas = scaled.observed(int(deployment["spec"].get("replicas", 0)), now)
        ready = int((deployment.get("status", {}).get("replicas") or {}).get("ready", 0))
        scaled.started(ready, now)
        sample = counted.sample(deployment, now)
        scaled.evidence, decision = decide(_settings(autoscaler), scaled.evidence, sample, replicas)
        if sample is None:
            scaled.inert(Inert.NO_METRICS, f"{decision.message}: {counted.problem}", replicas, ready)
            return
        wanted = replicas if autoscaler.spec.paused else decision.replicas
        if scaled.is_contested(now):
            scaled.inert(Inert.OTHER_WRITER, CONTEST, replicas, ready)
            return
        if wanted != replicas:
            if problem := await self._write(deployment, wanted):
                scaled.inert(Inert.NOT_WRITTEN, problem, replicas, ready)
                return
            scaled.wrote(replicas, wanted, decision.message, now)
            await self._recorder.record(item, true("Scaled", decision.outcome, decision.message))
        counts = Counts(
            timestamps.now(), sample.in_flight, sample.held, round(scaled.evidence.tokens_per_second())
        )
        scaled.tell(wanted, ready, decision.limited, counts, now)

    async def _write(self, deployment: Object, replicas: int) -> str:
        """Ask for replicas; return why that cannot be written, and empty if it was."""
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        body = {"spec": {"replicas": replicas}}
        try:
            await self._client.patch(MODEL_DEPLOYMENTS, name, body, namespace, subresource="scale")
        except errors.KubernetesError as error:
            _log.warning("cannot scale ModelDeployment %s/%s: %s", namespace, name, error)
            return f"cannot write the number of replicas: {error}"
        return ""


def _settings(autoscaler: InferenceAutoscaler) -> Settings:
    spec = autoscaler.spec
    return Settings(
        spec.min_replicas,
        spec.max_replicas,
        requests=spec.targets.requests_per_replica,
        tokens_per_second=spec.targets.tokens_per_second_per_replica,
        down_s=spec.windows.scale_down_seconds,
        idle_s=spec.windows.scale_to_zero_seconds,
    )


def _uid(item: Object) -> str:
    return str(item["metadata"]["uid"])


def _age(item: Object) -> tuple[str, str]:
    return item["metadata"].get("creationTimestamp", ""), item["metadata"]["name"]
