"""A fleet is saved, and restored to an empty control plane: whole, once, and nothing there is changed."""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.backup import fleet_hold, restoring
from modelplane.backup.archive import NAME, Damaged, Header, Reader, open_file, write_file
from modelplane.backup.objects import Entry
from modelplane.backup.restoring import Restored, Restorer, read_item
from modelplane.backup.saving import Saver
from modelplane.controllers.leader import LEASE
from modelplane.install.waiting import Deadline
from modelplane.kube import errors
from modelplane.user_error import UserError
from support.stored_fleet import item
from support.storing_server import StoringServer

PASSPHRASE = b"correct horse battery staple"


class Slept:
    """A clock that passes at once."""

    def __init__(self) -> None:
        self.total = 0.0

    async def __call__(self, seconds: float) -> None:
        self.total += seconds


async def save(
    server: StoringServer, path: Path, passphrase: bytes | None = None, **options: Any
) -> list[str]:
    said: list[str] = []
    async with server.client() as client:
        await Saver(client, said.append, **options).save(path, passphrase)
    return said


async def restore(
    server: StoringServer,
    path: Path,
    passphrase: bytes | None = None,
    said: list[str] | None = None,
    sleep: Slept | None = None,
    **options: Any,
) -> Restored:
    async with server.client() as client:
        with open_file(path) as reader:
            report = (said if said is not None else []).append
            restorer = Restorer(client, reader, passphrase, report, Deadline(5), sleep=sleep or Slept())
            return await restorer.restore(**options)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def lease(server: StoringServer) -> dict[str, Any]:
    return dict(server.get("Lease", LEASE)["spec"])


async def test_everything_of_the_fleet_is_there_again(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    file = tmp_path / "fleet"
    said = await save(source, file, page=1)
    assert "1 ModelReplica" in said
    restored = await restore(target, file)
    deployment, replica, endpoint, revision = (
        target.get(kind, name)
        for kind, name in (
            ("ModelDeployment", "qwen"),
            ("ModelReplica", "qwen-0"),
            ("ModelEndpoint", "qwen-0"),
            ("ControllerRevision", "qwen-1"),
        )
    )
    assert deployment["status"] == {"replicas": {"total": 1}}
    assert replica["status"] == {"clusters": ["east"]}, "the finalizer reads there where its objects are"
    assert replica["metadata"]["finalizers"] == ["modelplane.ai/remote-objects"]
    assert replica["metadata"]["annotations"] == {
        labels.CHILD: "replica-east-0",
        labels.FORMER_UIDS: "old-mr",
    }
    uid = deployment["metadata"]["uid"]
    assert [each["uid"] for each in replica["metadata"]["ownerReferences"]] == [uid]
    assert [each["uid"] for each in endpoint["metadata"]["ownerReferences"]] == [replica["metadata"]["uid"]]
    assert (revision["revision"], revision["data"]) == (1, {"a": 1})
    fields: dict[str, Any] = {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}}
    assert replica["metadata"]["managedFields"] == [
        {"manager": "modelplane", "operation": "Apply", "fieldsV1": fields}
    ]
    assert "Secret" not in {each["kind"] for each in target.objects.values()}
    assert restored.missing == ('Secret "modelplane-system/east-kubeconfig"',)
    assert lease(target)["holderIdentity"] == "", "controllers may act"
    assert not any(path.endswith("namespaces/other") for path in target.objects), "it has nothing of a fleet"


async def test_contents_of_secrets_are_restored_with_the_passphrase(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    file = tmp_path / "fleet"
    await save(source, file, PASSPHRASE)
    assert b"c2VjcmV0" not in file.read_bytes()
    with pytest.raises(UserError, match="the passphrase is wrong"):
        await restore(target, file, b"something else entirely")
    assert target.writes == []
    assert (await restore(target, file, PASSPHRASE)).missing == ()
    assert target.get("Secret", "east-kubeconfig")["data"] == {"kubeconfig": "c2VjcmV0"}


HASH = "0123456789abcdef" * 4


def put_key(server: StoringServer) -> None:
    """Store a ModelKey, with its hash wherever an API server has it."""
    fields = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:hashes": {f'k:{{"sha256":"{HASH}"}}': {}}}}}]
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"sha256": HASH})}
    metadata = {"managedFields": fields, "annotations": annotations}
    spec = {"hashes": [{"sha256": HASH}]}
    status = {"hashes": [{"sha256": HASH, "firstSeen": "2026-01-01T00:00:00Z"}]}
    server.put(item("ModelKey", "app", "old-key", spec=spec, status=status, metadata=metadata))


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
async def test_a_file_never_shows_the_hash_of_a_key(
    source: StoringServer, tmp_path: Path, passphrase: bytes | None
) -> None:
    put_key(source)
    await save(source, tmp_path / "fleet", passphrase)
    assert HASH.encode() not in (tmp_path / "fleet").read_bytes()
    assert b'"ModelKey"' in (tmp_path / "fleet").read_bytes()


async def test_keys_are_restored_whole_with_the_passphrase(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    put_key(source)
    assert "1 ModelKey, encrypted" in await save(source, tmp_path / "fleet", PASSPHRASE)
    restored = await restore(target, tmp_path / "fleet", PASSPHRASE)
    assert restored.missing == ()
    assert 'ModelKey "ml/app"' in {str(each) for each in restored.plan.entries}
    before, after = (server.get("ModelKey", "app") for server in (source, target))
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert (await restore(target, tmp_path / "fleet", PASSPHRASE)).missing == (), "and once more"


async def test_without_the_passphrase_keys_are_named_and_may_be_there(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    put_key(source)
    assert "1 ModelKey, the names only" in await save(source, tmp_path / "fleet")
    assert 'ModelKey "ml/app"' in (await restore(target, tmp_path / "fleet", dry_run=True)).missing
    put_key(target)
    assert 'ModelKey "ml/app"' not in (await restore(target, tmp_path / "fleet")).missing


async def test_a_key_in_a_file_of_an_earlier_version_is_restored(
    target: StoringServer, tmp_path: Path
) -> None:
    key = item("ModelKey", "app", "old-key", spec={"hashes": [{"sha256": HASH}]})
    with write_file(tmp_path / "fleet") as file:
        file.begin(
            Header(name=NAME, format=1, modelplane="0.8.0", time="2026-01-01T00:00:00Z", resource_version="1")
        )
        file.add(key)
        file.finish()
    await restore(target, tmp_path / "fleet")
    assert target.get("ModelKey", "app")["spec"] == key["spec"]


async def test_a_secret_that_is_there_stays_as_it_is(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet", PASSPHRASE)
    other = copy.deepcopy(source.get("Secret", "east-kubeconfig"))
    other["data"] = {"kubeconfig": "b3RoZXI="}
    target.put(other)
    restored = await restore(target, tmp_path / "fleet", PASSPHRASE)
    assert restored.differing == ('Secret "modelplane-system/east-kubeconfig"',)
    assert target.get("Secret", "east-kubeconfig")["data"] == {"kubeconfig": "b3RoZXI="}


def without_chance(server: StoringServer) -> dict[str, Any]:
    """Return everything that is stored, without what differs from run to run."""
    renamed = {each["metadata"]["uid"]: path for path, each in server.objects.items()}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                plain(key): plain(each)
                for key, each in value.items()
                if key not in {"resourceVersion", "acquireTime", "renewTime", "leaseTransitions"}
            }
        if isinstance(value, list):
            return [plain(each) for each in value]
        for uid, path in renamed.items():
            value = value.replace(uid, path) if isinstance(value, str) else value
        return value

    return {path: plain(each) for path, each in server.objects.items()}


async def test_a_restore_that_is_interrupted_at_any_write_is_completed_by_another(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    file = tmp_path / "fleet"
    await save(source, file, PASSPHRASE)
    empty = copy.deepcopy(target.objects)
    await restore(target, file, PASSPHRASE)
    whole, writes = without_chance(target), len(target.writes)
    assert writes > 15
    for number in range(writes):
        server = StoringServer()
        server.objects = copy.deepcopy(empty)
        server.fails_after = number
        with pytest.raises(errors.Unreachable):
            await restore(server, file, PASSPHRASE)
        if number >= 2:
            assert lease(server)["holderIdentity"].startswith("modelplane-restore-"), "controllers stand by"
        server.fails_after = None
        await restore(server, file, PASSPHRASE)
        assert without_chance(server) == whole


async def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    said: list[str] = []
    await restore(target, tmp_path / "fleet", said=said, dry_run=True)
    assert 'create ModelReplica "ml/qwen-0"' in said
    assert target.writes == []


async def test_an_object_that_differs_is_a_refusal(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    other = copy.deepcopy(source.get("ModelDeployment", "qwen"))
    other["spec"] = {"replicas": 2}
    target.put(other)
    with pytest.raises(UserError, match='differ from the backup: ModelDeployment "ml/qwen"'):
        await restore(target, tmp_path / "fleet")
    assert target.writes == []


async def test_an_object_of_another_fleet_is_a_refusal(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    other = copy.deepcopy(source.get("ModelDeployment", "qwen"))
    other["metadata"]["name"] = "llama"
    target.put(other)
    with pytest.raises(UserError, match='that are not in the backup: ModelDeployment "ml/llama"'):
        await restore(target, tmp_path / "fleet")
    assert target.writes == []


async def test_the_lease_is_taken_from_controllers_that_run(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    target.put(a_lease("pod-1"))
    said: list[str] = []
    slept = Slept()
    await restore(target, tmp_path / "fleet", said=said, sleep=slept)
    assert slept.total == 15, "until its last renewal has expired"
    assert "Paused the controllers: took the Lease from pod-1" in said
    assert lease(target)["holderIdentity"] == ""


async def test_the_restore_of_another_backup_is_not_mixed_with_this_one(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    target.put(a_lease("modelplane-restore-0123456789abcdef"))
    with pytest.raises(UserError, match="another backup's restore is not complete"):
        await restore(target, tmp_path / "fleet")
    assert target.writes == []
    assert fleet_hold.GIVE_UP == "kubectl delete lease modelplane-controller -n modelplane-system"


def a_lease(holder: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": "modelplane-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }


async def test_controllers_that_wrote_before_they_stood_by_are_a_refusal(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    target.put(a_lease("pod-1"))
    other = copy.deepcopy(source.get("ModelDeployment", "qwen"))
    other["metadata"]["name"] = "late"

    class Late(Slept):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            target.put(other)

    with pytest.raises(UserError, match="late"):
        await restore(target, tmp_path / "fleet", sleep=Late())
    assert lease(target)["holderIdentity"] == "", "they act again"


async def test_a_restored_fleet_that_is_saved_again_keeps_the_uids_of_all_its_lives(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "first")
    await restore(target, tmp_path / "first")
    second = target.get("ModelReplica", "qwen-0")["metadata"]["uid"]
    await save(target, tmp_path / "second")
    third = StoringServer()
    third.objects = {path: each for path, each in target.objects.items() if "customresource" in path}
    await restore(third, tmp_path / "second")
    recorded = third.get("ModelReplica", "qwen-0")["metadata"]["annotations"][labels.FORMER_UIDS]
    assert recorded == f"{second},old-mr"


async def test_the_older_of_two_that_claim_the_same_is_the_older_one_again(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    for name, hashes, created in (
        ("a-thief", ["one", "two"], "2026-03-01"),
        ("owner", ["one"], "2026-01-01"),
        ("b-thief", ["two"], "2026-04-01"),
        ("alone", ["three"], "2026-05-01"),
    ):
        metadata = {"creationTimestamp": f"{created}T00:00:00Z"}
        spec = {"hashes": [{"sha256": each} for each in hashes]}
        source.put(item("ModelKey", name, f"old-{name}", spec=spec, metadata=metadata))
    await save(source, tmp_path / "fleet", PASSPHRASE)
    slept: list[int] = []

    class Clock(Slept):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            slept.append(len([path for path in target.objects if "/modelkeys/" in path]))

    clock = Clock()
    await restore(target, tmp_path / "fleet", PASSPHRASE, sleep=clock)
    order = [path.rpartition("/")[2] for path in target.objects if "/modelkeys/" in path]
    assert order == ["owner", "alone", "a-thief", "b-thief"]
    assert slept == [2, 3]
    assert clock.total > 2, "an age has the precision of a second"


async def test_many_objects_of_one_claim_cost_a_restore_few_turns(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    for number in range(40):
        metadata = {"creationTimestamp": f"2026-01-01T00:00:{number:02}Z"}
        spec = {"hashes": [{"sha256": "one"}]}
        name = "owner" if not number else f"a-thief-{number:02}"
        source.put(item("ModelKey", name, f"old-{number}", spec=spec, metadata=metadata))
    await save(source, tmp_path / "fleet", PASSPHRASE)
    slept = Slept()
    await restore(target, tmp_path / "fleet", PASSPHRASE, sleep=slept)
    order = [path.rpartition("/")[2] for path in target.objects if "/modelkeys/" in path]
    assert order[:7] == ["owner", *(f"a-thief-{number:02}" for number in range(1, 7))]
    assert len(order) == 40
    assert slept.total < 10, "a turn costs more than a second, and a tenant can have thousands"


HELD = (
    'interrupted: the controllers are on standby, because Lease "modelplane-system/modelplane-controller" '
    'is still held by "modelplane-restore-{short}". To continue, restore the file with sha256 {digest} '
    "again. To give up, run `kubectl delete lease modelplane-controller -n modelplane-system`"
)


def held(file: Path) -> str:
    digest = json.loads(file.read_bytes().splitlines()[-1])["end"]["sha256"]
    return HELD.format(short=digest[:16], digest=digest)


async def test_a_file_that_changes_before_the_first_write_leaves_the_lease_to_the_controllers(
    source: StoringServer, target: StoringServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet"
    await save(source, file)
    target.put(a_lease("pod-1"))
    target.put(copy.deepcopy(source.get("InferenceCluster", "east")))

    def changed(_reader: Reader, _entry: Entry) -> Any:
        raise Damaged("the file was changed while it was being read")

    class Changing(Slept):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            monkeypatch.setattr(restoring, "read_item", changed)

    said: list[str] = []
    with pytest.raises(Damaged, match="changed while it was being read"):
        await restore(target, file, said=said, sleep=Changing())
    assert lease(target)["holderIdentity"] == "", "no object was written: they act again"
    assert said == ["Paused the controllers: took the Lease from pod-1"]


async def test_a_restore_that_is_canceled_while_it_waits_gives_the_lease_back(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    target.put(a_lease("pod-1"))
    waits = asyncio.Event()

    class Waiting(Slept):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            waits.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(restore(target, tmp_path / "fleet", sleep=Waiting()))
    await waits.wait()
    assert lease(target)["holderIdentity"].startswith("modelplane-restore-")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lease(target)["holderIdentity"] == ""


async def test_a_lease_that_cannot_be_given_back_is_named(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    file = tmp_path / "fleet"
    await save(source, file)
    target.put(a_lease("pod-1"))

    class CutOff(Slept):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            target.fails_after = 0
            raise errors.Unreachable("cut off")

    said: list[str] = []
    with pytest.raises(errors.Unreachable):
        await restore(target, file, said=said, sleep=CutOff())
    assert said == [held(file)]
    target.fails_after = None
    await restore(target, file)
    assert lease(target)["holderIdentity"] == ""


@pytest.mark.parametrize("failure", [Damaged("it was changed"), OSError(5, "Input/output error")])
async def test_a_restore_that_ends_between_two_writes_says_who_holds_the_lease_and_continues(
    source: StoringServer,
    target: StoringServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
) -> None:
    file = tmp_path / "fleet"
    await save(source, file)
    said: list[str] = []

    def broken(_reader: Reader, entry: Entry) -> Any:
        if entry.content.resource.kind == "ModelReplica":
            raise failure
        return read_item(_reader, entry)

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "read_item", broken)
        with pytest.raises(type(failure)):
            await restore(target, file, said=said)
    assert said == [held(file)]
    assert lease(target)["holderIdentity"].startswith("modelplane-restore-")
    await restore(target, file)
    assert target.get("ModelReplica", "qwen-0")
    assert lease(target)["holderIdentity"] == ""


async def test_a_restore_that_is_canceled_between_two_writes_says_who_holds_the_lease(
    source: StoringServer, target: StoringServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet"
    await save(source, file)
    said: list[str] = []
    writes = asyncio.Event()

    async def stuck(_self: Restorer, _entry: Entry) -> None:
        writes.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(Restorer, "_restore_object", stuck)
        task = asyncio.create_task(restore(target, file, said=said))
        await writes.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert said == [held(file)]
    await restore(target, file)
    assert lease(target)["holderIdentity"] == ""


async def test_a_second_run_that_is_refused_says_that_the_first_still_holds_the_lease(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    file = tmp_path / "fleet"
    await save(source, file)
    target.fails_after = 5
    with pytest.raises(errors.Unreachable):
        await restore(target, file)
    target.fails_after = None
    other = copy.deepcopy(source.get("ModelDeployment", "qwen"))
    other["metadata"]["name"] = "meanwhile"
    target.put(other)
    said: list[str] = []
    with pytest.raises(UserError, match="meanwhile"):
        await restore(target, file, said=said)
    assert said == [held(file)]


async def test_what_was_being_deleted_is_named(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    source.get("ModelDeployment", "qwen")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await save(source, tmp_path / "fleet")
    restored = await restore(target, tmp_path / "fleet")
    assert restored.leaving == ('ModelDeployment "ml/qwen"',)
    assert "deletionTimestamp" not in target.get("ModelDeployment", "qwen")["metadata"]


async def test_a_fleet_under_crossplane_is_neither_saved_nor_restored(
    source: StoringServer, target: StoringServer, tmp_path: Path
) -> None:
    await save(source, tmp_path / "fleet")
    owner = {
        "kind": "CompositeResourceDefinition",
        "apiVersion": "apiextensions.crossplane.io/v2",
        "controller": True,
    }
    for server in (source, target):
        for each in server.objects.values():
            if each["kind"] == "CustomResourceDefinition":
                each["metadata"]["ownerReferences"] = [owner]
    with pytest.raises(UserError, match="Crossplane reconciles this fleet"):
        await save(source, tmp_path / "other")
    assert names(tmp_path) == ["fleet"]
    with pytest.raises(UserError, match="Crossplane reconciles this fleet"):
        await restore(target, tmp_path / "fleet")
    assert target.writes == []


async def test_a_version_that_is_gone_leaves_no_file(source: StoringServer, tmp_path: Path) -> None:
    source.expired = True
    with pytest.raises(UserError, match="no longer stores the version at which the backup started"):
        await save(source, tmp_path / "fleet")
    assert names(tmp_path) == []


async def test_a_control_plane_without_modelplane_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Modelplane is not installed there"):
        await save(StoringServer(), tmp_path / "fleet")
