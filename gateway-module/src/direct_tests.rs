//! Tests of requests without the filter of attempts, over the stand-in for Envoy.

use serde_json::{Value, json};

use crate::abi::Source;
use crate::front_tests::Files;
use crate::keys::tests::file;
use crate::names::CLIENT_PATH;
use crate::stand_in::{Configured, Exchange, counter};

const SECRET: &str = "sk-1";
const STREAM: (&str, &str) = ("content-type", "text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

/// Return a filter of requests with one key, which has more members.
fn front(test: &str, key: Value) -> Configured {
    let files = Files::new(test);
    let keys = files.write("keys.json", &String::from_utf8(file(SECRET, key)).unwrap());
    let models = files.write("models.json", r#"{"services": [{"name": "ml/qwen"}]}"#);
    let options = json!({"authentication": "APIKey", "keys": keys, "models": models, "direct": true});
    Configured::new("front", &options.to_string()).unwrap()
}

/// Return a request whose route has these lines for its endpoint.
fn ask(filter: &Configured, path: &str, lines: &str) -> Exchange {
    let own = [(":method", "POST"), (":path", path), ("x-api-key", SECRET), ("content-length", "9"), JSON];
    let mut exchange = filter.open(&own);
    exchange.stream().metadata.insert((Source::Route, "direct".into()), lines.into());
    exchange.stream().details = Some("via_upstream".into());
    exchange
}

/// Send a body, and return what goes on.
fn send(exchange: &mut Exchange, body: &str) -> String {
    exchange.headers(false);
    String::from_utf8(exchange.body(&[body.as_bytes()], false).unwrap()).unwrap()
}

#[test]
fn a_body_names_the_model_as_its_endpoint_does_if_it_has_chosen_the_service() {
    let filter = front("direct-served", json!({}));
    let ask_tokens = r#""stream":true,"stream_options":{"include_usage":true}"#;
    let chosen = r#"{"model":"qwen","stream":true}"#;
    for (path, lines, body, expected) in [
        ("/v1/chat/completions", "direct/a\n\nown", chosen, format!(r#"{{"model":"own",{ask_tokens}}}"#)),
        ("/v1/chat/completions", "direct/a\n\n", chosen, format!(r#"{{"model":"qwen",{ask_tokens}}}"#)),
        ("/v1/chat/completions", "", chosen, format!(r#"{{"model":"qwen",{ask_tokens}}}"#)),
        ("/v1/embeddings", "direct/a\n\nown", r#"{"model":"qwen"}"#, r#"{"model":"own"}"#.into()),
        ("/ml/qwen/v1/embeddings", "direct/a\n\nown", r#"{"model":"x"}"#, r#"{"model":"x"}"#.into()),
    ] {
        let mut exchange = ask(&filter, path, lines);
        assert_eq!(send(&mut exchange, body), expected, "{path} {lines:?}");
        let has_changed = body != expected;
        let length = if has_changed { expected.len().to_string() } else { "9".into() };
        assert_eq!(exchange.header("content-length").unwrap(), length, "{path} {lines:?}");
        // Only a filter of attempts needs the path.
        assert_eq!(exchange.stream().state.contains_key(CLIENT_PATH), lines.is_empty(), "{path} {lines:?}");
    }
}

#[test]
fn a_request_is_compared_with_the_regions_of_its_key() {
    let bound = json!({"regions": ["eu-west"]});
    for (key, lines, status) in [
        (&bound, "direct/a\neu-west\n", 0),
        (&bound, "direct/a\nus-east\n", 503),
        (&bound, "direct/a\n\n", 503),
        (&bound, "", 0), // the filter of attempts compares it
        (&json!({}), "direct/a\nus-east\n", 0),
    ] {
        for (path, end) in [("/ml/qwen/x", true), ("/v1/embeddings", false)] {
            let mut exchange = ask(&front("direct-regions", key.clone()), path, lines);
            exchange.headers(end);
            if !end {
                exchange.body(&[br#"{"model":"qwen"}"#], false);
            }
            let answer = exchange.answer();
            assert_eq!(answer.status, status, "{path} {lines:?}");
            assert!(status == 0 || answer.details == "region_not_allowed", "{path} {lines:?}");
        }
    }
}

#[test]
fn answers_of_the_endpoint_are_counted_and_none_of_envoys_own() {
    let filter = front("direct-counted", json!({}));
    let seen = |what: &str| {
        filter.call();
        counter(&format!("{what}}}"))
    };
    let chat = "/ml/qwen/v1/chat/completions";
    for (details, headers, end) in [
        ("via_upstream", [(":status", "200"), JSON], true),
        ("via_upstream", [(":status", "500"), JSON], true),
        ("via_upstream", [(":status", "200"), JSON], false),
        ("no_healthy_upstream", [(":status", "503"), JSON], true),
    ] {
        let mut exchange = ask(&filter, chat, "direct/counted\n\n");
        send(&mut exchange, "{}");
        exchange.stream().details = Some(details.into());
        exchange.respond(&headers, &[b"x"], end);
    }
    // An endpoint that is not named has a filter of attempts, which counts.
    let mut exchange = ask(&filter, chat, "");
    send(&mut exchange, "{}");
    exchange.respond(&[(":status", "200"), JSON], &[b"x"], true);
    let classes = ["2xx", "5xx"].map(|class| seen(&format!("answers{{direct/counted,{class}")));
    assert_eq!(classes, [2, 1]);
    assert_eq!(seen("complete_answers{direct/counted"), 2);
}

#[test]
fn a_stream_has_a_time_to_its_first_byte() {
    let filter = front("direct-stream", json!({}));
    for (pieces, trailers) in [(&[b"data: {}\n\n".as_slice()][..], true), (&[], false)] {
        let mut exchange = ask(&filter, "/ml/qwen/v1/chat/completions", "direct/stream\n\n");
        send(&mut exchange, "{}");
        exchange.respond(&[(":status", "200"), STREAM], pieces, false);
        if trailers {
            exchange.respond_trailers();
        }
    }
    filter.call();
    let bounds = ["0.02", "0.05", "0.1", "0.15", "0.2", "0.3", "0.5", "0.75", "1", "1.5", "2", "3"];
    let seen: u64 = bounds.iter().map(|bound| counter(&format!("first_byte{{direct/stream,{bound}}}"))).sum();
    assert_eq!((seen, counter("complete_answers{direct/stream}")), (2, 1));
}
