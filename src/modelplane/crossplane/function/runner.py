"""Runner: answers each of Crossplane's requests.

An invalid request gets a fatal answer that keeps every child. No request ends the process or stays
unanswered.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
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
from modelplane.crossplane.function import pace
from modelplane.crossplane.function.answer import Answer, decided, kept
from modelplane.crossplane.function.companions import companions
from modelplane.crossplane.function.encoding import desired_before, encode, fatal
from modelplane.crossplane.function.function_facts import FACTS, Told
from modelplane.crossplane.function.observation import Observation, observe
from modelplane.crossplane.function.requirements import RequiredResources, served
from modelplane.crossplane.function.requirements import own as own_requirements
from modelplane.crossplane.function.reservations import Reservations
from modelplane.crossplane.function.structs import Decoder, kind_in
from modelplane.install import crossplane_gateway
from modelplane.install.installation_options import Options
from modelplane.telemetry import metrics, traces
from modelplane.telemetry.metric_definitions import Result

_log = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


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
        now: Callable[[], datetime] = _now,
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
            earlier = desired_before(request)
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
            refusal = Answer(pace.usual(kind), requirements=required, blocked=blocked)
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
    own = own_requirements(kind_of(composer.type), decoded, observation.composed)
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
    now = datetime.now(UTC).isoformat()
    uid = request.owner.metadata.uid
    reference = {
        "apiVersion": "",
        "kind": kind_name(ModelDeployment),
        "name": "",
        "uid": uid,
        "controller": True,
    }
    return tuple(
        {
            **child.manifest,
            "metadata": {
                **child.manifest["metadata"],
                "creationTimestamp": now,
                "ownerReferences": [reference],
            },
        }
        for child in composition.children
        if isinstance(child, Desired)
        and child.manifest["kind"] == kind_name(ModelReplica)
        and child.key not in request.observed
    )
