import io
import tarfile

from modelplane.crossplane.package.oci import ANYONE_MAY_WRITE, File, Folder, arrange, write_tar


def _written(*entries):
    out = io.BytesIO()
    write_tar(out, arrange(entries))
    out.seek(0)
    return out.getvalue(), tarfile.open(fileobj=out)


def test_files_are_roots_of_1970_readable_by_all_and_sorted_below_their_folders(tmp_path):
    private = tmp_path / "private"
    private.write_bytes(b"#!")
    private.chmod(0o600)
    _, archive = _written(
        File("b/run", private, executable=True), Folder("tmp", ANYONE_MAY_WRITE), File("b/a/text", b"x")
    )
    assert [(each.name, oct(each.mode), each.mtime, each.uid, each.size) for each in archive] == [
        ("b", "0o755", 0, 0, 0),
        ("b/a", "0o755", 0, 0, 0),
        ("b/a/text", "0o644", 0, 0, 1),
        ("b/run", "0o755", 0, 0, 2),
        ("tmp", "0o1777", 0, 0, 0),
    ]


def test_the_order_in_which_files_come_does_not_matter():
    files = [File(f"f{number}", bytes([number])) for number in range(5)]
    assert _written(*files)[0] == _written(*reversed(files))[0]


def test_a_long_name_is_kept_whole():
    name = "/".join(["folder" * 10] * 4)
    _, archive = _written(File(name, b""))
    assert archive.getnames()[-1] == name
