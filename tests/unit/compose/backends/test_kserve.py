"""Engines that KServe runs: what is refused, how the parallelism is read, and when they are ready."""

from functools import partial
from typing import Any

import pytest

from modelplane.api.fields.pods.containers import Container
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import convert
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import is_behind, is_ready
from modelplane.compose.replica.backends import kserve_pods
from modelplane.compose.replica.backends.kserve import Parallelism, parallelism, service_name
from modelplane.compose.replica.backends.kserve_pods import entrypoint
from modelplane.compose.replica.backends.table import marks_of, reject_other_backend, workload_key
from modelplane.compose.replica.backends.workload import Form, Marks, Workload
from modelplane.compose.replica.pod_problems import unmade
from modelplane.compose.replica.superseded import keep_superseded
from modelplane.compose.workload_kinds import LLM_INFERENCE_SERVICE
from support.kserve_status import kserve_status, missing_preset
from support.rejections import message_of
from support.replicas import composed, engine, gang, member, replica

IMAGE = "vllm/vllm-openai:v0.23.0"


def _container(*args: str, image: str = IMAGE, command: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"name": "engine", "image": image, "args": list(args), "command": list(command)}


def _read(*args: str, **settings: Any) -> Container:
    return convert(_container(*args, **settings), Container)


def _replica(*engines: dict[str, Any], **spec: Any) -> ModelReplica:
    return replica(*engines, backend="KServe", **spec)


def _with(
    shape: dict[str, Any],
    container: dict[str, Any],
    beside: list[dict[str, Any]] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    for each in shape["members"]:
        each["template"] = {"metadata": metadata, "spec": {"containers": [container, *(beside or ())]}}
    return shape


GANG = ("--model=m", "--tensor-parallel-size=8", "--pipeline-parallel-size=2")


@pytest.mark.parametrize(
    ("engines", "why"),
    [
        pytest.param([_with(engine("a"), _container("--model=m"))], "", id="one engine"),
        pytest.param([_with(gang("a"), _container(*GANG))], "", id="a gang whose flags agree with its nodes"),
        pytest.param(
            [_with(engine("a"), _container("--model=m"), beside=[{"name": "meter", "image": "m:1"}])],
            "",
            id="a container beside the engine",
        ),
        pytest.param(
            [_with(engine("a"), _container("--model=m"), beside=[{"name": "main", "image": "m:1"}])],
            'container "main" is reserved by KServe',
            id="a container with the name of a preset's",
        ),
        pytest.param(
            [
                _with(
                    engine("a"), {**_container("--model=m"), "startupProbe": {"exec": {"command": ["true"]}}}
                )
            ],
            "use httpGet",
            id="a probe of another kind than the preset's",
        ),
        pytest.param(
            [_with(engine("a"), _container("-m", "/x.gguf", image="llama:1"))],
            "write the command",
            id="the entrypoint of an image, which is not known",
        ),
        pytest.param(
            [_with(engine("a"), _container("--model=m", "--chat-template={{ x }}"))],
            "would expand as a template",
            id="a text that the controller would expand",
        ),
        pytest.param(
            [_with(engine("a"), _container("--model=m"), annotations={"example.com/a": "{{.Spec}}"})],
            "would expand as a template",
            id="an annotation that the controller would expand",
        ),
        pytest.param(
            [_with(gang("a"), _container("--model=m", "--tensor-parallel-size=16"))],
            "",
            id="a gang that is tensor parallel alone",
        ),
        pytest.param(
            [_with(gang("a"), _container(*GANG), labels={"team": "ml"})],
            'label or annotation "team"',
            id="labels on pods of a gang, which nobody passes on",
        ),
        pytest.param(
            [_with(engine("a"), _container("--model=m"), labels={"kserve.io/component": "workload"})],
            "is reserved by KServe",
            id="a label by which pods are selected",
        ),
        pytest.param(
            [_with(engine("a"), _container("--model=m")), _with(gang("b"), _container(*GANG))],
            "one route can't lead to several engines",
            id="a gang beside another engine",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused(engines: list[dict[str, Any]], why: str) -> None:
    refused = kserve_pods.rejected(_replica(*engines))
    assert why in refused.message if refused and why else (refused is None and not why)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        pytest.param(("-tp", "8", "-pp", "2"), Parallelism(8, 2), id="short forms"),
        pytest.param(
            ("--data-parallel-size=16", "--data-parallel-size-local=8", "--enable-expert-parallel"),
            Parallelism(0, 0, 16, 8, expert=True),
            id="experts over two nodes",
        ),
        pytest.param((), Parallelism(), id="no flag"),
        pytest.param(("-pp", "9" * 5000), Parallelism(), id="a number that is none"),
        pytest.param(("-tp=x", "-pp=-2", "-dp=٣"), Parallelism(), id="no numbers"),
    ],
)
def test_the_parallelism_is_that_of_the_flags(args: tuple[str, ...], found: Parallelism) -> None:
    assert parallelism(_read(*args)) == found


@pytest.mark.parametrize(
    ("args", "nodes", "written"),
    [
        pytest.param(GANG, 2, {"tensor": 8, "data": 2, "dataLocal": 1}, id="a pipeline"),
        pytest.param(
            ("--tensor-parallel-size=16",),
            2,
            {"tensor": 16, "data": 2, "dataLocal": 1},
            id="tensors over nodes",
        ),
        pytest.param(("--model=m",), 3, {"data": 3, "dataLocal": 1}, id="no flag, as of a script"),
        pytest.param(
            ("--data-parallel-size=16", "--data-parallel-size-local=8", "--enable-expert-parallel"),
            2,
            {"data": 16, "dataLocal": 8, "expert": True},
            id="data as the flags divide it",
        ),
        pytest.param(
            (*GANG, "--data-parallel-size=2"),
            4,
            {"tensor": 8, "data": 4, "dataLocal": 1},
            id="data and pipeline",
        ),
    ],
)
def test_a_gang_has_its_nodes_and_a_preset_that_exists(
    args: tuple[str, ...], nodes: int, written: dict[str, Any]
) -> None:
    worker = {**member("Worker"), "worker": {"nodes": nodes - 1}}
    for phases in (("",), ("Prefill", "Decode")):
        engines = [
            _with(
                engine(
                    each.lower() or "a", member("Leader"), dict(worker), **({"phase": each} if each else {})
                ),
                _container(*args),
            )
            for each in phases
        ]
        serving = {"serving": {"mode": "PrefillDecode"}} if len(engines) > 1 else {}
        spec = _composed_service(_replica(*engines, **serving))["spec"]
        for part in (spec, spec["prefill"]) if "prefill" in spec else (spec,):
            assert part["parallelism"] == written
            assert written["data"] // written["dataLocal"] == nodes, "KServe makes as many pods"
        assert missing_preset(spec) == ""


@pytest.mark.parametrize(
    ("conditions", "divided"),
    [
        pytest.param([], {"tensor": 8, "pipeline": 2}, id="one that runs is not replaced"),
        pytest.param(
            [{"type": "PresetsCombined", "status": "False", "reason": "ConfigNotFound"}],
            {"tensor": 8, "data": 2, "dataLocal": 1},
            id="one without a preset has no pods to replace",
        ),
    ],
)
def test_a_pipeline_that_an_earlier_version_wrote(conditions: list[Any], divided: dict[str, Any]) -> None:
    owner = _replica(_with(gang("a"), _container(*GANG)))
    with pytest.MonkeyPatch.context() as patched:
        earlier = partial(Workload, form=Form.V0_8)
        patched.setattr("modelplane.compose.replica.backends.table.Workload", earlier)
        there = _composed_service(owner)
    assert there["spec"]["parallelism"] == {"tensor": 8, "pipeline": 2}
    there = {**there, "status": {"conditions": conditions}}
    said = _composed_service(owner, {workload_key(owner, owner.spec.engines[0]): there})
    assert said["spec"]["parallelism"] == divided


def _composed_service(owner: ModelReplica, observed: dict[str, Any] | None = None) -> dict[str, Any]:
    [service] = [
        child.manifest
        for child in composed(owner, observed or {}).children
        if isinstance(child, Desired) and child.manifest["kind"] == "LLMInferenceService"
    ]
    return dict(service)


def test_vllm_has_a_command_because_a_preset_would_replace_that_of_its_image() -> None:
    assert entrypoint(_read("--model=m"))[-1] == "vllm.entrypoints.openai.api_server"
    assert entrypoint(_read("Qwen/Qwen3-0.6B")) == ("vllm", "serve")
    assert entrypoint(_read(command=("sh", "-c", "x"))) == ("sh", "-c", "x")


def test_names_leave_room_for_those_that_kserve_derives() -> None:
    owner = replica(gang("b" * 63), name="a" * 63, backend="KServe")
    name = service_name(owner, owner.spec.engines[0])
    assert len(f"{name}-kserve-mn-prefill") <= 49
    assert len(f"{name}-kserve-workload-svc") <= 63


def test_another_size_of_a_gang_is_another_child() -> None:
    three = engine("a", member("Leader"), {**member("Worker"), "worker": {"nodes": 2}})
    two, more = _replica(gang("a")), _replica(three)
    assert [workload_key(each, each.spec.engines[0]) for each in (two, more)] == [
        "model-kserve-a.2",
        "model-kserve-a.3",
    ]
    assert service_name(two, two.spec.engines[0]) != service_name(more, more.spec.engines[0])


def test_pods_of_a_gang_are_found_by_the_labels_that_they_get_from_others() -> None:
    owner = _replica(gang("a"))
    name = service_name(owner, owner.spec.engines[0])
    marks: Marks = marks_of(owner, owner.spec.engines[0])
    assert marks.pods == {"leaderworkerset.sigs.k8s.io/name": f"{name}-kserve-mn"}
    assert marks.serving["app.kubernetes.io/name"] == name


def test_a_replica_that_runs_keeps_its_backend() -> None:
    owner = _replica(engine("a"))
    assert "runs with backend Modelplane" in message_of(reject_other_backend(owner, {"model-serving-a": {}}))
    assert reject_other_backend(owner, {"model-kserve-a": {}}) is reject_other_backend(owner, {}) is None


def _service(ready: int, **spec: Any) -> dict[str, Any]:
    service: dict[str, Any] = {
        "apiVersion": LLM_INFERENCE_SERVICE.api_version,
        "kind": LLM_INFERENCE_SERVICE.kind,
        "metadata": {"name": "s", "namespace": "ml", "generation": 2},
        "spec": {"replicas": 2, "template": {}, **spec},
    }
    return {**service, "status": kserve_status(service, ready)}


@pytest.mark.parametrize(
    ("service", "ready"),
    [
        pytest.param(_service(0), False, id="no copy"),
        pytest.param(_service(1), True, id="one of two copies, with the condition False"),
        pytest.param(_service(2), True, id="all copies"),
        pytest.param(_service(0, prefill={"replicas": 1}), False, id="neither phase"),
        pytest.param({**_service(2), "status": {}}, False, id="no report"),
        pytest.param({**_service(2), "status": {"workloads": None}}, False, id="no workloads"),
        pytest.param(
            {**_service(0), "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            True,
            id="the condition alone, as of versions that count no copies",
        ),
    ],
)
def test_it_is_ready_with_one_copy_of_each_phase(service: dict[str, Any], ready: bool) -> None:
    assert is_ready(service) is ready


@pytest.mark.parametrize(
    ("primary", "prefill", "idle"),
    [
        pytest.param(1, 0, "engine prefill is", id="a decode without its prefill"),
        pytest.param(0, 1, "engine decode is", id="a prefill without its decode"),
        pytest.param(0, 0, "engines decode, prefill are", id="neither"),
    ],
)
def test_of_two_engines_that_share_a_workload_the_one_that_does_not_serve_is_named(
    primary: int, prefill: int, idle: str
) -> None:
    engines = [
        _with(engine(each, phase=each.title()), _container("--model=m")) for each in ("prefill", "decode")
    ]
    owner = _replica(*engines, serving={"mode": "PrefillDecode"})
    counts = {"primary": {"readyReplicas": primary}, "prefill": {"readyReplicas": prefill}}
    there = {**_composed_service(owner), "status": {"workloads": counts}}
    said = composed(owner, {workload_key(owner, owner.spec.engines[0]): there})
    ready = next(each for each in said.conditions if each.type == "ModelReady")
    assert not ready.holds
    assert ready.message.startswith(f"{idle} not serving yet")


@pytest.mark.parametrize(
    ("model", "uri"),
    [
        pytest.param("Qwen/Qwen3-0.6B", "hf://Qwen/Qwen3-0.6B", id="a repository"),
        pytest.param("/models/q.gguf", "hf://models/q.gguf", id="a file"),
        pytest.param("q:Q4%zz[\n", "hf://q-Q4-zz", id="no part of a URI, which KServe could not read"),
        pytest.param("%", "hf://a", id="nothing that can be shown"),
        pytest.param("x" * 5000, "hf://" + "x" * 200, id="a long one"),
    ],
)
def test_the_uri_of_a_model_that_the_engine_loads_is_always_one(model: str, uri: str) -> None:
    said = composed(_replica(_with(engine("a"), _container("--model", model))))
    [service] = [
        child.manifest
        for child in said.children
        if isinstance(child, Desired) and child.key == "model-kserve-a"
    ]
    assert service["spec"]["model"]["uri"] == uri


def test_what_kserve_reports_is_the_cause_if_no_pod_has_one() -> None:
    service = _service(0)
    service["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "ConfigNotFound", "message": "no preset"}
    ]
    assert unmade(service) == "ConfigNotFound: no preset"
    assert unmade(_service(2)) is None


def test_a_preset_that_is_missing_is_named() -> None:
    service = _service(0, worker={}, parallelism={"pipeline": 2})
    assert unmade(service) == (
        "ConfigNotFound: LLMInferenceServiceConfig.serving.kserve.io "
        '"kserve-config-llm-worker-pipeline-parallel" not found'
    )


def test_an_edit_that_its_controller_has_not_read_is_behind() -> None:
    service = _service(2)
    service["metadata"]["annotations"] = {"modelplane.ai/spec-hash": "h"}
    assert not is_behind(service, service)
    assert is_behind(service, {**service, "status": {**service["status"], "observedGeneration": 1}})


def test_what_its_pods_claim_is_kept_while_it_starts_and_while_a_pod_names_it() -> None:
    claims = {
        name: {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
        }
        for name in ("old", "named")
    }
    named = {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "named"}]}
    for ready, kept in ((0, ["named", "old"]), (2, ["named"])):
        observed = {**claims, "model-kserve-a": _service(ready, worker=named)}
        assert [each.key for each in keep_superseded(observed, ["model-kserve-a"], [])] == kept
