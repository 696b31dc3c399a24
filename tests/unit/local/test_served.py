import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from modelplane.kube import errors
from modelplane.kube.http_messages import ObjectList
from modelplane.local import served
from support.certificates import authority, server_context

KEY = ("ml-team", "first-answer")


def service(ready="True", address="http://127.0.0.1:1/ml-team/first-answer"):
    return {
        "metadata": {"namespace": "ml-team", "name": "first-answer"},
        "status": {"address": address, "conditions": [{"type": "Ready", "status": ready}]},
    }


class ControlPlane:
    """Answers each list with the next of what the test says, the last one for ever."""

    def __init__(self, *answers):
        self._answers = list(answers)

    async def list(self, _resource):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return ObjectList(tuple(answer), "1")


@pytest.fixture
def gateway():
    """A gateway that answers with the next of its statuses, the last one for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    asked, statuses = [], [200]
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    server.asked, server.statuses = asked, statuses
    server.address = f"http://127.0.0.1:{server.server_port}/ml-team/first-answer"
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        pytest.param([errors.NotFound(404, "", "")], {}, id="a fleet that never ran"),
        pytest.param([[]], {}, id="nothing is served"),
        pytest.param([[service("False")]], {}, id="what was not ready is not waited for"),
        pytest.param([[service(address="")]], {}, id="what has no address is not waited for"),
        pytest.param(
            [errors.ApiError(429, "", "storage is (re)initializing"), [service()]],
            {KEY: service()["status"]["address"]},
            id="an API server that is not quite there is asked again",
        ),
    ],
)
def test_what_was_served_is_read_from_the_services(answers, found):
    assert asyncio.run(served.list_services(ControlPlane(*answers))) == found


@pytest.mark.parametrize(
    ("answers", "statuses", "silent"),
    [
        pytest.param([[service()]], [200], (), id="it answers"),
        pytest.param([[service()]], [503, 503, 200], (), id="it loads, whatever its status still says"),
        pytest.param([[service("False")], [service()]], [200], (), id="its status follows the engine"),
        pytest.param([errors.Unreachable("gone"), [service()]], [200], (), id="an API server that dies"),
        pytest.param([[service()]], [404], (), id="a provider without a health path answers"),
        pytest.param([[]], [503], (), id="one that is deleted meanwhile is not waited for"),
        pytest.param([[service()]], [503], (KEY,), id="it never answers"),
        pytest.param([[service("False")]], [200], (KEY,), id="it never gets ready"),
    ],
)
def test_a_service_is_back_when_it_answers_and_says_so(gateway, answers, statuses, silent):
    gateway.statuses[:] = statuses
    before = {KEY: gateway.address}
    left = asyncio.run(served.wait_until_answering(ControlPlane(*answers), before, 0.1 if silent else 5.0))
    assert left == silent
    assert set(gateway.asked) <= {"/ml-team/first-answer/health"}


def test_a_door_that_is_shut_is_no_answer():
    before = {KEY: "http://127.0.0.1:1/ml-team/first-answer"}
    assert asyncio.run(served.wait_until_answering(ControlPlane([service()]), before, 0.2)) == (KEY,)


def test_a_service_behind_tls_is_asked_with_any_certificate(gateway, tmp_path):
    authority(tmp_path)
    gateway.socket = server_context(tmp_path, "models.example").wrap_socket(gateway.socket, server_side=True)
    before = {KEY: gateway.address.replace("http://", "https://")}
    assert asyncio.run(served.wait_until_answering(ControlPlane([service()]), before, 5.0)) == ()
    assert gateway.asked == ["/ml-team/first-answer/health"]
