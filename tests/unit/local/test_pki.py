from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from modelplane.local.kubernetes import pki
from modelplane.local.kubernetes.control_plane import Pki
from modelplane.local.kubernetes.pki import Identity, ensure, list_identities

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CLIENT = Identity("client", "someone", ("some-group",))
SERVER = Identity("server", "server", (), ("127.0.0.1", "localhost"))


@pytest.fixture
def files(tmp_path):
    made = Pki(tmp_path)
    ensure(made, (CLIENT, SERVER), NOW)
    return made


def content(files):
    return {path.name: path.read_bytes() for path in files.directory.iterdir()}


def certificate(files, name):
    return x509.load_pem_x509_certificate(files.find_certificate(name).read_bytes())


def changed(files, wanted, now):
    before = content(files)
    ensure(files, wanted, now)
    return sorted(name for name, data in content(files).items() if before.get(name) != data)


def test_a_second_time_changes_nothing(files):
    assert changed(files, (CLIENT, SERVER), NOW + timedelta(days=1)) == []


def test_only_the_owner_can_read_what_is_made(files):
    assert {path.stat().st_mode & 0o777 for path in files.directory.iterdir()} == {0o600}


def test_a_certificate_says_who_its_holder_is_and_is_vouched_for_by_the_authority(files):
    client = certificate(files, "client")
    client.verify_directly_issued_by(certificate(files, "ca"))
    assert client.subject.rfc4514_string() == "CN=someone,O=some-group"


def test_a_server_is_certified_under_each_of_its_names(files):
    names = certificate(files, "server").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.0.0.1", "localhost"]


def test_a_certificate_is_renewed_thirty_days_before_it_expires(files):
    almost = certificate(files, "client").not_valid_after_utc - timedelta(days=29)
    assert changed(files, (CLIENT,), almost) == ["client.crt", "client.key"]
    assert certificate(files, "client").not_valid_after_utc > almost + timedelta(days=365)


def test_a_renewed_authority_renews_everything_but_the_key_of_service_accounts(files):
    almost = certificate(files, "ca").not_valid_after_utc - timedelta(days=29)
    assert changed(files, (CLIENT, SERVER), almost) == sorted(
        f"{name}.{kind}" for name in ("ca", "client", "server") for kind in ("crt", "key")
    )


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(Identity("client", "someone", ("another-group",)), id="another group"),
        pytest.param(Identity("client", "someone else", ("some-group",)), id="another name"),
        pytest.param(Identity("client", "someone", ("some-group",), ("localhost",)), id="a host to serve as"),
    ],
)
def test_a_certificate_that_no_longer_says_what_it_should_is_made_anew(files, wanted):
    assert changed(files, (wanted,), NOW) == ["client.crt", "client.key"]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            lambda files: files.find_certificate("client").write_text("rubbish"), id="a broken certificate"
        ),
        pytest.param(lambda files: files.find_key("client").unlink(), id="a lost key"),
        pytest.param(
            lambda files: files.find_key("client").write_bytes(files.find_key("server").read_bytes()),
            id="the key of another certificate",
        ),
    ],
)
def test_a_damaged_pair_is_made_anew(files, damage):
    before = certificate(files, "client")
    damage(files)
    ensure(files, (CLIENT, SERVER), NOW)
    assert certificate(files, "client") != before


def test_the_identities_have_the_names_and_groups_that_kubernetes_knows():
    assert {(each.common_name, each.organisations) for each in list_identities("here") if not each.hosts} == {
        ("modelplane:admin", ("system:masters",)),
        ("modelplane:controller", ("modelplane:controllers",)),
        ("system:node:here", ("system:nodes",)),
        ("system:kube-controller-manager", ()),
        ("system:kube-scheduler", ()),
        ("kube-apiserver-kubelet-client", ()),
    }


def test_the_present_time_is_in_utc():
    assert pki.get_now().utcoffset() == timedelta(0)
