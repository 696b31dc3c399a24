"""The access log of the fleet's listener: usage records, and nothing that may be secret."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelplane.gateway.envoy import access_log, listeners
from modelplane.gateway.table import Backend, Front, Listener
from modelplane.gateway.usage import UsageRecord

OF_MODULE = {
    *("key", "namespace", "model", "error", "stream", "estimated", "firstTokenMs", "heldMs"),
    *("promptTokens", "completionTokens", "totalTokens"),
}
HIDDEN = re.compile(r"authorization|x-api-key|cookie|%REQ\(:path|%RESP|body", re.IGNORECASE)


def manager(usage_log: str) -> dict[str, Any]:
    listener = Listener("front-door", "127.0.0.1", 80, usage_log=usage_log)
    (chain,) = listeners.resource(listener, with_module=True)["filter_chains"]
    found: dict[str, Any] = chain["filters"][0]["typed_config"]
    return found


def test_a_listener_without_a_usage_log_has_none() -> None:
    assert manager("")["access_log"] == []
    assert "modelplane.usage.path" not in {each["name"] for each in manager("")["http_filters"]}


@pytest.mark.parametrize(
    ("usage_log", "name", "path"),
    [
        pytest.param("usage/usage.jsonl", "envoy.access_loggers.file", "usage/usage.jsonl", id="a file"),
        pytest.param("/dev/stdout", "envoy.access_loggers.stdout", None, id="standard output"),
    ],
)
def test_a_listener_logs_where_it_is_told(usage_log: str, name: str, path: str | None) -> None:
    (log,) = manager(usage_log)["access_log"]
    assert (log["name"], log["typed_config"].get("path")) == (name, path)
    # Before every filter that may answer: a refused request has its path in the record too.
    assert manager(usage_log)["http_filters"][0]["name"] == "modelplane.usage.path"


def test_a_record_has_the_fields_of_envoy_and_of_the_module() -> None:
    told = {*access_log.FIELDS, *OF_MODULE}
    assert {each.encode_name for each in msgspec.structs.fields(UsageRecord)} == told


def test_the_record_of_the_module_is_in_the_log_where_envoy_has_it() -> None:
    listener = Listener("front-door", "127.0.0.1", 80, usage_log="x", front=Front())
    logged = [
        access_log.access_log(listener, with_module=each)[0]["typed_config"]["log_format"]["json_format"]
        for each in (False, True)
    ]
    assert [fields.keys() - access_log.FIELDS.keys() for fields in logged] == [set(), {"record"}]


def test_no_header_with_a_key_and_no_query_is_logged() -> None:
    operators = access_log.FIELDS["path"], *access_log.FIELDS.values()
    responses = {"%RESPONSE_CODE%", "%RESPONSE_FLAGS%", "%RESPONSE_CODE_DETAILS%"}
    assert [each for each in operators if HIDDEN.search(each) and each not in responses] == []
    (saved,) = access_log.before_all(Listener("a", "", 0, usage_log="x"))[0]["typed_config"][
        "on_request_headers"
    ]
    assert saved["format_string"]["text_format_source"]["inline_string"] == "%PATH(NQ:PATH):1024%"


def test_the_reference_has_every_field_and_its_type() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "gateway.md").read_text()
    page = page[page.index("## Usage") :].split("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (\w+) \|", page, re.MULTILINE)
    told = {name: type_ for names, type_ in rows for name in re.findall(r"\w+", names)}
    fields = msgspec.structs.fields(UsageRecord)
    assert told == {each.encode_name: _json_type(each.type) for each in fields}


def _json_type(annotation: Any) -> str:
    schema = msgspec.json.schema(annotation)
    types = {schema.get("type"), *(each["type"] for each in schema.get("anyOf", ()))} - {None, "null"}
    (type_,) = types
    return str(type_)


def test_the_ledger_of_a_pod_has_the_fields_that_budgets_and_prices_need() -> None:
    listener = Listener("a", "", 0, usage_log=access_log.STANDARD_OUTPUT, ledger_log="usage/usage.jsonl")
    printed, counted = access_log.access_log(listener, with_module=True)
    assert (printed["name"], counted["name"]) == ("envoy.access_loggers.stdout", "envoy.access_loggers.file")
    fields = counted["typed_config"]["log_format"]["json_format"]
    assert fields.items() <= printed["typed_config"]["log_format"]["json_format"].items()
    required = {each.encode_name for each in msgspec.structs.fields(UsageRecord) if each.required}
    assert required <= fields.keys()
    assert len(access_log.access_log(listener, with_module=False)) == 1, (
        "without the module nothing is counted"
    )


def test_the_log_has_host_and_model_of_a_backend_as_they_are_at_the_time() -> None:
    paid = Backend("ml/paid", (("1.2.3.4", 443),), host="api.com:8443", model="big")
    own = Backend("ml/own", (("10.0.0.1", 80),))
    assert [access_log.of_backend(each)["modelplane.usage"] for each in (paid, own)] == [
        {"name": "ml/paid", "host": "api.com:8443", "model": "big"},
        {"name": "ml/own"},
    ]
