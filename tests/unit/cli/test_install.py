import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from modelplane import __version__
from modelplane.cli.main import main
from modelplane.cli.operate.install import _problems
from modelplane.install import cluster_requirements, installation_options as options
from modelplane.install.installation_options import Options
from modelplane.install.manifests import build_manifests, build_quota


def install(*arguments):
    return CliRunner().invoke(main, ["install", *arguments])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="to print"),
        pytest.param(["--apply"], id="to apply"),
        pytest.param(["--apply", "--upgrade"], id="to upgrade"),
        pytest.param(["--apply", "--dry-run"], id="to try"),
        pytest.param(["--image-digests", __file__], id="with digests"),
    ],
)
def test_without_a_published_image_one_is_asked_for_and_how_to_build_and_push_it_is_printed(options):
    result = install(*options)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(
        "Error: no Modelplane image is published yet, so set --image to your own image"
    )
    image = f"REGISTRY/modelplane:{__version__}"
    for command in (
        f"docker build -f package/Containerfile -t {image} .",
        f"docker push {image}",
        f"modelplane install --image {image} --apply",
    ):
        assert f"\n  {command}" in result.stderr


def test_once_images_are_published_that_of_the_version_is_the_default(monkeypatch):
    monkeypatch.setattr(options, "IS_PUBLISHED", True)
    assert [*yaml.safe_load_all(install().output)] == build_manifests(Options())


def test_the_manifests_are_written_as_they_are():
    result = install("--image", IMAGE)
    assert result.exit_code == 0
    assert [*yaml.safe_load_all(result.output)] == build_manifests(Options())


def test_every_option_reaches_the_manifests():
    result = install(
        *("--image", "example/modelplane:1", "--replicas", "3", "--gateway-service-type", "NodePort"),
        *("--gateway-annotation", "a=b=c", "--team-namespace", "x", "--team-namespace", "y"),
        *("--no-network-policy", "--monitoring-namespace", "watching", "--service-monitor"),
        *("--credential-lifetime", "24h"),
    )
    options = Options(
        image="example/modelplane:1",
        controllers=3,
        gateways=3,
        gateway_service_type="NodePort",
        gateway_annotations={"a": "b=c"},
        team_namespaces=("x", "y"),
        credential_lifetime="24h",
        network_policy=False,
        monitoring_namespaces=("watching",),
        service_monitor=True,
    )
    quotas = [build_quota("x"), build_quota("y")]
    assert [*yaml.safe_load_all(result.output)] == [*build_manifests(options), *quotas]
    with_its_own = install("--image", IMAGE, "--team-namespace", "x", "--no-quota")
    assert [*yaml.safe_load_all(with_its_own.output)] == build_manifests(Options(team_namespaces=("x",)))


def test_without_a_namespace_of_a_team_its_quota_is_a_comment():
    comment = [line for line in install("--image", IMAGE).output.splitlines() if line.startswith("# ")]
    [shown] = yaml.safe_load_all("\n".join(line[2:] for line in comment[1:]))
    assert shown == build_quota("TEAM")
    assert "TEAM" not in install("--image", IMAGE, "--no-quota").output


IMAGE = Options().image
DIGEST = "sha256:" + "0a" * 32


def test_a_digest_pins_the_image_of_every_container(tmp_path):
    file = tmp_path / "digests.yaml"
    file.write_text(f"# of a release\n{IMAGE}: {DIGEST}\n")
    output = install("--image", IMAGE, "--image-digests", str(file)).output
    assert [*yaml.safe_load_all(output)] == build_manifests(Options(image=f"{IMAGE}@{DIGEST}"))
    file.write_text(f"example/modelplane:1: {DIGEST}\n")
    output = install("--image", "example/modelplane:1", "--image-digests", str(file)).output
    assert [*yaml.safe_load_all(output)] == build_manifests(Options(image=f"example/modelplane:1@{DIGEST}"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            f"{IMAGE}: {DIGEST}\nexample/other:1: {DIGEST}\n",
            f':2: "example/other:1" has a digest, but the manifests pull only "{IMAGE}": remove the line',
            id="an image that is not pulled",
        ),
        *(
            pytest.param(
                f"{IMAGE}: {digest}\n",
                f':1: the digest of "{IMAGE}" must be "sha256:" followed by 64 hexadecimal digits',
                id=name,
            )
            for name, digest in {
                "63 digits": DIGEST[:-1],
                "65 digits": DIGEST + "0",
                "capitals": DIGEST.upper(),
                "another algorithm": "sha512:" + "0" * 128,
                "no digest": "null",
                "no text in its place": "[]",
            }.items()
        ),
        pytest.param(
            f"{IMAGE}: {DIGEST}\n{IMAGE}: {DIGEST[:-2]}00\n",
            f':2: "{IMAGE}" appears twice: remove one line',
            id="two digests",
        ),
        pytest.param(
            "{}",
            f': the digest of "{IMAGE}", which the manifests pull, is missing: add it',
            id="the image is missing",
        ),
        *(
            pytest.param(
                text,
                ": the file is not a mapping of images to digests: write lines of the form IMAGE: sha256:"
                "DIGEST",
                id=name,
            )
            for name, text in {
                "empty": "",
                "a list": f"- {IMAGE}",
                "two documents": f"{IMAGE}: {DIGEST}\n---\n{IMAGE}: {DIGEST}\n",
            }.items()
        ),
        pytest.param("a: b: c\n", ":1: ", id="no YAML"),
        pytest.param("\0", ":1: this is not text", id="no text"),
        pytest.param("\xff", ": byte 1 is not UTF-8", id="another encoding"),
    ],
)
def test_a_line_that_pins_nothing_is_an_error(text, said, tmp_path):
    file = tmp_path / "digests.yaml"
    file.write_text(text, encoding="latin-1")
    result = install("--image", IMAGE, "--image-digests", str(file))
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {file}{said}")


def test_an_image_with_a_digest_is_not_pinned_again(tmp_path):
    file = tmp_path / "digests.yaml"
    file.write_text(f"{IMAGE}: {DIGEST}\n")
    result = install("--image", f"{IMAGE}@{DIGEST}", "--image-digests", str(file))
    assert result.exit_code == 1
    assert result.output == (
        f'Error: "{IMAGE}@{DIGEST}" already contains a digest: omit the digest or --image-digests\n'
    )


def test_what_a_cluster_needs_comes_with_what_to_do():
    output = install("--inference-cluster").output
    assert output.startswith("# Permissions of Modelplane on this cluster.")
    assert [*yaml.safe_load_all(output)] == cluster_requirements.build_manifests()


@pytest.mark.parametrize(("chosen", "printed"), [("720h", "720h"), ("1h30m", "1h30m"), ("365d", "31536000s")])
def test_the_commands_request_a_token_of_the_chosen_lifetime(chosen, printed):
    output = install("--inference-cluster", "--credential-lifetime", chosen).output
    assert f"--duration {printed})" in output
    assert [*yaml.safe_load_all(output)] == cluster_requirements.build_manifests(), "the account is the same"


def test_the_identity_that_installs_charts_comes_with_its_own_option():
    output = install("--inference-cluster", "--installer").output
    assert "#   modelplane install --inference-cluster --installer | kubectl" in output
    assert "is an administrator of the cluster (cluster-admin):" in output
    added = [*yaml.safe_load_all(output)][len(cluster_requirements.build_manifests()) :]
    assert [(each["kind"], each["metadata"]["name"]) for each in added] == [
        ("ServiceAccount", "modelplane-installer"),
        ("ClusterRoleBinding", "modelplane-installer"),
    ]
    assert added[1]["roleRef"]["name"] == "cluster-admin"


def test_what_provider_kubernetes_needs_comes_with_its_own_option():
    output = install("--inference-cluster", "--crossplane").output
    assert "#   modelplane install --inference-cluster --crossplane | kubectl" in output
    assert [*yaml.safe_load_all(output)] == cluster_requirements.build_manifests(crossplane=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["--credential-lifetime", "9m59s"],
            '"9m59s" is shorter than 10m, the minimum that API servers grant',
            id="a lifetime that no server grants",
        ),
        pytest.param(
            ["--credential-lifetime", "36501d"],
            '"36501d" is longer than 36500d: choose a shorter one',
            id="a lifetime without end",
        ),
        pytest.param(["--upgrade"], "--upgrade and --dry-run require --apply", id="an upgrade of nothing"),
        pytest.param(["--dry-run"], "--upgrade and --dry-run require --apply", id="a trial of nothing"),
        pytest.param(
            ["--installer"], "--installer requires --inference-cluster", id="an identity of another"
        ),
        pytest.param(
            ["--crossplane"], "--crossplane requires --inference-cluster", id="an option of another"
        ),
        pytest.param(
            ["--inference-cluster", "--apply"],
            "--inference-cluster only prints manifests: apply them to the cluster with kubectl",
            id="another cluster's manifests applied",
        ),
        pytest.param(
            ["--inference-cluster", "--image-digests", __file__],
            "--image-digests has no effect with --inference-cluster, whose manifests contain no images",
            id="digests of no image",
        ),
        pytest.param(
            ["--gateway-annotation", "a"], '"a" is not of the form KEY=VALUE', id="half an annotation"
        ),
        pytest.param(["--replicas", "0"], "0 is not in the range x>=1", id="no replica"),
    ],
)
def test_wrong_usage_is_status_2(arguments, said):
    result = install(*arguments)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("command", [["install", "--apply", "--image", "i"], ["uninstall"]], ids=" ".join)
def test_a_cluster_that_cannot_be_found_is_a_sentence(command, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "nowhere" in result.output
    assert result.output.endswith(" with --kubeconfig or --context\n")


def test_stored_objects_are_checked_as_validate_does():
    about = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass"}
    stored = {"uid": "1", "resourceVersion": "7", "managedFields": [{"manager": "kubectl"}], "generation": 1}
    device = {"name": "gpu", "driver": "gpu.example", "deviceClassName": "gpu.example"}
    good = {**about, "metadata": {"name": "good", **stored}, "spec": {"devices": [device]}}
    odd = {**about, "metadata": {"name": "odd", **stored}, "spec": {"devices": [device], "colour": "green"}}
    assert _problems([good]) == []
    [problem] = _problems([good, odd])
    assert problem.startswith('InferenceClass "odd": spec.colour: unknown field')


def test_writing_the_manifests_imports_no_client():
    script = (
        "import sys\nfrom modelplane.cli.main import main\n"
        "main(['install', '--image', 'i'], standalone_mode=False)\n"
        "print([name for name in ('rich', 'lightkube', 'asyncio') if name in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert output.splitlines()[-1] == "[]"
