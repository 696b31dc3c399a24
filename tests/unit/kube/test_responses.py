import httpx2
import pytest

from modelplane.kube import errors, resources
from support.api_server import POD, client_of


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(400, errors.Invalid, id="a bad request"),
        pytest.param(401, errors.Forbidden, id="an identity that is not known"),
        pytest.param(403, errors.Forbidden, id="an identity that may not"),
        pytest.param(404, errors.NotFound, id="nothing there"),
        pytest.param(409, errors.Conflict, id="another writer was first"),
        pytest.param(410, errors.Gone, id="a version too old"),
        pytest.param(422, errors.Invalid, id="a manifest that is refused"),
        pytest.param(500, errors.ApiError, id="a server in trouble"),
    ],
)
async def test_failures_are_told_apart(code: int, error: type[errors.ApiError]) -> None:
    status = {"kind": "Status", "reason": "Why", "message": "because"}
    with pytest.raises(errors.ApiError) as raised:
        await client_of(lambda _: httpx2.Response(code, json=status)).apply(POD)
    assert type(raised.value) is error
    assert (raised.value.code, raised.value.reason, str(raised.value)) == (code, "Why", "because")


async def test_a_failure_that_is_no_status_is_told_in_its_own_words() -> None:
    with pytest.raises(errors.ApiError, match="no healthy upstream"):
        await client_of(lambda _: httpx2.Response(503, text="no healthy upstream")).apply(POD)


async def test_of_a_page_that_a_proxy_answers_only_the_beginning_is_told() -> None:
    page = "<html>\n  <title>502 Bad Gateway</title>\n" + "<p>sorry</p>\n" * 10_000
    with pytest.raises(errors.ApiError) as raised:
        await client_of(lambda _: httpx2.Response(502, text=page)).apply(POD)
    assert str(raised.value) == ("<html> <title>502 Bad Gateway</title> " + "<p>sorry</p> " * 100)[:200]


@pytest.mark.parametrize(
    "answer", [pytest.param("<html>", id="a page"), pytest.param('{"a": 1}', id="some other API")]
)
async def test_an_answer_of_something_else_than_kubernetes_is_a_failure(answer: str) -> None:
    client = client_of(lambda _: httpx2.Response(200, text=answer))
    with pytest.raises(errors.ApiError, match="answers no Kubernetes object"):
        await client.list(resources.PODS)


async def test_whatever_keeps_a_request_from_being_answered_is_unreachable() -> None:
    def fail(_request: httpx2.Request) -> httpx2.Response:
        raise RuntimeError("the exec plugin failed")

    with pytest.raises(errors.Unreachable, match="the exec plugin failed"):
        await client_of(fail).get(resources.PODS, "p", "n")
