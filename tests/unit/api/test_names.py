import pytest

from modelplane.api.names import child_name, name_replica


@pytest.mark.parametrize(
    ("deployment", "cluster", "index", "name"),
    [
        ("qwen-demo", "eks-us-east", 0, "qwen-demo-92535"),
        ("qwen-demo", "eks-us-west", 0, "qwen-demo-7323a"),
        ("qwen-west", "eks-us-west", 0, "qwen-west-1e7af"),
        ("qwen-demo", "starter", 0, "qwen-demo-92da3"),
        ("m", "c1", 0, "m-abd35"),
        ("m", "c1", 1, "m-21905"),
        pytest.param("a" * 70, "c", 1, "a" * 57 + "-83ecf", id="a long name is cut to fit a DNS label"),
    ],
)
def test_a_replica_is_named_as_the_reference_implementation_names_it(deployment, cluster, index, name):
    assert name_replica(deployment, cluster, index) == name


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("eks-us-east", "cluster-kubeconfig"), "eks-us-east-cluster-kubeconfig-4f5ea"),
        (("eks-us-east", "serving-stack"), "eks-us-east-serving-stack-bbaa4"),
        (("eks-us-east", "kubeconfig"), "eks-us-east-kubeconfig-be186"),
        (("modelplane-system", "eks-us-east", "eks"), "modelplane-system-eks-us-east-eks-4837f"),
        (("modelcache", "ml-team", "qwen3-coder"), "modelcache-ml-team-qwen3-coder-c65e4"),
        (("modelcache", "ml-team", "qwen3-coder", "hydrate"), "modelcache-ml-team-qwen3-coder-hydrate-4774c"),
        (("modelcache", "ml-team", "qwen3-coder", "auth"), "modelcache-ml-team-qwen3-coder-auth-a73ec"),
        (("qwen-demo-7323a", "qwen"), "qwen-demo-7323a-qwen-7efa6"),
        (
            ("qwen-demo-7323a", "qwen", "standalone", "devices"),
            "qwen-demo-7323a-qwen-standalone-devices-088a5",
        ),
    ],
)
def test_a_child_is_named_as_the_reference_implementation_names_it(parts, name):
    assert child_name(*parts) == name


def test_a_name_that_is_cut_at_a_hyphen_does_not_double_it():
    assert child_name("a" * 56, "b" * 9) == "a" * 56 + "-" + child_name("a" * 56, "b" * 9)[-5:]


def test_a_name_that_is_cut_at_a_dot_is_still_one_of_an_object():
    assert child_name("a" * 56 + ".b") == "a" * 56 + "-" + child_name("a" * 56 + ".b")[-5:]


def test_one_digit_more_tells_colliding_replicas_apart_and_still_fits():
    name = name_replica("qwen-demo", "eks-us-east", 0, digits=6)
    assert name.startswith("qwen-demo-92535")
    assert len(name) == len("qwen-demo-92535") + 1
    assert len(name_replica("a" * 70, "c", 1, digits=6)) == 63
