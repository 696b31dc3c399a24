import importlib
import json
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import click
import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.user_error import UserError
from support.certificates import authority, server_context

chat = importlib.import_module("modelplane.cli.models.chat")


def event(text):
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


MODELS = [b'{"data": [{"id": "gemma"}]}']


class Engine:
    """Answers each request with the next of the given bodies; remembers what it was asked."""

    def __init__(self, monkeypatch, *bodies, unready=""):
        self.bodies = iter(bodies)
        self.asked: list[Any] = []

        def find(name, namespace, _target):
            return chat._Service(
                name, namespace or "ml-team", "http://127.0.0.1:8080/ml-team/first-answer", unready
            )

        def request(_service, _method, path, body=None):
            self.asked.append((path, json.loads(json.dumps(body))))
            yield from next(self.bodies)

        monkeypatch.setattr(chat, "_find", find)
        monkeypatch.setattr(chat, "_request", request)


def ask(*arguments, typed=None):
    return CliRunner().invoke(main, ["chat", "first-answer", *arguments], input=typed)


def test_an_answer_is_printed_without_the_blank_around_it(monkeypatch):
    pieces = [
        event(" "),
        event(" Paris is"),
        event(" the\n"),
        event("capital."),
        event("\n\n"),
        b"data: [DONE]\n\n",
    ]
    Engine(monkeypatch, MODELS, pieces)
    result = ask("Where?")
    assert (result.exit_code, result.output) == (0, "Paris is the\ncapital.\n")


def test_an_event_may_come_in_pieces(monkeypatch):
    whole = event("Paris")
    Engine(monkeypatch, MODELS, [whole[:9], whole[9:20], whole[20:]])
    assert ask("Where?").output == "Paris\n"


def test_an_empty_answer_is_said_to_be_empty(monkeypatch):
    Engine(monkeypatch, MODELS, [b"data: [DONE]\n\n"])
    assert ask("Where?").output == "(the answer is empty)\n"


def test_an_answer_that_the_engine_breaks_off_is_an_error_after_what_came(monkeypatch):
    Engine(monkeypatch, MODELS, [event("Par"), b'data: {"error": {"message": "out of memory"}}\n\n'])
    result = ask("Where?")
    service = 'ModelService "first-answer" in namespace "ml-team"'
    said = f"Par\nError: {service} stopped in the middle of an answer: out of memory\n"
    assert (result.exit_code, result.output) == (1, said)


def test_a_service_that_does_not_speak_json_is_quoted(monkeypatch):
    Engine(monkeypatch, [b"<html>"])
    result = ask("Where?")
    assert (result.exit_code, result.output) == (
        1,
        'Error: ModelService "first-answer" in namespace "ml-team" sent an answer that is not JSON: <html>\n',
    )


def test_a_conversation_sends_what_was_said_before(monkeypatch):
    engine = Engine(monkeypatch, MODELS, [event("Paris.")], [event("Rome.")])
    result = ask(typed="France?\nItaly?\n")
    assert result.exit_code == 0
    assert engine.asked[-1][1]["messages"] == [
        {"role": "user", "content": "France?"},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "Italy?"},
    ]


@pytest.mark.parametrize(
    ("status", "unready", "said"),
    [
        pytest.param(
            503,
            "no endpoint is there",
            'ModelService "s" in namespace "n" is not ready: no endpoint is there\nTo wait: modelplane '
            "kubectl wait --for=condition=Ready ms/s -n n --timeout=2m\nTo see why: modelplane kubectl "
            "describe md -n n",
            id="a service that is not ready yet says why and how to wait",
        ),
        pytest.param(
            503,
            "",
            'ModelService "s" in namespace "n" answered 503: no endpoint: run `modelplane logs ms/s -n n`',
            id="a service that was ready passes on what the gateway says",
        ),
        pytest.param(
            400,
            "no endpoint is there",
            'ModelService "s" in namespace "n" answered 400: no endpoint',
            id="an error of the engine is passed on",
        ),
    ],
)
def test_a_refusal_says_why(status, unready, said):
    service = chat._Service("s", "n", "http://127.0.0.1:8080/n/s", unready)
    assert chat._refusal(service, status, b'{"error": {"message": "no endpoint"}}') == said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param('{"error": {"message": "too\\n long"}}', "too long", id="as OpenAI has it"),
        pytest.param('{"error": "no such route"}', "no such route", id="an error without more"),
        pytest.param('{"object": "error", "message": "too long"}', "too long", id="a message"),
        pytest.param('{"detail": "Not Found"}', "Not Found", id="a detail, as of a web framework"),
        pytest.param("<html>\n <h1>Bad</h1>", "<html> <h1>Bad</h1>", id="a page, on one line"),
        pytest.param("[]", "[]", id="JSON that says nothing"),
        pytest.param("", "Bad Request", id="nothing but the status"),
    ],
)
def test_an_error_of_an_engine_is_one_sentence_however_it_is_put(body, said):
    service = chat._Service("s", "n", "http://127.0.0.1:8080/n/s", "")
    sentence = f'ModelService "s" in namespace "n" answered 400: {said}'
    assert chat._refusal(service, 400, body.encode()) == sentence


def test_an_interrupted_answer_ends_with_130_and_no_traceback():
    script = (
        "import importlib\n"
        "from modelplane.cli.main import main\n"
        "chat = importlib.import_module('modelplane.cli.models.chat')\n"
        "def find(name, namespace, _target):\n"
        "    return chat._Service(name, namespace, 'http://127.0.0.1:{port}', '')\n"
        "chat._find = find\n"
        "main(['chat', 's', '--model', 'gemma', 'Where?'])\n"
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen(
            [sys.executable, "-c", script.replace("{port}", str(server.getsockname()[1]))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as asking,
    ):
        server.settimeout(20)
        connection, _ = server.accept()
        with connection:
            connection.sendall(head + event("Paris"))
            assert asking.stdout
            assert asking.stdout.read(5) == b"Paris", "an answer is printed while it comes"
            asking.send_signal(signal.SIGINT)
            assert asking.communicate(timeout=20) == (b"\n", b"")
    assert asking.returncode == 130


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        pytest.param(EOFError, 0, id="the input's end is the conversation's"),
        pytest.param(KeyboardInterrupt, 130, id="an interrupt is one"),
    ],
)
def test_how_a_conversation_ends(monkeypatch, cause, status):
    Engine(monkeypatch, MODELS)

    def read(_prompt):
        raise cause

    monkeypatch.setattr(click.termui, "visible_prompt_func", read)
    with pytest.raises(SystemExit) as ended:
        main(["chat", "first-answer"])
    assert ended.value.code == status


def test_nobody_listens_at_the_address():
    service = chat._Service("s", "n", "http://127.0.0.1:1/n/s", "")
    with pytest.raises(
        UserError, match=r"^the connection to ModelService \"s\" in namespace \"n\" at .* failed: "
    ):
        list(chat._request(service, "GET", "/v1/models"))


def test_a_fleet_that_does_not_run_is_to_be_started(monkeypatch, tmp_path):
    monkeypatch.setenv("MODELPLANE_HOME", str(tmp_path))
    (tmp_path / "kubeconfig").touch()
    result = ask("Where?")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: the fleet in {tmp_path} is not running: run `modelplane up`\n",
    )


def test_a_service_behind_tls_is_asked_only_if_its_certificate_is_trusted(monkeypatch, tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"answer")

        def log_message(self, *_arguments):
            pass

    trusted = authority(tmp_path)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = server_context(tmp_path, "localhost").wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service = chat._Service("s", "n", f"https://localhost:{server.server_port}/n/s", "")
    try:
        with pytest.raises(
            UserError, match=r"certificate verify failed.*: set SSL_CERT_FILE to the certificate"
        ):
            list(chat._request(service, "GET", "/v1/models"))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert list(chat._request(service, "GET", "/v1/models")) == [b"answer"]
    finally:
        server.shutdown()
        server.server_close()


def test_a_key_in_the_environment_is_sent(monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            given = self.headers.get("Authorization")
            self.send_response(200 if given else 401)
            self.end_headers()
            self.wfile.write((given or "").encode())

        def log_message(self, *_arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service = chat._Service("s", "n", f"http://127.0.0.1:{server.server_port}/n/s", "")
    monkeypatch.delenv("MODELPLANE_API_KEY", raising=False)
    try:
        with pytest.raises(UserError, match=r"answered 401: .*: set MODELPLANE_API_KEY to the API key"):
            list(chat._request(service, "GET", "/v1/models"))
        monkeypatch.setenv("MODELPLANE_API_KEY", "mpk_1")
        assert list(chat._request(service, "GET", "/v1/models")) == [b"Bearer mpk_1"]
    finally:
        server.shutdown()
        server.server_close()
