import pytest

from modelplane.scheduler.rejection_reasons import describe_request


@pytest.mark.parametrize(
    ("asked", "offered", "told"),
    [
        pytest.param("100Gi", "80Gi", "100Gi", id="one unit"),
        pytest.param("141Gi", "143771Mi", "141Gi (144384Mi)", id="an exact number of the other unit"),
        pytest.param("100G", "81559Mi", "100G (about 95367.43Mi)", id="no exact number, so rounded and said"),
        pytest.param("143800Mi", "140Gi", "143800Mi (about 140.43Gi)", id="a larger unit"),
        pytest.param("2k", "141", "2k (2000)", id="no unit"),
        pytest.param("141Gi", "1e11", "141Gi", id="an exponent is no unit"),
        pytest.param("80GB", "81559Mi", "80GB", id="no quantity"),
    ],
)
def test_an_amount_is_also_told_in_the_unit_of_what_is_offered(asked: str, offered: str, told: str) -> None:
    assert describe_request(asked, offered) == told
