//! Tests of what a key asks for beyond its own gateway: regions, and limits that the rate limit service counts.

use serde_json::{Value, json};

use crate::abi::Source;
use crate::front_tests::Files;
use crate::keys::tests::file;
use crate::stand_in::{Configured, Exchange};

const SECRET: &str = "sk-1";

/// Return a filter of requests with one key, which has more members, and a service `ml/qwen`.
fn front(test: &str, key: Value, service: Value, more: Value) -> Configured {
    let files = Files::new(test);
    let keys = files.write("keys.json", &String::from_utf8(file(SECRET, key)).unwrap());
    let services = files.write("services.json", &json!({"services": {"ml/qwen": service}}).to_string());
    let mut options = json!({"authentication": "APIKey", "keys": keys, "services": services});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Configured::new("front", &options.to_string()).unwrap()
}

fn ask(filter: &Configured) -> Exchange {
    filter.open(&[(":method", "GET"), (":path", "/ml/qwen/x"), ("x-api-key", SECRET)])
}

fn backends() -> Value {
    json!({"backends": [
        {"name": "k/here", "priority": 0, "region": "eu-west"},
        {"name": "k/there", "priority": 0, "region": "us-east", "weight": 1000},
        {"name": "k/paid", "priority": 1, "region": "eu-north"},
        {"name": "k/nowhere", "priority": 2},
    ]})
}

#[test]
fn a_bound_request_asks_only_backends_in_its_regions() {
    let (eu, all) = (json!(["eu-west", "eu-north"]), json!({}));
    for (test, key, service, expected) in [
        ("two-tiers", json!({"regions": eu}), json!({"bound": backends()}), vec!["k/here", "k/paid"]),
        ("own-choice", json!({"regions": eu}), json!({"balancing": backends()}), vec!["k/here", "k/paid"]),
        ("last-tier", json!({"regions": ["eu-north"]}), json!({"bound": backends()}), vec!["k/paid"]),
        ("unbound", all, json!({"bound": backends()}), vec![]),
    ] {
        let mut exchange = ask(&front(test, key, service, json!({})));
        assert!(exchange.headers(true), "{test}");
        assert_eq!(exchange.order(), expected, "{test}");
        assert_eq!(exchange.stream().state.contains_key("modelplane.regions"), test != "unbound", "{test}");
    }
}

#[test]
fn a_bound_request_without_a_backend_in_its_regions_is_refused() {
    for (test, regions) in [("elsewhere", json!(["eu-south"])), ("none-granted", json!([]))] {
        let mut exchange =
            ask(&front(test, json!({"regions": regions}), json!({"bound": backends()}), json!({})));
        assert!(!exchange.headers(true));
        let answer = exchange.answer();
        assert_eq!((answer.status, answer.details.as_str()), (503, "region_not_allowed"), "{test}");
        assert_eq!(answer.headers["retry-after"], "5");
        assert!(
            answer.error()["message"].as_str().unwrap().starts_with("no endpoint of ml/qwen is in a region")
        );
    }
}

#[test]
fn each_attempt_is_compared_with_the_regions_whatever_its_route_was() {
    let backend = Configured::new("backend", "{}").unwrap();
    for (regions, region, status) in [
        (Some(",eu-west,eu-north,"), "eu-north", 0),
        (Some(",eu-west,"), "eu-westward", 503),
        (Some(",eu-west,"), "eu", 503),
        (Some(",eu-west,"), "", 503),
        (Some(","), "", 503),
        (Some(","), "eu-west", 503),
        (None, "", 0),
        (None, "us-east", 0),
    ] {
        let mut exchange = ask(&backend);
        exchange.stream().metadata.insert((Source::Cluster, "region".into()), region.into());
        if let Some(regions) = regions {
            exchange.stream().state.insert("modelplane.regions".into(), regions.into());
        }
        assert_eq!(exchange.headers(true), status == 0, "{regions:?} {region}");
        assert_eq!(exchange.answer().status, status, "{regions:?} {region}");
    }
}

#[test]
fn the_name_of_a_region_cannot_be_two() {
    for name in ["", "eu-west,us-east"] {
        let text = file(SECRET, json!({"regions": [name]}));
        assert!(crate::keys::Keys::parse(&text, None).unwrap_err().contains("not the name of a region"));
    }
}

/// Return a filter that leaves the limits of a key to the rate limit service.
fn global(test: &str) -> Configured {
    let key = json!({"globalLimits": true, "requestsPerMinute": 2, "tokensPerMinute": 100, "streams": 9});
    front(test, key, json!({}), json!({"globalLimits": true}))
}

fn limit(units: u64) -> Value {
    json!({"id": "ml/ci", "requests_per_unit": units as f64, "unit": "MINUTE"})
}

#[test]
fn global_limits_are_handed_over_and_do_not_count_here() {
    let filter = global("handed-over");
    for _ in 0..5 {
        let mut exchange = ask(&filter);
        assert!(exchange.headers(true));
        let expected = json!({"key_requests": limit(2), "key_tokens": limit(99)});
        assert_eq!(exchange.stream().dynamic["modelplane.limits"], expected);
    }
}

#[test]
fn without_the_service_global_limits_count_here() {
    let key = json!({"globalLimits": true, "requestsPerMinute": 2});
    let filter = front("no-service", key, json!({}), json!({}));
    let passed: Vec<bool> = (0..3).map(|_| ask(&filter).headers(true)).collect();
    assert_eq!(passed, [true, true, false]);
}

#[test]
fn streams_of_a_key_with_global_limits_count_here() {
    let filter = front(
        "streams",
        json!({"globalLimits": true, "streams": 0}),
        json!({}),
        json!({"globalLimits": true}),
    );
    let mut exchange = ask(&filter);
    assert!(!exchange.headers(true));
    assert!(exchange.stream().dynamic.is_empty());
}

#[test]
fn the_tokens_of_an_answer_are_taken_at_its_end() {
    let filter = global("charged");
    let mut exchange = ask(&filter);
    assert!(exchange.headers(true));
    let usage = br#"{"usage":{"prompt_tokens":11,"completion_tokens":22,"total_tokens":33}}"#;
    exchange.respond(&[(":status", "200"), ("content-type", "application/json")], &[usage], true);
    exchange.complete();
    let limits = &exchange.stream().dynamic["modelplane.limits"];
    assert_eq!((&limits["tokens"], &limits["charge"]), (&json!(33.0), &json!({"key_tokens": "ml/ci"})));
    assert_eq!(limits["key_tokens"], limit(99));
    // An answer without tokens takes none.
    let mut exchange = ask(&filter);
    assert!(exchange.headers(true));
    exchange.respond(&[(":status", "500")], &[b"no"], true);
    exchange.complete();
    assert!(exchange.stream().dynamic["modelplane.limits"].get("charge").is_none());
}

/// Answer as Envoy's filter does, and return the answer that the client gets: headers by name, and body.
fn decided(exchange: &mut Exchange, details: &str, limit: &str) -> (Value, String) {
    exchange.stream().details = Some(details.into());
    let decision =
        [("x-ratelimit-limit", limit), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "42")];
    let headers = [&[(":status", "429"), ("content-type", "text/plain")], &decision[..]].concat();
    let body = exchange.respond(&headers, &[b"Envoy's own"], true);
    let named = exchange
        .stream()
        .response
        .iter()
        .map(|(name, value)| (name.clone(), String::from_utf8(value.clone()).unwrap()));
    (json!(named.collect::<std::collections::BTreeMap<_, _>>()), String::from_utf8(body).unwrap())
}

#[test]
fn a_refusal_of_the_service_is_that_of_a_limit() {
    let filter = global("refused-by-service");
    for (limit, kind, units) in [("2, 2;w=60, 99;w=60", "requests", "2"), ("99, 2;w=60", "tokens", "100")] {
        let mut exchange = ask(&filter);
        assert!(exchange.headers(true));
        let (headers, body) = decided(&mut exchange, "request_rate_limited", limit);
        let expected = json!({
            ":status": "429", "content-type": "application/json", "content-length": body.len().to_string(),
            "retry-after": "42", format!("x-ratelimit-limit-{kind}"): units,
            format!("x-ratelimit-remaining-{kind}"): "0", format!("x-ratelimit-reset-{kind}"): "42",
        });
        assert_eq!(headers, expected);
        let error = serde_json::from_str::<Value>(&body).unwrap()["error"].clone();
        assert_eq!((&error["code"], &error["type"]), (&json!("rate_limit_exceeded"), &json!(kind)));
        exchange.complete();
        assert_eq!(exchange.stream().noted["error"], "rate_limit_exceeded");
    }
}

#[test]
fn an_answer_that_is_no_refusal_only_loses_the_headers_of_the_service() {
    let mut exchange = ask(&global("not-refused"));
    assert!(exchange.headers(true));
    let (headers, body) = decided(&mut exchange, "via_upstream", "2, 2;w=60");
    assert_eq!(headers, json!({":status": "429", "content-type": "text/plain"}));
    assert_eq!(body, "Envoy's own");
}
