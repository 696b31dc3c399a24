"""The access log of the fleet's listener: usage records, and nothing that may be secret."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelplane.gateway.envoy import access_log, listeners
from modelplane.gateway.route_table import Backend, Front, Listener
from modelplane.gateway.usage.usage_sums import UsageRecord

OF_MODULE = {
    *("key", "namespace", "model", "error", "stream", "estimated", "firstTokenMs", "heldMs"),
    *("promptTokens", "completionTokens", "totalTokens"),
}
HIDDEN = re.compile(r"authorization|x-api-key|cookie|%REQ\(:path|%RESP|body", re.IGNORECASE)


def manager(usage_log: str, front: Front | None = None) -> dict[str, Any]:
    listener = Listener("front-door", "127.0.0.1", 80, usage_log=usage_log, front=front)
    (chain,) = listeners.build_listener(listener, with_module=True)["filter_chains"]
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


def test_the_line_of_a_listener_with_the_module_is_text_with_its_record() -> None:
    manager_ = manager("x", Front())
    (log,) = manager_["access_log"]
    format_ = log["typed_config"]["log_format"]
    line = format_["text_format_source"]["inline_string"]
    # The module writes the path itself.
    assert "modelplane.usage.path" not in {each["name"] for each in manager_["http_filters"]}
    assert format_["omit_empty_values"], "a request without a record is a line of JSON too"
    backend = Backend("ml/a", (("1.2.3.4", 443),), host="a.com", model='x"y')
    of_cluster = {"backend": "ml/a", "host": "a.com", "backendModel": 'x"y'}
    of_others = {*access_log.OF_MODULE, *of_cluster}
    of_envoy = {name: "1" for name in access_log.FIELDS if name not in of_others}
    members = access_log.build_backend_metadata(backend)["modelplane.usage"]["members"]
    for record, cluster in (("", ""), (',"path":"/x","key":"ml/ci"', members)):
        written = line.replace("%FILTER_STATE(modelplane.record:PLAIN)%", record)
        written = written.replace("%METADATA(CLUSTER:modelplane.usage:members)%", cluster)
        written = re.sub("%[^%]+%", "1", written)
        found = {name: str(value) for name, value in json.loads(written).items()}
        assert found == of_envoy | ({"path": "/x", "key": "ml/ci", **of_cluster} if record else {})


def test_a_line_as_text_has_nothing_that_a_client_a_backend_or_a_tenant_chooses() -> None:
    (log,) = manager("x", Front())["access_log"]
    line = log["typed_config"]["log_format"]["text_format_source"]["inline_string"]
    # Names of services are DNS labels, and the members of a cluster are JSON.
    of_backend = "%METADATA(CLUSTER:modelplane.usage:members)%"
    assert set(re.findall("%[^%]+%", line)) == {
        *("%START_TIME%", "%ROUTE_NAME%", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", of_backend),
        *("%UPSTREAM_REQUEST_ATTEMPT_COUNT%", "%RESPONSE_CODE%", "%RESPONSE_FLAGS%", "%DURATION%"),
        *("%BYTES_RECEIVED%", "%BYTES_SENT%", "%FILTER_STATE(modelplane.record:PLAIN)%"),
    }


def test_no_header_with_a_key_and_no_query_is_logged() -> None:
    operators = access_log.FIELDS["path"], *access_log.FIELDS.values()
    responses = {"%RESPONSE_CODE%", "%RESPONSE_FLAGS%", "%RESPONSE_CODE_DETAILS%"}
    assert [each for each in operators if HIDDEN.search(each) and each not in responses] == []
    (saved,) = access_log.build_path_filter(Listener("a", "", 0, usage_log="x"), with_module=True)[0][
        "typed_config"
    ]["on_request_headers"]
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
    listener = Listener(
        "a", "", 0, front=Front(), usage_log=access_log.STANDARD_OUTPUT, ledger_log="usage/usage.jsonl"
    )
    printed, counted = access_log.build_access_log(listener, with_module=True)
    assert (printed["name"], counted["name"]) == ("envoy.access_loggers.stdout", "envoy.access_loggers.file")
    lines = [
        log["typed_config"]["log_format"]["text_format_source"]["inline_string"] for log in (counted, printed)
    ]
    fields, all_fields = (set(re.findall(r'"(\w+)":', line)) for line in lines)
    assert all("%METADATA(CLUSTER:modelplane.usage:members)%" in line for line in lines)
    required = {each.encode_name for each in msgspec.structs.fields(UsageRecord) if each.required}
    assert required <= fields < all_fields
    assert "modelplane.record" in str(counted), "tokens and keys are in the module's record"
    assert len(access_log.build_access_log(listener, with_module=False)) == 1, (
        "without the module nothing is counted"
    )


def test_the_log_has_host_and_model_of_a_backend_as_they_are_at_the_time() -> None:
    paid = Backend("ml/paid", (("1.2.3.4", 443),), host="api.com:8443", model="big")
    own = Backend("ml/own", (("10.0.0.1", 80),))
    forged = Backend("ml/forged", (("1.2.3.4", 443),), model='a","status":200,"x":"\\')
    assert [access_log.build_backend_metadata(each)["modelplane.usage"] for each in (paid, own, forged)] == [
        {
            "name": "ml/paid",
            "host": "api.com:8443",
            "model": "big",
            "members": ',"backend":"ml/paid","host":"api.com:8443","backendModel":"big"',
        },
        {"name": "ml/own", "members": ',"backend":"ml/own"'},
        {
            "name": "ml/forged",
            "model": 'a\\",\\"status\\":200,\\"x\\":\\"\\\\',
            "members": r',"backend":"ml/forged","backendModel":"a\",\"status\":200,\"x\":\"\\"',
        },
    ]
