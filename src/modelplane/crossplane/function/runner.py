"""Runner: answers each of Crossplane's requests, in its protocol.

An invalid request gets a fatal answer that keeps every child. No request ends the process or stays
unanswered.

Placements are decided one at a time, each with the previous ones in view. From the answer that places a
replica until the replica is listed, only this process knows that its capacity is taken. If another process
answers, or this one was restarted, two deployments can take the same capacity: then the scheduler has the
newer one yield.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from time import monotonic, perf_counter
from typing import Any

import msgspec
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.message import DecodeError

from modelplane.api.kinds import kind_of
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.cluster import cluster_namespace
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.composition import Blocked, Composition, Desired, NoFacts, Request, Requirement
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.gateway.inference_gateway import INSTALLER_KEY
from modelplane.compose.kinds import COMPOSERS, Composer, Lane
from modelplane.compose.owner_status import LONGEST_MESSAGE
from modelplane.crossplane.function import pace
from modelplane.crossplane.function.answer import Answer, decided, kept
from modelplane.crossplane.function.companions import companions
from modelplane.crossplane.function.function_facts import FACTS, Told
from modelplane.crossplane.function.observation import Observation, observe
from modelplane.crossplane.function.requirements import (
    RequiredResources,
    list_own,
    selectors,
    served,
)
from modelplane.crossplane.function.structs import Decoder, kind_in
from modelplane.install import crossplane_gateway
from modelplane.install.installation_options import Options
from modelplane.telemetry import metrics, traces
from modelplane.telemetry.metric_definitions import Result

_PATIENCE_S = 30.0
"""Time within which a new replica is expected to be listed; Crossplane writes it within a second."""


@dataclass(frozen=True, slots=True)
class _Reserved:
    replicas: tuple[Object, ...]
    until: float


class Reservations:
    """The new replicas of each deployment that are not listed yet."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.turn = Lock()
        """Held from reading the capacity that is taken until the new replicas are reserved."""
        self._clock = clock
        self._by_owner: dict[str, _Reserved] = {}

    def others(self, uid: str, listed: Iterable[Object]) -> tuple[Object, ...]:
        """Return the replicas of other deployments that are not listed yet."""
        now = self._clock()
        known = {_name(item) for item in listed}
        return tuple(
            replica
            for owner, held in tuple(self._by_owner.items())
            if owner != uid and held.until > now
            for replica in held.replicas
            if _name(replica) not in known
        )

    def release(self, uid: str) -> None:
        """Release a deployment's reservation: its replicas are listed, or no longer wanted."""
        self._by_owner.pop(uid, None)

    def hold(self, uid: str, replicas: tuple[Object, ...]) -> None:
        """Replace a deployment's reservation."""
        now = self._clock()
        for owner, held in tuple(self._by_owner.items()):
            if owner == uid or held.until <= now:
                del self._by_owner[owner]
        if uid and replicas:
            self._by_owner[uid] = _Reserved(replicas, now + _PATIENCE_S)


def _name(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


_LONGEST_EVENT = 1024
"""Length limit for the message of an Event (Kubernetes API reference, "Event v1")."""

_TARGET = fnv1.TARGET_COMPOSITE
_STATUSES = {"True": fnv1.STATUS_CONDITION_TRUE, "False": fnv1.STATUS_CONDITION_FALSE}


def encode(answer: Answer, request: Any, earlier: fnv1.State) -> fnv1.RunFunctionResponse:
    """Return the response to a ``RunFunctionRequest``, with the desired state of earlier functions."""
    response = fnv1.RunFunctionResponse(desired=earlier, context=request.context)
    response.meta.tag = request.meta.tag
    response.meta.ttl.seconds = answer.ttl_s
    response.requirements.CopyFrom(selectors(answer.requirements))
    if answer.blocked:
        response.results.append(fatal(answer.blocked.cause))
    for key, child in answer.children.items():
        resource = response.desired.resources[key]
        resource.resource.Clear()
        resource.resource.update(child.manifest)
        resource.ready = _ready(child.ready)
    # An empty status would change an object that has none.
    if answer.status:
        response.desired.composite.resource.update({"status": answer.status})
    if answer.ready is not None:
        response.desired.composite.ready = _ready(answer.ready)
    for said in answer.conditions:
        response.conditions.add(
            type=said.type,
            status=_STATUSES.get(said.status, fnv1.STATUS_CONDITION_UNKNOWN),
            reason=said.reason,
            message=said.message[:LONGEST_MESSAGE],
            target=_TARGET,
        )
    for event in answer.events:
        response.results.add(
            severity=fnv1.SEVERITY_WARNING if event.is_warning else fnv1.SEVERITY_NORMAL,
            message=event.message[:_LONGEST_EVENT],
            reason=event.reason,
            target=_TARGET,
        )
    return response


def fatal(message: str) -> fnv1.Result:
    """Return the result that keeps Crossplane from applying anything."""
    return fnv1.Result(severity=fnv1.SEVERITY_FATAL, message=message[:_LONGEST_EVENT], target=_TARGET)


def _ready(is_ready: bool) -> fnv1.Ready:
    return fnv1.READY_TRUE if is_ready else fnv1.READY_FALSE


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """An owner that Crossplane asks about, with its observed children and the requirements of its kind."""

    owner: Object
    decoded: Any
    composer: Composer
    observation: Observation
    given: RequiredResources
    own: tuple[Requirement, ...]
    """Requirements that only Crossplane has."""
    core: tuple[Requirement, ...]
    """Requirements of the composition function."""


class Runner:
    """Answers requests about objects of every kind, several at a time."""

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        options: Options = Options(),  # noqa: B008 - it is immutable
    ) -> None:
        """``options`` are those of the gateway's pods."""
        self._now = now
        self._watching_since = now()
        self._gateway_pods = crossplane_gateway.build_children(options)
        self._composed = Decoder(managed_fields=True)
        self._required = Decoder(managed_fields=False)
        self._reservations = Reservations()

    def run(self, request: Any) -> fnv1.RunFunctionResponse:
        """Answer one ``RunFunctionRequest``; never raise."""
        begun = perf_counter()
        kind = kind_in(request.observed.composite.resource)
        with traces.open_span("RunFunction", kind=kind) as span:
            response, result = self._answered(request, kind)
            span.set(result=str(result))
        metrics.count_answer(kind if kind in COMPOSERS else metrics.OTHER, result, perf_counter() - begun)
        decoders = (self._composed, self._required)
        metrics.record_decoded(sum(decoder.decoded() for decoder in decoders), sum(map(len, decoders)))
        return response

    def _answered(self, request: Any, kind: str) -> tuple[fnv1.RunFunctionResponse, Result]:
        try:
            # The desired state that earlier functions of the pipeline composed.
            earlier = fnv1.State.FromString(request.desired.SerializeToString())
        except DecodeError:
            message = "what an earlier step of the pipeline composes is nested too deeply to be passed on"
            return fnv1.RunFunctionResponse(results=[fatal(message)]), Result.FATAL
        owner: Object = {}
        observation = Observation({})
        required: tuple[Requirement, ...] = ()
        try:
            owner = self._composed(request.observed.composite.resource)
            observation = observe(request.observed.resources, self._composed)
            given = RequiredResources(request, self._required)
            question = _question(owner, observation, request, given)
            answer: Answer | Blocked
            if isinstance(question, Blocked):
                answer = question
            else:
                required = (*question.own, *question.core)
                answer = self._compose(question)
            if isinstance(answer, Answer):
                return encode(replace(answer, requirements=required), request, earlier), Result.SUCCESS
            blocked, result = answer, Result.FATAL
        except InvalidObject as error:
            blocked, result = Blocked(str(error)), Result.FATAL
        except Exception:  # noqa: BLE001 - an unforeseen request must not stop the others
            _log.exception("a bug; nothing is changed", extra=traces.make_fields(kind=kind))
            blocked, result = Blocked("a bug in Modelplane: see its log"), Result.BUG
        try:
            unchanged = kept(kind, owner, observation.composed)
            answer = replace(unchanged, requirements=required, blocked=blocked)
            return encode(answer, request, earlier), result
        except Exception:  # noqa: BLE001 - Crossplane applies nothing of a fatal answer
            _log.exception("cannot say what is there", extra=traces.make_fields(kind=kind))
            refusal = Answer(pace.read_usual_ttl_s(kind), requirements=required, blocked=blocked)
            return encode(refusal, request, earlier), result

    def _compose(self, question: Question) -> Answer | Blocked:
        """Return the answer to a question, or why no decision is possible."""
        composer, decoded, observation = question.composer, question.decoded, question.observation
        kind, core, composed = kind_of(composer.type), question.core, observation.composed
        given = question.given
        if given.awaited((*question.own, *core)):
            return kept(kind.name, question.owner, composed)
        if rejected := given.owned_by_other():
            return Blocked(rejected.message)
        now = self._now()
        told = Told(
            Request(decoded, observation.children, given.required(core, observation), NoFacts(), now),
            now,
            observation,
            given,
            self._watching_since,
            self._gateway_pods,
        )
        tell = FACTS.get(composer.type)
        facts = tell(told) if tell else composer.facts()
        asked: Request[Any, Any] = msgspec.structs.replace(told.request, facts=facts)
        composition = self._decided(composer, asked)
        if isinstance(composition, Blocked):
            return composition
        guards = (*composition.guards, *given.possible_guards(core))
        connects = not (isinstance(facts, ClusterFacts) and facts.kubeconfig_problem)
        guarded = msgspec.structs.replace(composition, guards=guards)
        beside = companions(kind, decoded, guarded, core, composed, connects=connects)
        return decided(question.owner, observation, composition, beside, given, self._now())

    def _decided(self, composer: Composer, request: Request[Any, Any]) -> Composition | Blocked:
        if composer.lane is not Lane.DECISIONS:
            return composer.compose(request)
        composition = self._placed(composer, request)
        if not _new_replicas(request, composition):
            self._reservations.release(request.owner.metadata.uid)
            return composition
        # Only deployments that take capacity wait for one another.
        with self._reservations.turn:
            composition = self._placed(composer, request)
            self._reservations.hold(request.owner.metadata.uid, _new_replicas(request, composition))
        return composition

    def _placed(self, composer: Composer, request: Request[Any, Any]) -> Composition | Blocked:
        listed = request.found("replicas")
        taken = (*listed, *self._reservations.others(request.owner.metadata.uid, listed))
        return composer.compose(
            msgspec.structs.replace(request, required={**request.required, "replicas": taken})
        )


def _question(
    owner: Object, observation: Observation, request: Any, given: RequiredResources
) -> Question | Blocked:
    """Return the question about an owner, or why there is none.

    Raises ``InvalidObject``.
    """
    api_version, name = owner.get("apiVersion", ""), owner.get("kind", "")
    composer = COMPOSERS.get(str(name))
    if composer is None or kind_of(composer.type).api_version != api_version:
        return Blocked(f'"{name}" of "{api_version}" is not a kind that Modelplane composes')
    decoded: Any = decode_as(composer.type, owner)
    own = list_own(kind_of(composer.type), decoded, observation.composed)
    # The function does not look whether a cluster is the control plane: label its namespaces. Its charts are
    # provider-helm's matter. All replicas of a namespace would be too much for each request.
    left_out = (cluster_namespace.HOME_KEY, INSTALLER_KEY, fleet_gateway.OWNERS)
    core = (
        requirement
        for requirement in composer.required(decoded, given.find)
        if requirement.key not in left_out
    )
    return Question(owner, decoded, composer, observation, given, served(own, request), served(core, request))


def _new_replicas(request: Request[Any, Any], composition: Composition | Blocked) -> tuple[Object, ...]:
    """Return the replicas that a composition adds, as they will be listed."""
    if isinstance(composition, Blocked):
        return ()
    reference = {
        "apiVersion": "",
        "kind": kind_name(ModelDeployment),
        "name": "",
        "uid": request.owner.metadata.uid,
        "controller": True,
    }
    marks = {"creationTimestamp": datetime.now(UTC).isoformat(), "ownerReferences": [reference]}
    return tuple(
        {**child.manifest, "metadata": {**child.manifest["metadata"], **marks}}
        for child in composition.children
        if isinstance(child, Desired)
        and child.manifest["kind"] == kind_name(ModelReplica)
        and child.key not in request.observed
    )
