"""Which clusters of a folder a deployment is compared with."""

import pytest

from modelplane.offline.check.validation import validate
from modelplane.offline.files.sources import Origin, Source
from support.manifests import DEPLOYMENT, cluster

KSERVE = cluster("kserve", extra="  servingStack: {backend: KServe}\n")
PLAIN = cluster("plain")
UNFIT = DEPLOYMENT.replace("vllm/vllm-openai:v0.23.0", "example.com/engine:1")
"""A deployment that KServe cannot run, because the entrypoint of its image is not known."""


def warned(files, origin=Origin.WALKED):
    report = validate(Source(name, text, origin) for name, text in files.items())
    assert report.valid
    return {problem.path for problem in report.problems}


@pytest.mark.parametrize(
    ("files", "paths"),
    [
        pytest.param({"x/fleet.yaml": KSERVE, "x/app.yaml": UNFIT}, {"x/app.yaml"}, id="one folder"),
        pytest.param({"x/fleet.yaml": KSERVE, "x/y/app.yaml": UNFIT}, {"x/y/app.yaml"}, id="a folder below"),
        pytest.param(
            {"m/clusters/eu/c.yaml": KSERVE, "m/apps/a/app.yaml": UNFIT},
            {"m/apps/a/app.yaml"},
            id="folders of clusters and of deployments are one set",
        ),
        pytest.param(
            {"x/fleet.yaml": KSERVE, "x/own.yaml": DEPLOYMENT, "z/app.yaml": UNFIT},
            set(),
            id="a folder with its own fleet is not about another folder",
        ),
        pytest.param(
            {"fleet.yaml": KSERVE, "a.yaml": UNFIT, "x/fleet.yaml": PLAIN, "x/app.yaml": UNFIT},
            {"a.yaml"},
            id="the innermost fleet counts",
        ),
    ],
)
def test_a_folder_with_its_own_fleet_is_one_set(files, paths):
    assert warned(files) == paths
    assert warned({f"/absolute/{name}": text for name, text in files.items()}) == {
        f"/absolute/{path}" for path in paths
    }


def test_files_that_are_named_are_one_set():
    files = {"x/fleet.yaml": KSERVE, "x/own.yaml": DEPLOYMENT, "z/app.yaml": UNFIT}
    assert warned(files, Origin.NAMED) == {"z/app.yaml"}


def test_a_comment_hides_the_warnings_of_its_line_and_no_error():
    ignored = UNFIT.replace("spec:\n  replicas", "spec:  # modelplane:ignore\n  replicas", 1)
    assert warned({"x/fleet.yaml": KSERVE, "x/app.yaml": ignored}) == set()
    elsewhere = UNFIT.replace("  replicas: 1", "  replicas: 1  # modelplane:ignore")
    assert warned({"x/fleet.yaml": KSERVE, "x/app.yaml": elsewhere}) == {"x/app.yaml"}
    broken = DEPLOYMENT.replace("replicas: 1", "replicas: x  # modelplane:ignore")
    assert not validate([Source("x.yaml", broken)]).valid
