import pytest

from modelplane.install.api_server_choice import NoCluster, connect as connect_as, find_namespace

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://a.example"}}]
users: [{name: a, user: {token: secret}}]
contexts:
- {name: one, context: {cluster: a, user: a}}
- {name: two, context: {cluster: a, user: a, namespace: team}}
current-context: one
"""


def connect(kubeconfig, context):
    return connect_as(kubeconfig, context, "tests", 30.0)


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


async def test_a_file_that_is_named_comes_first(kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    async with connect(kubeconfig, "two"):
        pass


async def test_the_variable_comes_next(kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    async with connect(None, ""):
        pass


async def test_the_users_own_file_is_the_default(kubeconfig, tmp_path):
    (tmp_path / ".kube").mkdir()
    kubeconfig.rename(tmp_path / ".kube" / "config")
    async with connect(None, ""):
        pass


@pytest.mark.usefixtures("kubeconfig")
def test_without_any_it_is_said_where_one_was_looked_for(tmp_path):
    with pytest.raises(NoCluster) as raised:
        connect(None, "")
    assert f'in "{tmp_path}/.kube/config": select another kubeconfig or context' in str(raised.value)


def test_a_context_that_is_not_there_is_said(kubeconfig):
    with pytest.raises(NoCluster, match="three"):
        connect(kubeconfig, "three")


def test_several_files_in_the_variable_are_not_guessed_from(kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", f"{kubeconfig}:/elsewhere")
    with pytest.raises(NoCluster, match="KUBECONFIG contains several files: select one with --kubeconfig"):
        connect(None, "")


@pytest.mark.parametrize(("context", "namespace"), [("", "default"), ("one", "default"), ("two", "team")])
def test_the_namespace_is_that_of_the_context(kubeconfig, context, namespace):
    assert find_namespace(kubeconfig, context) == namespace


def test_the_namespace_of_a_context_that_is_not_there_is_refused(kubeconfig):
    with pytest.raises(NoCluster, match="three"):
        find_namespace(kubeconfig, "three")
