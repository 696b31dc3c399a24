//! Tests of the filter `backend` over the stand-in for Envoy.

use crate::abi::Source;
use crate::front_tests::Files;
use crate::names::{BY_MODEL, CLIENT_PATH};
use crate::stand_in::{Configured, Exchange};

type Metadata<'a> = &'a [(&'a str, &'a str)];

const CREDENTIALS: &str = r#"{"credentials":{
    "bearer":{"header":"authorization","value":"Bearer provider"},
    "key":{"header":"x-api-key","value":"other-provider"}}}"#;

fn filter(name: &str) -> Configured {
    let files = Files::new(name);
    let path = files.write("credentials.json", CREDENTIALS);
    Configured::new("backend", &format!(r#"{{"credentials":{path:?}}}"#)).unwrap()
}

fn request(filter: &Configured) -> Exchange {
    filter.open(&[
        (":path", "/ml/qwen/v1/chat?a=1"),
        (":authority", "gateway"),
        ("authorization", "Bearer client"),
        ("content-type", "application/json"),
        ("modelplane-client", "ml/ci"),
    ])
}

fn metadata(exchange: &mut Exchange, cluster: Metadata) {
    let metadata = &mut exchange.stream().metadata;
    metadata.insert((Source::Route, "strip".into()), "/ml/qwen".into());
    let line = |key: &str| cluster.iter().find(|(name, _)| *name == key).map_or("", |(_, value)| value);
    let lines = ["prefix", "overlap", "host", "model", "served", "credential"].map(line).join("\n");
    metadata.insert((Source::Cluster, "attempt".into()), lines);
}

#[test]
fn a_cluster_that_cannot_be_read_is_refused() {
    for (lines, status) in [("", 0), ("\n\n\n\n\n", 0), ("\n\n\n\n", 500), ("\n\n\n\n\n\n", 500), ("/", 500)]
    {
        let mut exchange = request(&filter("lines"));
        exchange.stream().metadata.insert((Source::Cluster, "attempt".into()), lines.into());
        assert_eq!(exchange.headers(true), status == 0);
        assert_eq!(exchange.answer().status, status, "{lines:?}");
    }
}

/// Return what an attempt at a backend carries: path, Host, two credentials, and who asks.
fn seen(exchange: &mut Exchange) -> [String; 5] {
    [":path", ":authority", "authorization", "x-api-key", "modelplane-client"]
        .map(|name| exchange.header(name).unwrap_or_default())
}

#[test]
fn each_attempt_starts_from_what_the_client_sent() {
    let filter = filter("attempts");
    let mut exchange = request(&filter);
    let own = ["/p/v1/chat?a=1", "gateway", "Bearer client", "", "ml/ci"];
    let attempts: [(Metadata, [&str; 5]); 5] = [
        (
            &[("prefix", "/v1/"), ("overlap", "v1"), ("host", "one.example"), ("credential", "bearer")],
            ["/v1/chat?a=1", "one.example", "Bearer provider", "", ""],
        ),
        (&[("prefix", "/p/")], own),
        (
            &[("prefix", "/"), ("host", "two.example"), ("credential", "key")],
            ["/v1/chat?a=1", "two.example", "", "other-provider", ""],
        ),
        (&[("credential", "bearer")], ["/ml/qwen/v1/chat?a=1", "gateway", "Bearer provider", "", ""]),
        (&[("prefix", "/p/")], own),
    ];
    for (cluster, expected) in attempts {
        metadata(&mut exchange, cluster);
        exchange.headers(true);
        assert_eq!(seen(&mut exchange), expected);
        exchange = filter.again(exchange);
    }
}

#[test]
fn an_attempt_starts_from_the_path_that_was_handed_over() {
    let filter = filter("handed-over");
    for (prefix, expected) in [("/v1/", "/v1/chat"), ("", "/ml/qwen/chat")] {
        let mut exchange = request(&filter);
        exchange.stream().state.insert(CLIENT_PATH.into(), b"p/ml/qwen/chat".to_vec());
        exchange.stream().request[0].1 = b"/ml/qwen/chat".to_vec();
        for attempt in 0..3 {
            metadata(&mut exchange, &[("prefix", prefix)]);
            exchange.headers(true);
            assert_eq!(exchange.header(":path").unwrap(), expected, "attempt {attempt}");
            exchange = filter.again(exchange);
        }
    }
}

#[test]
fn an_attempt_without_its_credential_is_refused() {
    for filter in [filter("missing"), Configured::new("backend", "{}").unwrap()] {
        let mut exchange = request(&filter);
        metadata(&mut exchange, &[("credential", "unknown")]);
        assert!(!exchange.headers(true));
        let answer = exchange.answer();
        assert_eq!((answer.status, answer.details.as_str()), (503, "credential_missing"));
        assert_eq!(exchange.header("authorization").unwrap(), "Bearer client");
    }
}

#[test]
fn the_model_has_the_name_that_the_backend_knows() {
    let filter = filter("rename");
    for trailers in [false, true] {
        for size in [1, 5, 100] {
            let mut exchange = request(&filter);
            exchange.stream().request.push(("content-length".into(), b"30".to_vec()));
            metadata(&mut exchange, &[("model", "gpt-5")]);
            assert!(!exchange.headers(false));
            let body = br#"{"n":1.0,"model":"ml/qwen"}"#;
            let sent = exchange.body(&body.chunks(size).collect::<Vec<_>>(), trailers).unwrap();
            assert_eq!(String::from_utf8(sent).unwrap(), r#"{"n":1.0,"model":"gpt-5"}"#);
            assert_eq!(exchange.header("content-length").unwrap(), "25");
        }
    }
}

#[test]
fn only_who_chose_the_service_by_its_name_gets_the_engines_name_for_the_model() {
    let filter = filter("served");
    for (by_model, cluster, expected) in [
        (true, &[("served", "llama-8b")] as Metadata, "llama-8b"),
        (false, &[("served", "llama-8b")], "an-adapter"),
        (true, &[("served", "llama-8b"), ("model", "gpt-5")], "gpt-5"),
        (true, &[], "an-adapter"),
    ] {
        let mut exchange = request(&filter);
        if by_model {
            exchange
                .stream()
                .state
                .insert(CLIENT_PATH.into(), [&[BY_MODEL], &b"/ml/qwen/v1/chat"[..]].concat());
        }
        metadata(&mut exchange, cluster);
        exchange.headers(false);
        let sent = exchange.body(&[br#"{"model":"an-adapter"}"#], false).unwrap();
        assert_eq!(String::from_utf8(sent).unwrap(), format!(r#"{{"model":"{expected}"}}"#));
    }
}

#[test]
fn each_attempt_has_the_length_of_its_own_body() {
    let filter = filter("lengths");
    let mut exchange = request(&filter);
    let body = br#"{"model":"ml/qwen"}"#;
    exchange.stream().request.push(("content-length".into(), b"19".to_vec()));
    for (cluster, expected) in [("gpt-5", "17"), ("", "19"), ("gpt-4.1-mini", "24"), ("", "19")] {
        metadata(&mut exchange, &[("model", cluster)]);
        exchange.headers(false);
        exchange.body(&[body], false);
        assert_eq!(exchange.header("content-length").unwrap(), expected);
        exchange = filter.again(exchange);
    }
}

#[test]
fn a_body_that_cannot_be_read_does_not_reach_a_backend_that_names_a_model() {
    let filter = filter("unreadable");
    for (body, expected) in [
        (&b"{}"[..], Ok(&br#"{"model":"gpt-5"}"#[..])),
        (br#"{"model":null}"#, Ok(br#"{"model":"gpt-5"}"#)),
        (b"", Ok(b"")),
        (b"not json", Err("invalid_body")),
        (br#"{"model":"a","model":"b"}"#, Err("invalid_body")),
        (br#"{"model":"cheap","Model":"expensive"}"#, Err("invalid_body")),
        (br#"{"Model":"expensive"}"#, Err("invalid_body")),
    ] {
        let mut exchange = request(&filter);
        metadata(&mut exchange, &[("model", "gpt-5")]);
        exchange.headers(false);
        let sent = exchange.body(&[body], false);
        assert_eq!(sent, expected.ok().map(<[u8]>::to_vec));
        assert_eq!(exchange.answer().details, expected.err().unwrap_or_default());
    }
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        let mut exchange = request(&filter);
        exchange.stream().request.retain(|(known, _)| known != name);
        exchange.stream().request.push((name.into(), value.into()));
        metadata(&mut exchange, &[("model", "gpt-5")]);
        assert!(!exchange.headers(false));
        assert_eq!(exchange.answer().details, "unsupported_media_type");
    }
}

#[test]
fn a_query_with_a_model_does_not_reach_a_backend_that_names_one() {
    let filter = filter("queries");
    for (cluster, end, expected) in
        [("gpt-5", false, "invalid_query"), ("gpt-5", true, "invalid_query"), ("", true, "")]
    {
        let mut exchange = request(&filter);
        exchange.stream().request.retain(|(known, _)| known != ":path");
        exchange.stream().request.push((":path".into(), b"/ml/qwen/v1/realtime?Model=other".to_vec()));
        metadata(&mut exchange, &[("model", cluster)]);
        exchange.headers(end);
        assert_eq!(exchange.answer().details, expected);
    }
}

#[test]
fn headers_that_servers_read_differently_do_not_reach_a_backend_that_names_a_model() {
    let filter = filter("several");
    for (name, values) in [
        ("content-type", ["application/json", "multipart/form-data; boundary=b"]),
        ("content-encoding", ["identity", "gzip"]),
    ] {
        let mut exchange = request(&filter);
        exchange.stream().request.retain(|(known, _)| known != name);
        exchange.stream().request.extend(values.map(|value| (name.into(), value.into())));
        metadata(&mut exchange, &[("model", "gpt-5")]);
        assert!(!exchange.headers(false));
        assert_eq!(exchange.answer().details, "unsupported_media_type", "{name}");
    }
}

#[test]
fn a_body_stays_as_it_is_for_a_backend_that_names_no_model() {
    let filter = filter("as-it-is");
    let mut exchange = request(&filter);
    metadata(&mut exchange, &[]);
    assert!(exchange.headers(false));
    assert_eq!(exchange.body(&[b"not", b"json"], false).unwrap(), b"notjson");
}

#[test]
fn a_bad_configuration_is_refused() {
    for (name, text) in [("other", "{}"), ("backend", "{\"x\":1}"), ("backend", ""), ("front", "{}")] {
        assert!(Configured::new(name, text).is_none());
    }
}
