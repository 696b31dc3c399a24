import asyncio

import pytest

from modelplane.install.waiting import Deadline, NotInTime
from modelplane.kube import errors

pytestmark = pytest.mark.virtual_time


def answers(*given):
    """Return a function that gives, or raises, one answer after the other."""
    left = list(given)

    async def ask():
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


async def test_it_waits_until_nothing_is_missing():
    await Deadline(10).wait_until_nothing(answers("this", "that", ""))


async def test_what_is_missing_at_the_end_is_said():
    with pytest.raises(NotInTime, match=r"^timed out after 0 s: that$"):
        await Deadline(0).wait_until_nothing(answers(*["that"] * 99))


async def test_a_server_that_is_not_ready_for_a_request_is_asked_again():
    later = [errors.ApiError(code, "", "later") for code in (429, 503)]
    assert await Deadline(10).wait_for_answer(answers(*later, "answer")) == "answer"


@pytest.mark.parametrize(
    ("code", "timeout_s"),
    [
        pytest.param(403, 10, id="a refusal is final"),
        pytest.param(429, 0, id="patience ends with the time"),
    ],
)
async def test_another_answer_is_an_error(code, timeout_s):
    deadline = Deadline(timeout_s)
    await asyncio.sleep(0.001)
    with pytest.raises(errors.ApiError, match="no"):
        await deadline.wait_for_answer(answers(errors.ApiError(code, "", "no")))
