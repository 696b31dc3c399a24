import pytest

from modelplane.crossplane.package.metadata import Registry, Version, installed_name
from modelplane.user_error import UserError


@pytest.mark.parametrize(
    ("address", "name"),
    [
        pytest.param(
            "ghcr.io/modelplane/function", "modelplane-function", id="the path, without the registry"
        ),
        pytest.param("localhost:5000/a.b/c-d", "a-b-c-d", id="dots are dashes"),
        pytest.param("example.org/a/b_c", "a-bc", id="an underscore is left out"),
        pytest.param("example.org/function", "function", id="a path of one word"),
        pytest.param("example.org/" + "a" * 62 + "/b", "a" * 62, id="63 characters, and no dash at the end"),
    ],
)
def test_a_dependency_is_installed_under_the_name_that_crossplane_derives(address, name):
    assert installed_name(address) == name


@pytest.mark.parametrize("prefix", ["ghcr.io/modelplane", "localhost:5000", "registry.example.org/a/b_c/d-e"])
def test_a_registry_is_a_host_and_a_path(prefix):
    assert Registry.parse(prefix).address("function") == f"{prefix}/function"


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param("modelplane", id="no host"),
        pytest.param("modelplane/packages", id="a path on a registry that is not named"),
        pytest.param("ghcr.io/Modelplane", id="upper case in the path"),
        pytest.param("ghcr.io/modelplane/", id="a slash at the end"),
        pytest.param("https://ghcr.io/modelplane", id="a URL"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_no_place_for_packages_is_refused(prefix):
    with pytest.raises(UserError, match=r"name both, as in ghcr\.io/modelplane"):
        Registry.parse(prefix)


@pytest.mark.parametrize(
    ("text", "tag", "or_newer", "patches"),
    [
        ("0.1.0", "v0.1.0", ">=v0.1.0, <v1.0.0", ">=v0.1.0, <v0.2.0"),
        ("v1.2.3", "v1.2.3", ">=v1.2.3, <v2.0.0", ">=v1.2.3, <v1.3.0"),
        ("10.0.0-rc.1", "v10.0.0-rc.1", ">=v10.0.0-rc.1, <v11.0.0-0", ">=v10.0.0-rc.1, <v10.1.0-0"),
    ],
)
def test_a_version_is_a_tag_and_what_may_take_its_place(text, tag, or_newer, patches):
    version = Version.parse(text)
    assert (version.tag, version.or_newer, version.patches) == (tag, or_newer, patches)


@pytest.mark.parametrize("text", ["", "1", "1.2", "01.2.3", "1.2.3+build", "latest"])
def test_what_crossplane_does_not_take_for_a_version_is_refused(text):
    with pytest.raises(UserError, match=r"is not a version of a package"):
        Version.parse(text)
