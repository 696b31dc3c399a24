//! Tests of the filter `front` over the stand-in for Envoy.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::keys::tests::hex;
use crate::names::CLIENT_PATH;
use crate::stand_in::{Configured, Exchange, counter};

/// Folder of files for one test.
pub struct Files(PathBuf);

impl Files {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("modelplane-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }
}

const SECRET: &str = "sk-1";

/// Return a filter with one key, which has more members, and with models.
fn filter(test: &str, changes: serde_json::Value) -> Configured {
    let files = Files::new(test);
    let keys =
        files.write("keys.json", &String::from_utf8(crate::keys::tests::file(SECRET, changes)).unwrap());
    let models = json!({"services": [{"name": "ml/qwen"}, {"name": "ml/llama"}, {"name": "web/own"}],
        "aliases": [{"name": "both", "service": "ml/qwen", "namespaces": ["*"]},
                    {"name": "both", "service": "ml/llama", "namespaces": ["ml"]}]});
    let models = files.write("models.json", &models.to_string());
    let text = json!({"authentication": "APIKey", "keys": keys, "models": models, "maxBodyBytes": 1000});
    Configured::new("front", &text.to_string()).unwrap()
}

fn open() -> Configured {
    Configured::new("front", r#"{"authentication":"None"}"#).unwrap()
}

fn post(filter: &Configured, path: &str, more: &[(&str, &str)]) -> Exchange {
    let bearer = format!("Bearer {SECRET}");
    let own = [(":method", "POST"), (":path", path), ("content-type", "application/json")];
    let key = ("authorization", bearer.as_str());
    let headers: Vec<_> = own.into_iter().chain([key]).chain(more.iter().copied()).collect();
    filter.open(&headers)
}

/// Return the status and code of the answer to a request with headers alone.
fn refusal(filter: &Configured, headers: &[(&str, &str)]) -> (u32, String) {
    let path: &[(&str, &str)] = &[(":method", "GET"), (":path", "/ml/qwen/x")];
    let mut exchange = filter.open(&[path, headers].concat());
    let passed = exchange.headers(true);
    let answer = exchange.answer();
    assert_eq!(passed, answer.status == 0);
    assert!(exchange.stream().answers <= 1);
    (answer.status, answer.details)
}

#[test]
fn a_key_is_needed_and_may_come_in_two_headers() {
    let filter = filter("keys", json!({}));
    for (headers, expected) in [
        (&[("authorization", "Bearer sk-1")][..], (0, "")),
        (&[("authorization", "bearer  sk-1 ")], (0, "")),
        (&[("x-api-key", "sk-1")], (0, "")),
        (&[("x-api-key", "sk-1"), ("authorization", "Bearer sk-1")], (0, "")),
        (&[], (401, "missing_api_key")),
        (&[("authorization", "Bearer ")], (401, "missing_api_key")),
        (&[("authorization", "Basic sk-1")], (401, "missing_api_key")),
        (&[("authorization", "sk-1")], (401, "missing_api_key")),
        (&[("authorization", "Bearer sk-2")], (401, "invalid_api_key")),
        (&[("x-api-key", "")], (401, "invalid_api_key")),
        (&[("x-api-key", "sk-1"), ("authorization", "Bearer sk-2")], (400, "ambiguous_api_key")),
        (&[("x-api-key", "sk-1"), ("x-api-key", "sk-1")], (400, "ambiguous_api_key")),
        (&[("authorization", "Bearer sk-1"), ("authorization", "Bearer sk-1")], (400, "ambiguous_api_key")),
    ] {
        assert_eq!(refusal(&filter, headers), (expected.0, expected.1.to_string()), "{headers:?}");
    }
}

#[test]
fn the_key_goes_no_further_and_its_id_does() {
    let filter = filter("identity", json!({}));
    let mut exchange =
        post(&filter, "/ml/qwen/x", &[("x-api-key", SECRET), ("modelplane-client", "web/spoofed")]);
    assert!(exchange.headers(true));
    let seen = ["authorization", "x-api-key", "modelplane-client"].map(|name| exchange.header(name));
    assert_eq!(seen, [None, None, Some("ml/ci".to_string())]);
    let mut exchange = post(&open(), "/ml/qwen/x", &[("modelplane-client", "web/spoofed")]);
    assert!(exchange.headers(true));
    let seen = ["authorization", "modelplane-client"].map(|name| exchange.header(name));
    assert_eq!(seen, [Some("Bearer sk-1".to_string()), None]);
}

#[test]
fn a_key_may_be_refused_for_what_it_is() {
    let bearer = [("authorization", "Bearer sk-1")];
    for (changes, expected) in [
        (json!({"expires": 1}), (401, "expired_api_key")),
        (json!({"expires": 4_000_000_000_u64}), (0, "")),
        (json!({"blocked": "Key"}), (403, "key_blocked")),
        (json!({"blocked": "Budget"}), (429, "insufficient_quota")),
        (json!({"services": []}), (403, "service_not_allowed")),
        (json!({"services": ["ml/llama"]}), (403, "service_not_allowed")),
        (json!({"streams": 0}), (429, "rate_limit_exceeded")),
    ] {
        let found = refusal(&filter("refused", changes.clone()), &bearer);
        assert_eq!(found, (expected.0, expected.1.to_string()), "{changes}");
    }
}

#[test]
fn a_path_without_a_service_leads_nowhere() {
    let filter = filter("nowhere", json!({"services": ["*"]}));
    for path in ["/", "/ml", "//x/y", "*"] {
        let mut exchange = post(&filter, path, &[]);
        assert!(!exchange.headers(true));
        assert_eq!(exchange.answer().details, "route_not_found", "{path}");
    }
}

#[test]
fn a_limit_answers_with_what_is_left_and_when_to_come_back() {
    let filter = filter("limits", json!({"requestsPerMinute": 2}));
    for _ in 0..2 {
        assert!(post(&filter, "/ml/qwen/x", &[]).headers(true));
    }
    let mut exchange = post(&filter, "/ml/qwen/x", &[]);
    exchange.headers(true);
    exchange.complete();
    let answer = exchange.answer();
    assert_eq!((answer.status, answer.error()["type"].as_str().unwrap()), (429, "requests"));
    assert_eq!(answer.headers["retry-after"], "30");
    assert_eq!(answer.headers["x-ratelimit-limit-requests"], "2");
    assert_eq!(answer.headers["x-ratelimit-remaining-requests"], "0");
    assert_eq!(answer.headers["x-ratelimit-reset-requests"], "30");
    assert_eq!(exchange.stream().noted["error"], "rate_limit_exceeded");
    filter.call();
    assert_eq!(counter("refused{rate_limit_exceeded}"), 1);
}

#[test]
fn a_stream_is_given_back_when_the_client_leaves() {
    let filter = filter("streams", json!({"streams": 1}));
    let mut running = post(&filter, "/ml/qwen/x", &[]);
    assert!(running.headers(true));
    assert!(!post(&filter, "/ml/qwen/x", &[]).headers(true));
    drop(running);
    assert!(post(&filter, "/ml/qwen/x", &[]).headers(true));
}

#[test]
fn tokens_are_charged_when_the_answer_is_complete() {
    let filter = filter("tokens", json!({"tokensPerMinute": 10}));
    let mut exchange = post(&filter, "/ml/qwen/x", &[]);
    assert!(exchange.headers(true));
    let usage = br#"{"usage":{"prompt_tokens":8,"completion_tokens":9,"total_tokens":17}}"#;
    exchange.respond(&[(":status", "200"), ("content-type", "application/json")], &[usage], true);
    exchange.complete();
    let noted = exchange.stream().noted.clone();
    for (name, value) in [
        ("key", "ml/ci"),
        ("namespace", "ml"),
        ("promptTokens", "8"),
        ("completionTokens", "9"),
        ("totalTokens", "17"),
        ("estimated", "false"),
        ("stream", "false"),
    ] {
        assert_eq!(noted[name], value, "{name}");
    }
    assert_eq!(counter("tokens{ml/qwen,completion}"), 0);
    filter.call();
    filter.call();
    assert_eq!(["prompt", "completion"].map(|kind| counter(&format!("tokens{{ml/qwen,{kind}}}"))), [8, 9]);
    let mut next = post(&filter, "/ml/qwen/x", &[]);
    assert!(!next.headers(true));
    assert_eq!(next.answer().error()["type"], "tokens");
}

#[test]
fn the_model_in_the_body_chooses_the_service() {
    let filter = filter("by-model", json!({"services": ["ml/*"]}));
    for (model, expected) in [
        ("ml/qwen", Ok("/ml/qwen/v1/embeddings?a=1")),
        ("llama", Ok("/ml/llama/v1/embeddings?a=1")),
        ("web/own", Err((403, "service_not_allowed"))),
        ("own", Err((404, "model_not_found"))),
        ("ml/none", Err((404, "model_not_found"))),
        ("both", Err((409, "model_ambiguous"))),
    ] {
        for trailers in [false, true] {
            let mut exchange = post(&filter, "/v1/embeddings?a=1", &[]);
            assert!(!exchange.headers(false), "the headers are held");
            let body = json!({"model": model}).to_string();
            let sent = exchange.body(&body.as_bytes().chunks(3).collect::<Vec<_>>(), trailers);
            match expected {
                Ok(path) => {
                    assert_eq!(sent.unwrap(), body.as_bytes());
                    assert_eq!(exchange.header(":path").unwrap(), path);
                    assert_eq!(exchange.stream().routed, 1);
                    assert_eq!(exchange.stream().state[CLIENT_PATH], format!("m{path}").as_bytes());
                }
                Err((status, code)) => {
                    assert_eq!(sent, None);
                    let answer = exchange.answer();
                    assert_eq!((answer.status, answer.details.as_str()), (status, code));
                }
            }
        }
    }
}

#[test]
fn a_file_is_sent_with_its_model_in_a_form() {
    let filter = filter("form", json!({}));
    let mut exchange = post(&filter, "/v1/audio/transcriptions", &[]);
    exchange.stream().request[2].1 = b"multipart/form-data; boundary=b".to_vec();
    exchange.headers(false);
    let body = b"--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nml/qwen\r\n--b--\r\n";
    assert_eq!(exchange.body(&[body], false).unwrap(), body);
    assert_eq!(exchange.header(":path").unwrap(), "/ml/qwen/v1/audio/transcriptions");
}

#[test]
fn a_body_that_cannot_be_read_is_refused() {
    let filter = filter("bodies", json!({"maxBodyBytes": 50}));
    let by_body = |path: &str, body: &[u8]| {
        let mut exchange = post(&filter, path, &[]);
        exchange.headers(false);
        exchange.body(&body.chunks(9).collect::<Vec<_>>(), false);
        let answer = exchange.answer();
        (answer.status, answer.details)
    };
    let large = vec![b' '; 60];
    for (path, body, expected) in [
        ("/v1/completions", &b"{"[..], (400, "invalid_body")),
        ("/v1/completions", b"{}", (400, "invalid_body")),
        ("/v1/completions", br#"{"model":"a","model":"b"}"#, (400, "invalid_body")),
        ("/v1/completions", br#"{"model":"a","Model":"b"}"#, (400, "invalid_body")),
        ("/v1/completions", &large, (413, "request_too_large")),
        ("/ml/qwen/v1/completions", b"{", (400, "invalid_body")),
        ("/ml/qwen/v1/embeddings", b"{", (0, "")),
        ("/ml/qwen/v1/embeddings", &large, (413, "request_too_large")),
    ] {
        assert_eq!(by_body(path, body), (expected.0, expected.1.to_string()), "{path}");
    }
    for (header, value, code) in [
        ("content-length", "51", "request_too_large"),
        ("content-encoding", "gzip", "unsupported_media_type"),
    ] {
        let mut exchange = post(&filter, "/v1/completions", &[(header, value)]);
        assert!(!exchange.headers(false));
        assert_eq!(exchange.answer().details, code);
    }
    let mut exchange = post(&filter, "/v1/completions", &[]);
    exchange.stream().request[2].1 = b"text/plain".to_vec();
    exchange.headers(false);
    assert_eq!(exchange.answer().details, "unsupported_media_type");
}

#[test]
fn methods_and_paths_below_v1_are_told_apart() {
    let filter = filter("methods", json!({}));
    for (method, path, expected) in [
        ("GET", "/v1/models", (200, "models")),
        ("GET", "/v1/models?x", (200, "models")),
        ("GET", "/v1/models/ml/qwen", (200, "models")),
        ("GET", "/v1/models/web/own", (404, "model_not_found")),
        ("POST", "/v1/models", (405, "method_not_allowed")),
        ("GET", "/v1/chat/completions", (404, "route_not_found")),
        ("DELETE", "/v1/chat/completions", (405, "method_not_allowed")),
        ("POST", "/v1/chat/completions", (400, "invalid_body")),
    ] {
        let mut exchange = post(&filter, path, &[]);
        exchange.stream().request[0].1 = method.into();
        assert!(!exchange.headers(true));
        let answer = exchange.answer();
        assert_eq!((answer.status, answer.details.as_str()), expected, "{method} {path}");
    }
}

const COUNTS: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";

#[test]
fn token_counts_of_a_stream_are_asked_for_and_hidden_again() {
    let filter = open();
    let mut exchange = post(&filter, "/ml/qwen/v1/chat/completions", &[("accept-encoding", "gzip")]);
    assert!(!exchange.headers(false));
    assert_eq!(exchange.header("accept-encoding"), None);
    let sent = exchange.body(&[br#"{"stream":"#, b"true}"], false).unwrap();
    assert_eq!(sent, br#"{"stream":true,"stream_options":{"include_usage":true}}"#);
    let headers = [(":status", "200"), ("content-type", "text/event-stream"), ("content-length", "9")];
    let answer = format!("data: {{}}\n\n{COUNTS}data: [DONE]\n\n");
    let pieces: Vec<&[u8]> = answer.as_bytes().chunks(11).collect();
    assert_eq!(exchange.respond(&headers, &pieces, true), b"data: {}\n\ndata: [DONE]\n\n");
    assert!(exchange.stream().response.iter().all(|(name, _)| name != "content-length"));
    exchange.complete();
    assert_eq!(exchange.stream().noted["totalTokens"], "9");
}

#[test]
fn a_client_that_asked_sees_the_counts() {
    let filter = open();
    let mut exchange = post(&filter, "/ml/qwen/v1/chat/completions", &[]);
    exchange.headers(false);
    let body = br#"{"stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(exchange.body(&[body], false).unwrap(), body);
    let headers = [(":status", "200"), ("content-type", "text/event-stream")];
    assert_eq!(exchange.respond(&headers, &[COUNTS.as_bytes()], true), COUNTS.as_bytes());
}

#[test]
fn a_client_that_leaves_is_counted_by_estimate() {
    let filter = open();
    let mut exchange = post(&filter, "/ml/qwen/v1/chat/completions", &[]);
    exchange.headers(false);
    exchange.body(&[br#"{"stream":true}     "#], false);
    let headers = [(":status", "200"), ("content-type", "text/event-stream")];
    exchange.respond(&headers, &[b"data: {}\n\n", b"data: {}\n\n"], false);
    exchange.complete();
    let noted = exchange.stream().noted.clone();
    let counts = ["promptTokens", "completionTokens", "estimated"].map(|name| noted[name].as_str());
    assert_eq!(counts, ["5", "2", "true"]);
    // The configuration is replaced, and the next one takes what is left.
    drop((exchange, filter));
    open().call();
    assert_eq!(counter("estimated{ml/qwen}"), 1);
}

#[test]
fn errors_and_unreadable_answers_are_not_counted() {
    let filter = open();
    for headers in [
        &[(":status", "500"), ("content-type", "application/json")][..],
        &[(":status", "200"), ("content-type", "application/json"), ("content-encoding", "gzip")],
        &[(":status", "200"), ("content-type", "audio/wav")],
    ] {
        let mut exchange = post(&filter, "/ml/qwen/x", &[]);
        exchange.headers(true);
        exchange.respond(headers, &[br#"{"usage":{"prompt_tokens":1}}"#], true);
        exchange.complete();
        assert!(!exchange.stream().noted.contains_key("totalTokens"));
    }
}

#[test]
fn shares_lower_the_limits() {
    let files = Files::new("shares");
    let key = json!({"sha256": hex("a"), "id": "ml/ci", "namespace": "ml", "services": ["*"], "requestsPerMinute": 4});
    let keys = files.write("keys.json", &json!({"keys": [key], "namespaces": {"ml": {}}}).to_string());
    let shares = files.write("shares.json", r#"{"gateways":2}"#);
    let text = json!({"authentication": "APIKey", "keys": keys, "shares": shares}).to_string();
    let filter = Configured::new("front", &text).unwrap();
    let passed = (0..4).filter(|_| refusal(&filter, &[("x-api-key", "a")]).0 == 0).count();
    assert_eq!(passed, 2);
}

#[test]
fn an_answer_may_end_with_trailers() {
    let filter = open();
    let mut exchange = post(&filter, "/ml/qwen/v1/chat/completions", &[]);
    exchange.headers(false);
    exchange.body(&[br#"{"stream":true}"#], false);
    let headers = [(":status", "200"), ("content-type", "text/event-stream")];
    let got = exchange.respond(&headers, &[COUNTS.as_bytes(), b"data: {}\n\nda"], false);
    assert_eq!((got, exchange.respond_trailers()), (b"data: {}\n\n".to_vec(), b"da".to_vec()));
    exchange.complete();
    assert_eq!(exchange.stream().noted["estimated"], "false");
}

#[test]
fn a_websocket_is_no_way_around_the_reading_of_a_body() {
    let filter = filter("upgrade", json!({}));
    for method in ["GET", "POST"] {
        let mut exchange = post(&filter, "/v1/other/x", &[("upgrade", "websocket")]);
        exchange.stream().request[0].1 = method.into();
        assert!(!exchange.headers(false));
        assert_eq!(exchange.answer().details, "route_not_found");
    }
}

#[test]
fn a_websocket_has_no_body_that_is_limited() {
    let filter = filter("websocket", json!({"maxBodyBytes": 5}));
    let mut exchange = post(&filter, "/ml/qwen/v1/realtime", &[("upgrade", "websocket")]);
    assert!(exchange.headers(false));
    assert_eq!(exchange.body(&[b"more than five"], false).unwrap(), b"more than five");
}

#[test]
fn answers_of_the_module_count_as_requests() {
    let filter = filter("counted", json!({"requestsPerMinute": 2}));
    let ask = || {
        let mut exchange = post(&filter, "/v1/models", &[]);
        exchange.stream().request[0].1 = b"GET".to_vec();
        exchange.headers(true);
        exchange.answer().status
    };
    assert_eq!([ask(), ask(), ask()], [200, 200, 429]);
}

#[test]
fn what_only_gateways_may_say_is_dropped_and_the_hop_is_counted() {
    let spoofed = [
        ("x-envoy-retry-on", "5xx"),
        ("x-envoy-external-address", "192.0.2.1"),
        ("x-modelplane-host", "evil"),
        ("modelplane-gateway-even", "stolen"),
        ("modelplane-attempt", "1"),
        ("modelplane-hops", "11"),
        ("modelplane-hops", "1"),
        ("x-other", "kept"),
    ];
    let dropped = [None, None, None, None, None, Some("111")];
    let sent = [Some("5xx"), Some("192.0.2.1"), Some("evil"), Some("stolen"), Some("1"), Some("11")];
    for (option, expected) in [("true", dropped), ("false", sent)] {
        let text = format!(r#"{{"authentication":"None","internalHeaders":{option}}}"#);
        let mut exchange = post(&Configured::new("front", &text).unwrap(), "/ml/qwen/x", &spoofed);
        assert!(exchange.headers(true));
        let seen = [
            "x-envoy-retry-on",
            "x-envoy-external-address",
            "x-modelplane-host",
            "modelplane-gateway-even",
            "modelplane-attempt",
            "modelplane-hops",
        ]
        .map(|name| exchange.header(name));
        assert_eq!(seen, expected.map(|value| value.map(ToString::to_string)));
        assert_eq!(exchange.header("x-other").unwrap(), "kept");
    }
}

#[test]
fn a_body_that_takes_too_long_is_refused() {
    let text = r#"{"authentication":"None","requestTimeoutSeconds":0}"#;
    let filter = Configured::new("front", text).unwrap();
    let refusal = |exchange: &mut Exchange, pieces: &[&[u8]]| {
        exchange.headers(false);
        exchange.body(pieces, false);
        (exchange.answer().status, exchange.answer().details)
    };
    let late = (408, "request_overall_timeout".to_string());
    for path in ["/ml/qwen/x", "/ml/qwen/v1/chat/completions"] {
        assert_eq!(refusal(&mut post(&filter, path, &[]), &[b"{", b"}"]), late, "{path}");
        // The last piece is not late: the request is complete.
        assert_eq!(refusal(&mut post(&filter, path, &[]), &[b"{}"]).0, 0, "{path}");
    }
    let pieces: &[&[u8]] = &[b"{", b"}"];
    assert_eq!(refusal(&mut post(&filter, "/ml/qwen/x", &[("upgrade", "websocket")]), pieces).0, 0);
    let mut answered = post(&filter, "/ml/qwen/x", &[]);
    answered.headers(false);
    answered.respond(&[(":status", "200")], &[b"x"], false);
    answered.body(pieces, false);
    assert_eq!(answered.answer().status, 0);
}

#[test]
fn a_request_that_has_passed_too_many_gateways_takes_the_route_that_refuses_it() {
    let text = r#"{"authentication":"None","internalHeaders":true}"#;
    let filter = Configured::new("front", text).unwrap();
    for (hops, is_loop) in [("111", false), ("1111", true), ("11111", true), ("0", false), ("", false)] {
        let mut exchange = post(&filter, "/ml/qwen/x", &[("modelplane-hops", hops)]);
        assert!(exchange.headers(true));
        let stream = exchange.stream();
        assert_eq!(
            (stream.state.contains_key("modelplane.loop"), stream.routed > 0),
            (is_loop, is_loop),
            "{hops}"
        );
    }
}

#[test]
fn the_record_has_what_clients_choose_and_no_query() {
    let path = format!("/ml/qwen/\"{}?key=secret", "x".repeat(1100));
    let headers = [("x-request-id", "a\"b"), ("x-api-key", "secret")];
    for (option, expected) in [("", true), (r#","record":true"#, true), (r#","record":false"#, false)] {
        let text = format!(r#"{{"authentication":"None"{option}}}"#);
        let mut exchange = post(&Configured::new("front", &text).unwrap(), &path, &headers);
        exchange.headers(true);
        exchange.stream().details = Some("via_upstream".into());
        exchange.complete();
        let found = exchange.stream().state.get("modelplane.record").map(|text| text.starts_with(b","));
        assert_eq!(found, expected.then_some(true));
        if expected {
            let noted = exchange.stream().noted.clone();
            let told = ["requestId", "method", "details"].map(|name| noted[name].as_str());
            assert_eq!(told, ["a\"b", "POST", "via_upstream"]);
            assert_eq!(noted["path"], path[..1024]);
            assert!(!noted.values().any(|value| value.contains("secret")));
        }
    }
}
