"""What is wrong with manifests, in the words that people are shown."""

from io import BytesIO

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import build_schema
from modelplane.offline.check import validation
from modelplane.offline.files import sources
from modelplane.offline.files.diagnostics import ObjectName, Problem, Severity, limit_text
from modelplane.offline.files.store import load
from support.manifests import API, CLASS, DEPLOYMENT, cluster, joined, said, validated

NAMED = 'error: ModelDeployment "ml-team/qwen"'
MEMBER = "spec.engines[0].members[0]"
INIT_CONTAINER = "              initContainers: [{name: a, image: b, restartPolicy: Never}]\n"
CONTAINER = f"{MEMBER}.template.spec.containers[0]"


def changed(*replacements):
    text = DEPLOYMENT
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_a_valid_deployment_has_no_problem():
    assert said(DEPLOYMENT) == []


def test_selectors_that_compile_may_cost_too_much_together():
    numbers = f"[{','.join(map(str, range(40)))}]"
    long = "a" * 190
    loops = f'{numbers}.all(x, {numbers}.all(y, "{long}%d".contains("{long}")))'
    line = next(line for line in DEPLOYMENT.splitlines() if "cel:" in line)
    indent = line.partition("- ")[0]
    text = DEPLOYMENT.replace(line, "\n".join(f"{indent}- cel: '{loops % number}'" for number in (0, -1)))
    [found] = said(text)
    assert "spec: its 2 different device selectors may together cost" in found
    assert found.endswith("a deployment is allowed 1,000,000")


@pytest.mark.parametrize(
    ("replacements", "line"),
    [
        pytest.param(
            [("  replicas: 1", "  replica: 1")],
            f"stdin:7:3: {NAMED}: spec.replica: unknown field; did you mean replicas?",
            id="a misspelt field is not also said to be missing",
        ),
        pytest.param(
            [("nodeSelector:", "nodeselector:")],
            f"stdin:11:11: {NAMED}: {MEMBER}.nodeselector: unknown field; did you mean nodeSelector?",
            id="the wrong case, and no rule that would repeat it",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: '1'")],
            f'stdin:7:13: {NAMED}: spec.replicas: must be a whole number, not the text "1": '
            "remove the quotes",
            id="a number in quotes",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: '.inf'")],
            f"stdin:7:13: {NAMED}: spec.replicas: must be a whole number, not the text "
            '".inf": number of replicas in the fleet',
            id="infinity in quotes",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: 'true'")],
            f"stdin:7:13: {NAMED}: spec.replicas: must be a whole number, not the text "
            '"true": number of replicas in the fleet',
            id="a truth value in quotes",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: one")],
            f'stdin:7:13: {NAMED}: spec.replicas: must be a whole number, not the text "one": number of '
            "replicas in the fleet",
            id="a word for a number",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: -1")],
            f"stdin:7:13: {NAMED}: spec.replicas: -1 is too small: the minimum is 0",
            id="a number below its bound",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: 1.5")],
            f"stdin:7:13: {NAMED}: spec.replicas: must be a whole number, not 1.5: number of "
            "replicas in the fleet",
            id="a fraction",
        ),
        pytest.param(
            [("                  image: vllm/vllm-openai:v0.23.0\n", "")],
            f"stdin:19:19: {NAMED}: {CONTAINER}.image: is required: image of the container",
            id="a missing field, with what it is for",
        ),
        pytest.param(
            [("v0.23.0", "v0.23.0\n                  args: [--port, 8000]")],
            f'stdin:21:34: {NAMED}: {CONTAINER}.args[1]: must be a text, not 8000: put it in quotes, "8000"',
            id="a number for a text",
        ),
        pytest.param(
            [("v0.23.0", "v0.23.0\n                  args: [on]")],
            f"stdin:21:26: {NAMED}: {CONTAINER}.args[0]: must be a text, not true, which is how YAML reads "
            'on: put it in quotes, "on"',
            id="a word that YAML takes for true",
        ),
        pytest.param(
            [("        - nodeSelector", "        - role: standalone\n          nodeSelector")],
            f'stdin:11:17: {NAMED}: {MEMBER}.role: "standalone" is not one of Standalone, Leader and Worker; '
            "did you mean Standalone?",
            id="a word in the wrong case",
        ),
        pytest.param(
            [("- name: engine", "- name: vllm")],
            f'stdin:17:13: {NAMED}: {MEMBER}.template.spec: exactly one container must be named "engine": '
            "rename the container of the engine",
            id="a rule about the containers of a pod",
        ),
        pytest.param(
            [("              containers:", f"{INIT_CONTAINER}              containers:")],
            f"stdin:18:67: {NAMED}: {MEMBER}.template.spec.initContainers[0].restartPolicy: must be "
            '"Always", not "Never"',
            id="the one value that there is",
        ),
        pytest.param(
            [("    - name: qwen", "    - name: Qwen_3")],
            f'stdin:9:13: {NAMED}: spec.engines[0].name: "Qwen_3" is not a DNS label: use '
            "lower-case letters, "
            "digits and '-', with a letter or digit at both ends",
            id="a name of another form",
        ),
        pytest.param(
            [("image: vllm/vllm-openai:v0.23.0", "image: ''")],
            f"stdin:20:26: {NAMED}: {CONTAINER}.image: must not be empty: image of the container",
            id="an empty text",
        ),
        pytest.param(
            [("              containers:\n", "              image: x\n              containers:\n")],
            f"stdin:18:15: {NAMED}: {MEMBER}.template.spec.image: unknown field here; the field belongs to "
            f"{CONTAINER}: check the indentation",
            id="a field one level too far out",
        ),
        pytest.param(
            [("                selectors:", "                template: {}\n                selectors:")],
            f"stdin:14:17: {NAMED}: {MEMBER}.nodeSelector.devices[0].template: unknown field here; the "
            f"field belongs to {MEMBER}: check the indentation",
            id="a field two levels too far in",
        ),
        pytest.param(
            [("spec:\n  replicas: 1", "replicas: 1\nspec:")],
            f"stdin:6:1: {NAMED}: replicas: unknown field here; the field belongs to spec: check the "
            "indentation",
            id="a field beside the spec",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: 1\n  colour: red")],
            f"stdin:8:3: {NAMED}: spec.colour: unknown field: the fields here are clusterSelector, engines, "
            "failover, modelCacheRef, placement, priorityClassName, regions, replicas, rollout, serving, "
            "standbyFor, "
            "template, tolerations",
            id="a field that is nowhere",
        ),
        pytest.param(
            [("      members:\n        - ", "      members:\n          ")],
            f"stdin:10:7: {NAMED}: spec.engines[0].members: must be a list, not a mapping: begin each item "
            'with "- "',
            id="a mapping for a list",
        ),
        pytest.param(
            [("          template:\n            spec:", "          template:\n            - spec:")],
            f"stdin:16:11: {NAMED}: {MEMBER}.template: must be a mapping of fields, not a list: remove the "
            '"- "',
            id="a list for a mapping",
        ),
        pytest.param(
            [("  namespace: ml-team", "  namespace: ml-team\n  labels: {a b: x}")],
            f'stdin:6:12: {NAMED}: metadata.labels[a b]: "a b" cannot be a key: a key has at most 63 '
            "letters, digits, '-', '_' and '.', with a letter or digit at both ends, after an optional DNS "
            "subdomain and a slash",
            id="a label's key",
        ),
        pytest.param(
            [("  replicas: 1", "  replicas: 1\n  tolerations: [{value: x}]")],
            f"stdin:8:17: {NAMED}: spec.tolerations[0]: key is required with operator Equal: name the taint, "
            "or use operator Exists to tolerate all",
            id="a rule of the schema, after the default that it needs",
        ),
        pytest.param(
            [("          template:", "          worker: {nodes: 1}\n          template:")],
            f"stdin:11:11: {NAMED}: {MEMBER}: worker.nodes sizes a gang: set it on the member with role "
            "Worker only",
            id="a rule over an item of a list",
        ),
    ],
)
def test_a_mistake_is_one_sentence(replacements, line):
    assert said(changed(*replacements)) == [line]


def test_a_shape_that_is_mixed_up_is_told_by_the_rule_of_the_schema():
    engine = DEPLOYMENT.partition("  engines:\n")[2].replace("\n    ", "\n            ")
    both = changed(
        ("  engines:\n", f"  template:\n    spec:\n          engines:\n        {engine}  engines:\n")
    )
    assert said(both) == [
        (
            f"stdin:6:1: {NAMED}: spec: spec.engines and spec.template are two ways to write one thing: "
            "keep one of them"
        )
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            CLASS.replace("{value: 23034Mi}", "23034Mi"),
            [
                (
                    "spec.devices[0].capacity.memory: must be a mapping of fields, not the text "
                    '"23034Mi": its only field is value'
                )
            ],
            id="a word for a mapping",
        ),
        pytest.param(
            cluster("l4").replace("cluster: {source", "source: Existing\n  x: {source"),
            [
                "spec.source: unknown field here; the field belongs to spec.cluster: check the indentation",
                (
                    "spec.x: unknown field: the fields here are capacitySource, cluster, drain, gateway, "
                    "localObjects, nodePools, podKeys, podScheduler, poolTaints, servingStack, taints"
                ),
            ],
            id="a missing field whose content is there",
        ),
        pytest.param(
            f"apiVersion: {API}\nkind: ModelCache\nmetadata: {{name: l4}}\nspec:\n  source: HuggingFace\n"
            "  huggingFace: {repo: a/b, sizeGiB: 1}\n  clusterSelector: {region: us}\n",
            ["spec.clusterSelector.region: unknown field: the only field here is matchLabels"],
            id="labels without matchLabels",
        ),
        pytest.param(
            cluster("l4").replace("secretRef: {", "secretRef: {namespace: x, "),
            ["spec.cluster.existing.secretRef.namespace: unknown field: the fields here are key, name"],
            id="a field that another object has, far from here",
        ),
        pytest.param(
            f"{CLASS}status: {{driver: x}}\n",
            ["status.driver: unknown field: the fields here are conditions, observedGeneration"],
            id="a field of the status that the spec has, far from there",
        ),
    ],
)
def test_what_was_meant_is_told(text, lines):
    assert [line.partition('"l4": ')[2] for line in said(text)] == lines


def test_engines_straight_below_the_template_belong_one_level_further_in():
    text = changed(("  engines:", "  template:\n   engines:"))
    assert said(text) == [
        (
            f"stdin:9:4: {NAMED}: spec.template.engines: unknown field here; the field belongs to "
            "spec.template.spec: check the indentation"
        ),
    ]


def test_all_problems_of_all_documents_are_told():
    text = joined(
        changed(("  replicas: 1", "  replicas: x"), ("- name: engine", "- name: y")),
        "a: [\n",
        CLASS.replace("l4", "L4"),
    )
    places = [line.partition(": ")[0] for line in said(text)]
    assert places == ["stdin:7:13", "stdin:19:25", "stdin:23:1", "stdin:26:18"]


@pytest.mark.parametrize(
    ("document", "line"),
    [
        pytest.param(
            "kind: ModelDeployment\n",
            "stdin:1:1: error: ModelDeployment: apiVersion: is required, such as modelplane.ai/v1alpha1: "
            "add it, or omit the file",
            id="no version",
        ),
        pytest.param(
            f"apiversion: {API}\nkind: ModelDeployment\n",
            "stdin:1:13: error: ModelDeployment: apiversion: unknown field; did you mean apiVersion?",
            id="a version in the wrong case",
        ),
        pytest.param(
            "hf_a-token\n",
            "stdin:1:1: error: expected an object, not a text: set apiVersion and kind",
            id="a text, which may be a token",
        ),
        pytest.param(
            f"apiVersion: {API}\n",
            "stdin:1:1: error: kind: is required, which every Kubernetes object has: add it, or omit the "
            "file",
            id="no kind",
        ),
        pytest.param(
            f"apiVersion: {API}\nkind: modeldeployments\nmetadata: {{name: x}}\n",
            'stdin:2:7: error: modeldeployments "x": kind: "modeldeployments" is not a kind of Modelplane; '
            "did you mean ModelDeployment?",
            id="a kind as kubectl accepts it",
        ),
        pytest.param(
            "apiVersion: modelplane.ai/v1\nkind: ModelService\n",
            'stdin:1:13: error: ModelService: apiVersion: "modelplane.ai/v1" does not define '
            "ModelService: write "
            "modelplane.ai/v1alpha1",
            id="another version",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ModelService\n",
            'stdin:1:13: error: ModelService: apiVersion: "v1" does not define ModelService: write '
            "modelplane.ai/v1alpha1",
            id="a version without its group",
        ),
        pytest.param(
            "- a\n",
            "stdin:1:1: error: expected an object, not a list: set apiVersion and kind",
            id="a list",
        ),
        pytest.param(
            f"apiVersion: {API}\nkind: ModelService\nmetadata: x\nspec: []\n",
            'stdin:3:11: error: ModelService: metadata: must be a mapping of fields, not the text "x": its '
            "fields are name, generateName, labels, annotations, finalizers, ownerReferences, managedFields, "
            "uid and 7 more",
            id="metadata that is a word",
        ),
    ],
)
def test_a_document_that_is_no_object_of_ours_is_told(document, line):
    assert said(document)[0] == line


@pytest.mark.parametrize(
    "document",
    [
        pytest.param("apiVersion: llm-d.ai/v1alpha1\nkind: ModelService\n", id="a kind of our kind's name"),
        pytest.param("apiVersion: v1\nkind: Secret\nfoo: {bar: 1}\n", id="an object of Kubernetes"),
    ],
)
def test_kinds_of_others_are_counted_and_not_judged(document):
    found = validated(document)
    assert (found.valid, found.summary.objects, found.summary.skipped) == (True, 0, 1)


def test_the_objects_of_a_list_are_checked_one_by_one():
    items = "\n".join(f"  {line}" for line in CLASS.replace("l4", "L4").splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n- {items.lstrip()}\n"
    assert said(text) == [
        (
            'stdin:6:20: error: InferenceClass "L4": metadata.name: "L4" is not a DNS '
            "subdomain: use lower-case "
            "letters, digits, '-' and '.', with a letter or digit at both ends"
        )
    ]


def test_a_key_that_is_there_twice_is_an_error():
    assert said(changed(("  replicas: 1", "  replicas: 1\n  replicas: 1"))) == [
        f"stdin:8:3: {NAMED}: spec.replicas: the key appears twice, first in line 7: remove one"
    ]


def test_a_second_object_without_a_line_between_is_told_so():
    [first, *_] = said(CLASS + CLASS.replace("l4", "h100"))
    assert first.endswith('first in line 1: remove one, or begin the second object with "---"')


def test_an_object_that_is_there_twice_is_an_error():
    assert said(joined(CLASS, CLASS)) == [
        (
            'stdin:14:18: error: InferenceClass "l4": metadata.name: the same object is already at '
            "stdin:3, and the later one would replace it: remove or rename one"
        )
    ]


def test_alternatives_in_files_of_their_own_are_no_error(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(CLASS)
    assert validation.validate(sources.read([str(tmp_path)], BytesIO)).valid


def test_a_pool_may_name_a_class_that_is_not_in_the_input():
    assert said(cluster("west", class_name="elsewhere")) == []


@pytest.mark.parametrize(
    ("fabric", "line"),
    [
        pytest.param(
            "Ethernet",
            'spec.nodePools[0].fabric: "Ethernet" is not one of None and EFA: choose one',
            id="a word",
        ),
        pytest.param(
            "{type: EFA, infiniband: {fabric: f}}",
            'spec.nodePools[0].fabric.type: must be "InfiniBand", not "EFA"',
            id="a setting of another type",
        ),
        pytest.param(
            "{type: EFA, infinband: {fabric: f}}",
            "spec.nodePools[0].fabric.infinband: unknown field; did you mean infiniband?",
            id="a misspelt setting",
        ),
    ],
)
def test_a_value_of_several_forms_is_judged_by_the_nearest_one(fabric, line):
    text = cluster("west").replace("nodeCount: 2", f"nodeCount: 2, fabric: {fabric}")
    assert [each.partition('InferenceCluster "west": ')[2] for each in said(text)] == [line]


def test_two_pools_of_one_name_are_told_as_a_list_map_takes_them():
    pool = "    - {name: pool, className: l4, nodeCount: 1}\n"
    assert said(cluster("west", extra=pool)) == [
        (
            'stdin:8:7: error: InferenceCluster "west": spec.nodePools[1]: repeats the name "pool" of '
            "spec.nodePools[0]: each value must be unique"
        )
    ]


def test_a_field_without_a_value_is_a_warning():
    text = changed(("  replicas: 1", "  replicas: 1\n  serving:"))
    found = validated(text)
    assert found.valid
    assert found.problems == (
        Problem(
            path="stdin",
            line=8,
            column=3,
            severity=Severity.WARNING,
            object=ObjectName(api_version=API, kind="ModelDeployment", namespace="ml-team", name="qwen"),
            field="spec.serving",
            message="is empty, and is treated as absent: remove the field, or indent the lines that belong "
            "to it",
        ),
    )
    assert validation.describe(found) == "1 object valid with 1 warning, 1 file"


def test_a_required_field_without_a_value_is_an_error():
    _, template = DEPLOYMENT.split("          template:\n")
    assert said(changed((template, ""))) == [
        (
            f"stdin:16:11: {NAMED}: {MEMBER}.template: is required but empty: set a value, or indent the "
            "lines below that belong to this field"
        )
    ]


def test_a_deployment_without_a_number_of_replicas_is_valid_because_an_autoscaler_may_set_it():
    assert said(changed(("  replicas: 1\n", ""))) == []


@pytest.mark.parametrize(
    ("selector", "place", "excerpt"),
    [
        pytest.param(
            "device.drivr == 'x'",
            (15, 32),
            ("                  - cel: device.drivr == 'x'", " " * 31 + "^"),
            id="a plain text",
        ),
        pytest.param(
            "\"device.drivr == 'x'\"",
            (15, 33),
            ("                  - cel: \"device.drivr == 'x'\"", " " * 32 + "^"),
            id="a text in quotes",
        ),
        pytest.param(
            "|\n                      true &&\n                        device.drivr == 'x'",
            (17, 31),
            ("                        device.drivr == 'x'", " " * 30 + "^"),
            id="the second line of a block",
        ),
        pytest.param(
            ">-\n                      true &&\n                      device.drivr == 'x'",
            (15, 26),
            ("true && device.drivr == 'x'", " " * 14 + "^"),
            id="a folded text has no place of its own",
        ),
    ],
)
def test_a_selector_that_does_not_compile_is_shown_in_its_file(selector, place, excerpt):
    [problem] = validated(changed(('device.driver == "gpu.nvidia.com"', selector))).problems
    assert (problem.line, problem.column) == place
    assert problem.excerpt == excerpt
    assert problem.message == (
        'the selector does not compile: unknown name "device.drivr", did you mean device.driver?'
    )


@pytest.mark.parametrize(
    ("literal", "problem"),
    [
        pytest.param(
            'quantity("80GB")',
            '"80GB" is not a quantity: write a number and a unit, such as 80Gi or 500m',
            id="a unit that there is not",
        ),
        pytest.param(
            "semver('9.0')",
            '"9.0" is not a version: write major.minor.patch, such as 9.0.0',
            id="a version of two numbers",
        ),
    ],
)
def test_a_selector_that_fails_on_every_device_is_an_error_too(literal, problem):
    [found] = validated(
        changed(('device.driver == "gpu.nvidia.com"', f"{literal}.isLessThan({literal})"))
    ).problems[:1]
    assert found.message == f"the selector fails on every device: {problem}"
    source, caret = found.excerpt
    assert source[len(caret) - 1 :].startswith(problem[1:4])


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param('quantity("80Gi").isGreaterThan(quantity("500m"))', id="quantities"),
        pytest.param("semver('9.0', true) == semver('9.0.0')", id="versions, one of them to be completed"),
        pytest.param('isQuantity("80GB")', id="a question"),
    ],
)
def test_a_selector_with_sound_literals_is_accepted(selector):
    assert said(changed(('device.driver == "gpu.nvidia.com"', selector))) == []


def test_more_problems_than_anyone_reads_are_not_told(monkeypatch):
    text = changed(("  replicas: 1", "  replicas: 1\n" + "\n".join(f"  x{n}: 1" for n in range(150))))
    lines = said(text)
    assert len(lines) == 101
    assert lines[-1] == f"stdin:1:1: {NAMED}: there are more than 100 problems: correct these first"
    monkeypatch.setattr(validation, "MOST_PROBLEMS", 5)
    assert len(said("a\n---\n" * 20)) == 6


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        pytest.param(CLASS, "1 object valid, 1 file", id="one"),
        pytest.param(
            joined(CLASS, cluster("a"), "apiVersion: v1\nkind: Pod\n"),
            "2 objects valid, 1 file; 1 object of other kinds skipped",
            id="some, and another's",
        ),
        pytest.param(CLASS.replace("l4", "L4"), "1 error in 1 object, 1 file", id="a wrong one"),
        pytest.param("# nothing\n", "1 error in 0 objects, 1 file", id="none"),
        pytest.param(
            joined(
                CLASS.replace("l4", "L4"), DEPLOYMENT.replace("  replicas: 1", "  replicas: 1\n  serving:")
            ),
            "1 error and 1 warning in 2 objects, 1 file",
            id="a wrong one and a doubtful one",
        ),
    ],
)
def test_the_last_line_says_what_came_of_it(text, summary):
    assert validation.describe(validated(text)) == summary


RESERVED = "is reserved for system components: use a namespace of your own"


@pytest.mark.parametrize(
    "namespace", ["kube-system", "kube-public", "kube-node-lease", "modelplane-system", "crossplane-system"]
)
def test_a_reserved_namespace_is_an_error(namespace):
    assert said(changed(("ml-team", namespace))) == [
        (
            f'stdin:5:14: error: ModelDeployment "{namespace}/qwen": metadata.namespace: namespace '
            f'"{namespace}" {RESERVED}'
        )
    ]


def test_a_stored_object_of_a_reserved_namespace_is_a_warning_because_it_stays():
    [problem] = validated(changed(("  namespace: ml-team", "  namespace: kube-system\n  uid: u"))).problems
    assert (problem.severity, problem.field) == (Severity.WARNING, "metadata.namespace")


@pytest.mark.parametrize("namespace", ["default", "kubernetes", "team-system"])
def test_any_other_namespace_is_an_ordinary_one(namespace):
    assert said(changed(("ml-team", namespace))) == []


@pytest.mark.parametrize(
    "image",
    [
        "vllm",
        "vllm/vllm-openai:v0.23.0",
        "registry.example.com:5000/a/b_c/d__e-f.g:tag",
        "localhost/x",
        "[2001:db8::1]:5000/x:1",
        f"ghcr.io/x/y:1@sha256:{'0' * 64}",
    ],
)
def test_an_image_that_a_registry_takes_is_one(image):
    assert said(changed(("vllm/vllm-openai:v0.23.0", f'"{image}"'))) == []


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai:",
        "vllm/vLLM:1",
        "https://ghcr.io/x/y",
        "x:a:b",
        "x@sha256:12",
        "-x",
        "x/",
        "x:" + "t" * 129,
    ],
)
def test_an_image_that_no_registry_takes_is_an_error(image):
    assert said(changed(("vllm/vllm-openai:v0.23.0", f'"{image}"'))) == [
        (
            f'stdin:20:26: {NAMED}: {CONTAINER}.image: "{limit_text(image)}": not an image reference: write '
            "REGISTRY/REPOSITORY:TAG, the repository in lower case"
        )
    ]


def test_an_image_is_bounded():
    [line] = said(changed(("vllm/vllm-openai:v0.23.0", "x/" * 300 + "x")))
    assert line.endswith("has 601 characters: the most is 512")


@pytest.mark.parametrize("counts", ["nodeCount: 5001", "maxNodeCount: 5001", "nodeCount: 9000000000"])
def test_a_pool_has_a_limit(counts):
    text = cluster("west").replace("nodeCount: 2", counts)
    assert [line.partition('"west": ')[2] for line in said(text)] == [
        "spec.nodePools[0]: a pool has at most 5000 nodes: divide it into several"
    ]
    assert said(text.replace("9000000000", "5000").replace("5001", "5000")) == []


def test_every_key_that_is_wrong_is_named_beside_what_else_is_wrong():
    text = changed(
        ("  namespace: ml-team", "  namespace: ml-team\n  labels: {a b: x, -c: z, d: 'e f'}"),
        ("  replicas: 1", "  replicas: 1\n  clusterSelector: {matchLabels: {a/b/c: x, g: 'h i'}}"),
    )
    assert [line.split(": ")[3] for line in said(text)] == [
        "metadata.labels[a b]",
        "metadata.labels.-c",
        "metadata.labels.d",
        "spec.clusterSelector.matchLabels[a/b/c]",
        "spec.clusterSelector.matchLabels.g",
    ]


def test_a_rule_over_every_key_reads_nothing_but_the_key():
    def rules_of(schema):
        if isinstance(schema, dict):
            yield from (rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
            for child in schema.values():
                yield from rules_of(child)

    found = {
        rule for kind in KINDS for rule in rules_of(build_schema(kind)) if rule.startswith("self.all(key, ")
    }
    assert found
    assert all(rule.count("self") == 1 for rule in found)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n"])
def test_nothing_on_standard_input_is_an_error(text):
    assert said(text) == [
        "stdin: error: standard input is empty: pipe manifests to the command, or name files"
    ]


FOREIGN = {
    "package.json": '{"name": "x", "version": "1"}',
    "values.yaml": "replicas: 1\nimage: {tag: x}\n",
    "list.yaml": "- a\n- b\n",
}


def test_what_is_no_object_is_counted_in_a_folder(tmp_path):
    for name, text in FOREIGN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "class.yaml").write_text(CLASS)
    found = validation.validate(sources.read([str(tmp_path)], BytesIO))
    assert (found.problems, found.summary.objects, found.summary.ignored) == ((), 1, 3)
    assert validation.describe(found) == (
        "1 object valid, 4 files; 3 documents without a Kubernetes object skipped"
    )
    assert load(sources.read([str(tmp_path)], BytesIO)).problems == ()


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_object_is_an_error_if_it_is_named(tmp_path, name):
    (tmp_path / name).write_text(FOREIGN[name])
    assert not validation.validate(sources.read([str(tmp_path / name)], BytesIO)).valid


@pytest.mark.parametrize("text", ["kind: ModelDeployment\n", f"apiversion: {API}\n", "Kind: Pod\n", "a: [\n"])
def test_what_may_be_meant_for_an_object_is_an_error_in_a_folder_too(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    assert not validation.validate(sources.read([str(tmp_path)], BytesIO)).valid
