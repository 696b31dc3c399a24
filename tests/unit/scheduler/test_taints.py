import pytest

from modelplane.scheduler import Effect, Operator, Taint, Toleration
from modelplane.scheduler.filters.taints import is_tolerated

TAINT = Taint("maintenance", "tonight", Effect.NO_EXECUTE)


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        pytest.param(
            Toleration("maintenance", Operator.EQUAL, "tonight"), True, id="key and value are equal"
        ),
        pytest.param(Toleration("maintenance", Operator.EQUAL, ""), False, id="no value is not any value"),
        pytest.param(Toleration("maintenance", Operator.EXISTS), True, id="Exists looks at the key alone"),
        pytest.param(Toleration("", Operator.EXISTS), True, id="Exists without a key tolerates everything"),
        pytest.param(Toleration("", Operator.EQUAL), False, id="Equal without a key tolerates nothing"),
        pytest.param(Toleration("other", Operator.EXISTS), False, id="another key"),
        pytest.param(
            Toleration("maintenance", Operator.EXISTS, "", Effect.NO_SCHEDULE), False, id="another effect"
        ),
        pytest.param(
            Toleration("maintenance", Operator.EXISTS, "", Effect.NO_EXECUTE), True, id="its effect"
        ),
    ],
)
def test_a_toleration_is_compared_as_kubernetes_does(toleration: Toleration, covered: bool) -> None:
    assert is_tolerated(toleration, TAINT) is covered


def test_a_taint_without_a_value_equals_an_empty_one() -> None:
    assert is_tolerated(Toleration("maintenance"), Taint("maintenance", "", Effect.NO_SCHEDULE))
