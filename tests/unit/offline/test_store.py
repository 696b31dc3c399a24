"""Objects of files in the place of an API server."""

from io import BytesIO

import pytest

from modelplane.compose.composition import Requirement
from modelplane.offline.check.validation import validate
from modelplane.offline.files.sources import read
from modelplane.offline.files.store import Store, get_cluster, load
from support.manifests import API, CLASS, DEPLOYMENT, joined, loaded

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "ml-team", "labels": {"modelplane.ai/cluster": "west", "x": "y"}},
}


def named(requirement, *objects):
    store = Store()
    for item in objects:
        store.add(item)
    return [item["metadata"]["name"] for item in store.find(requirement)]


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        pytest.param(Requirement("", "v1", "Pod", cluster="west"), ["a"], id="all of a kind"),
        pytest.param(Requirement("", "v1", "Pod"), [], id="none on the control plane"),
        pytest.param(Requirement("", "v1", "Pod", cluster="east"), [], id="none on another cluster"),
        pytest.param(Requirement("", "v1", "Pod", "ml-team", "a", cluster="west"), ["a"], id="one by name"),
        pytest.param(Requirement("", "v1", "Pod", "other", cluster="west"), [], id="another namespace"),
        pytest.param(Requirement("", "v1", "Pod", labels={"x": "y"}, cluster="west"), ["a"], id="labels"),
        pytest.param(Requirement("", "v1", "Pod", labels={"x": "z"}, cluster="west"), [], id="other labels"),
    ],
)
def test_a_requirement_is_answered(requirement, found):
    assert named(requirement, POD) == found


def test_the_label_of_a_cluster_says_where_a_pod_is_and_not_where_a_replica_is():
    assert get_cluster(POD) == "west"
    assert get_cluster({**POD, "apiVersion": API, "kind": "ModelReplica"}) == ""


def test_an_object_takes_the_place_of_one_with_its_name():
    store = Store()
    store.add(POD)
    store.add({**POD, "spec": {}})
    assert list(store) == [{**POD, "spec": {}}]
    store.remove(POD)
    assert list(store) == []


def test_what_people_wrote_is_checked():
    found = loaded(joined(CLASS, DEPLOYMENT.replace("replicas", "replica")))
    assert [item["kind"] for item in found.objects] == ["InferenceClass"]
    assert [problem.field for problem in found.problems] == ["spec.replica"]


def test_what_a_server_printed_may_have_fields_that_this_version_does_not_know():
    printed = DEPLOYMENT.replace("metadata:\n", "metadata:\n  uid: '1'\n").replace(
        "spec:\n", "spec:\n  new: 1\n", 1
    )
    found = loaded(printed)
    assert (len(found.objects), found.problems) == (1, ())


def test_what_a_server_printed_must_be_readable_all_the_same():
    printed = DEPLOYMENT.replace("metadata:\n", "metadata:\n  uid: '1'\n").replace(
        "replicas: 1", "replicas: x"
    )
    assert [str(problem) for problem in loaded(printed).problems] == [
        (
            'stdin:1:1: error: ModelDeployment "ml-team/qwen": spec.replicas: expected `int`, got `str`: '
            "create the file again with kubectl get -o yaml"
        )
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n",
            "must be a string: put it in quotes",
            id="a name that is a number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x, labels: 1}\n",
            "must be a mapping of strings: correct it",
            id="labels that are a number",
        ),
    ],
)
def test_of_an_object_of_another_kind_what_it_is_found_by_is_checked(document, message):
    assert [problem.message for problem in loaded(document).problems] == [message]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", id="no name"),
        pytest.param("# only a comment\n", id="no object"),
    ],
)
def test_what_nothing_can_look_for_is_left_out(document):
    found = loaded(document)
    assert (found.objects, found.problems) == ((), ())


def test_nulls_are_as_if_they_were_not_there():
    [pod] = loaded(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x, labels: null}\nspec: {a: [{b: null}]}\n"
    ).objects
    assert pod == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": [{}]}}


def refused(tmp_path, *texts):
    """Return what is said of files with these texts, as one group."""
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        paths.append(str(path))
    return [str(problem) for problem in load(read(paths, BytesIO)).problems]


def test_an_object_that_is_there_twice_is_refused_as_validate_refuses_it(tmp_path):
    text = joined(DEPLOYMENT, DEPLOYMENT.replace("replicas: 1", "replicas: 2"))
    [problem] = refused(tmp_path, text)
    assert problem == (
        f'{tmp_path}/0.yaml:25:9: error: ModelDeployment "ml-team/qwen": metadata.name: the same object is '
        f"already at {tmp_path}/0.yaml:4, and the later one would replace it: remove or rename one"
    )
    assert [problem] == [str(each) for each in validate(read([f"{tmp_path}/0.yaml"], BytesIO)).problems]


def test_two_files_have_the_same_object_or_one_of_them_is_refused(tmp_path):
    assert refused(tmp_path, DEPLOYMENT, DEPLOYMENT) == []
    [problem] = refused(tmp_path, DEPLOYMENT, DEPLOYMENT.replace("replicas: 1", "replicas: 2"))
    assert problem.startswith(f"{tmp_path}/1.yaml:4:9: error: ")


def test_an_object_without_a_namespace_is_in_that_of_kubectls_context(tmp_path):
    in_default = DEPLOYMENT.replace("namespace: ml-team", "namespace: default")
    assert len(refused(tmp_path, joined(in_default, DEPLOYMENT.replace("  namespace: ml-team\n", "")))) == 1


def test_the_texts_of_a_secret_are_among_its_data_as_on_a_server():
    [secret] = loaded(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: eA==, b: eA==}\nstringData: {b: z}\n"
    ).objects
    assert (secret["data"], "stringData" in secret) == ({"a": "eA==", "b": "eg=="}, False)
