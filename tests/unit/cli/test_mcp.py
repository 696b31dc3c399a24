"""``modelplane mcp``: its options, and what it needs to know before it serves other machines."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modelplane.cli.inspect import mcp as command
from modelplane.cli.main import main
from modelplane.mcp import http


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["mcp", *map(str, arguments)])


def file(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(content)
    path.chmod(mode)
    return path


USAGE = {
    "another machine's address without names": (
        ("--http", "0.0.0.0:80"),
        "set --allow-host to the host name that clients use",
    ),
    "no port": (("--http", "127.0.0.1"), '--http "127.0.0.1" is not HOST:PORT'),
    "a port that is too large": (("--http", "127.0.0.1:65536"), "is not HOST:PORT"),
    "a name without HTTP": (("--allow-host", "a.example"), "--allow-host and --token-file require --http"),
}


@pytest.mark.parametrize(("arguments", "expected"), USAGE.values(), ids=USAGE.keys())
def test_wrong_usage_is_refused(arguments: tuple[str, ...], expected: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, expected in done.output) == (2, True), done.output


def test_a_token_needs_http_and_a_fleet(tmp_path: Path) -> None:
    path = file(tmp_path, "x" * 40)
    assert "require --http" in run("--token-file", path).output
    assert "without a token" in run("--http", "127.0.0.1:0", "--docs-only", "--token-file", path).output


TOKENS = {
    "that others can read": ("x" * 40, 0o644, "run `chmod 600"),
    "that is short": ("x" * 10, 0o600, "doesn't contain a token of at least 20 letters and digits"),
    "of several lines": ("x" * 20 + "\n" + "y" * 20, 0o600, "doesn't contain a token"),
    "that is empty": ("", 0o600, "openssl rand -hex 24"),
}


@pytest.mark.parametrize(("content", "mode", "expected"), TOKENS.values(), ids=TOKENS.keys())
def test_a_token_file_is_refused(tmp_path: Path, content: str, mode: int, expected: str) -> None:
    done = run("--http", "127.0.0.1:0", "--token-file", file(tmp_path, content, mode))
    assert done.exit_code == 1
    assert expected in done.output


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The applications that would be served."""
    found: list[object] = []

    async def serve(application: object, _listening: object) -> None:
        found.append(application)

    monkeypatch.setattr(http, "serve", serve)
    return found


def test_the_address_and_a_new_token_are_printed(served: list[object]) -> None:
    first, second = run("--http", "127.0.0.1:0"), run("--http", "127.0.0.1:0")
    address, token = first.output.splitlines()
    assert address.startswith("Serving MCP at http://127.0.0.1:")
    assert address.endswith("/mcp")
    assert token.startswith("Clients send the header Authorization: Bearer ")
    assert len(token.rpartition(" ")[2]) == 32
    assert token != second.output.splitlines()[1]
    assert [type(each) for each in served] == [http.TokenGuard] * 2


def test_a_token_of_a_file_is_not_printed(served: list[object], tmp_path: Path) -> None:
    done = run("--http", "[::1]:0", "--token-file", file(tmp_path, "x" * 40 + "\n"))
    [line] = done.output.splitlines()
    assert line.startswith("Serving MCP at http://[::1]:")
    assert isinstance(served[0], http.TokenGuard)


def test_public_pages_need_no_token(served: list[object]) -> None:
    done = run("--http", "127.0.0.1:0", "--docs-only")
    assert len(done.output.splitlines()) == 1
    assert not isinstance(served[0], http.TokenGuard)


def test_the_default_address_is_loopback() -> None:
    [option] = [each for each in command.mcp.params if each.name == "address"]
    assert getattr(option, "flag_value", None) == "127.0.0.1:8791"
