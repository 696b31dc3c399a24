//! Tests of the order of backends, alone and over the stand-in for Envoy.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::abi::Source;
use crate::front_tests::Files;
use crate::load_report::LoadReport;
use crate::mean::now;
use crate::order::Balancing;
use crate::outstanding::{self, Attempt};
use crate::stand_in::{Configured, Exchange, counter};

/// Return the choice among backends: name, weight, priority, maximum of attempts (0 for none).
fn balancing(policy: &str, backends: &[(&str, u32, u8, u64)]) -> Balancing {
    serde_json::from_value(options(policy, backends)).unwrap()
}

fn options(policy: &str, backends: &[(&str, u32, u8, u64)]) -> Value {
    let backend = |(name, weight, priority, most): &(&str, u32, u8, u64)| {
        let mut value = json!({"name": name, "weight": weight, "priority": priority});
        if *most > 0 {
            value["maxOutstandingRequests"] = json!(most);
        }
        value
    };
    json!({"policy": policy, "sessionHeader": "x-session", "backends": backends.iter().map(backend).collect::<Vec<_>>()})
}

/// Begin attempts at backends.
fn busy(counts: &[(&str, usize)]) -> Vec<Attempt> {
    let each = counts.iter().flat_map(|(name, count)| std::iter::repeat_n(*name, *count));
    each.map(|name| outstanding::of(name).begin()).collect()
}

#[test]
fn a_tier_without_room_comes_after_the_next_and_the_last_one_never_does() {
    let balancing = balancing("Weighted", &[("s/own", 1, 0, 2), ("s/region", 1, 3, 1), ("s/last", 1, 9, 1)]);
    for (counts, expected, overflows) in [
        (&[][..], ["s/own", "s/region", "s/last"], false),
        (&[("s/own", 1), ("s/region", 1)], ["s/own", "s/last", "s/region"], false),
        (&[("s/own", 2)], ["s/region", "s/last", "s/own"], true),
        (&[("s/own", 2), ("s/region", 1)], ["s/last", "s/own", "s/region"], true),
        (&[("s/own", 5), ("s/region", 5), ("s/last", 5)], ["s/last", "s/own", "s/region"], true),
    ] {
        let attempts = busy(counts);
        assert_eq!(balancing.shown(None), (expected.to_vec(), overflows), "{counts:?}");
        drop(attempts);
    }
}

#[test]
fn a_backend_without_room_comes_after_all_others_whatever_the_policy() {
    for policy in ["Weighted", "LeastRequests", "Session", "Prefix", "TimeToFirstByte"] {
        let balancing = balancing(policy, &[("f/a", 1000, 0, 1), ("f/b", 1, 0, 1), ("f/next", 1, 1, 0)]);
        let attempts = busy(&[("f/a", 1)]);
        for affinity in 0..20 {
            assert_eq!(balancing.shown(Some(affinity)).0, ["f/b", "f/next", "f/a"], "{policy}");
        }
        drop(attempts);
    }
}

#[test]
fn weights_are_exact_and_a_request_asks_three_of_a_tier() {
    let weights = [("w/a", 5), ("w/b", 3), ("w/c", 1), ("w/d", 1)];
    let balancing = balancing("Weighted", &weights.map(|(name, weight)| (name, weight, 0, 0)));
    let mut first: HashMap<String, f64> = HashMap::new();
    for _ in 0..10_000 {
        let names = balancing.shown(None).0;
        assert!(names.len() == 3 && names[0] != names[1] && names[0] != names[2] && names[1] != names[2]);
        *first.entry(names[0].to_string()).or_default() += 1.0;
    }
    for (name, weight) in weights {
        // Six standard deviations of 10,000 draws.
        assert!((first[name] - 1000.0 * f64::from(weight)).abs() < 300.0, "{first:?}");
    }
}

#[test]
fn the_fewest_requests_in_progress_come_first_relative_to_weights() {
    let balancing = balancing("LeastRequests", &[("l/a", 1, 0, 0), ("l/b", 1, 0, 0), ("l/heavy", 4, 0, 0)]);
    let attempts = busy(&[("l/a", 1), ("l/heavy", 3)]);
    // A share of 2 of one, 1 of one, and 4 of four.
    let first: Vec<_> = (0..50).map(|_| balancing.shown(None).0[0]).collect();
    assert!(first.contains(&"l/b") && first.contains(&"l/heavy") && !first.contains(&"l/a"));
    drop(attempts);
    assert_eq!(balancing.shown(None).0[0], "l/heavy");
}

#[test]
fn what_has_an_affinity_stays_until_the_bound_and_moves_only_with_its_backend() {
    let names: Vec<String> = (0..5).map(|number| format!("c/{number}")).collect();
    let of = |names: &[String]| {
        let backends: Vec<_> = names.iter().map(|name| (name.as_str(), 1, 0, 0)).collect();
        balancing("Session", &backends)
    };
    let all = of(&names);
    let fewer = of(&names[..4]);
    let mut shares: HashMap<&str, usize> = HashMap::new();
    for affinity in 0..5_000_u64 {
        let affinity = affinity.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let order = all.shown(Some(affinity)).0;
        assert_eq!(order, all.shown(Some(affinity)).0);
        *shares.entry(order[0]).or_default() += 1;
        let expected = order.iter().find(|name| **name != "c/4").unwrap();
        assert_eq!(fewer.shown(Some(affinity)).0[0], *expected);
    }
    assert!(shares.values().all(|share| (900..1100).contains(share)), "{shares:?}");
    let usual = all.shown(Some(7)).0[0].to_string();
    let mut attempts = vec![];
    let mut asked: HashMap<String, usize> = HashMap::new();
    for _ in 0..40 {
        let name = all.shown(Some(7)).0[0].to_string();
        attempts.extend(busy(&[(&name, 1)]));
        *asked.entry(name).or_default() += 1;
    }
    // The fifth part of 40, and a quarter more.
    assert!(asked.values().all(|count| *count <= 10) && asked[&usual] == 10, "{asked:?}");
    drop(attempts);
    assert_eq!(all.shown(Some(7)).0[0], usual);
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let backend = json!({"name": "r/a"});
    for wrong in [
        json!({}),
        json!({"backends": [backend, backend]}),
        json!({"backends": [{"name": "r/a", "weight": 0}]}),
        json!({"backends": [backend], "policy": "Other"}),
        json!({"backends": [backend], "other": 1}),
    ] {
        assert!(serde_json::from_value::<Balancing>(wrong.clone()).is_err(), "{wrong}");
    }
    let empty: Balancing = serde_json::from_value(json!({"backends": []})).unwrap();
    assert_eq!(empty.shown(None).0, [""; 0]);
}

/// Return the filters of requests and of attempts, for a service `ml/qwen` with a policy.
fn filters(test: &str, options: Value) -> (Configured, Configured) {
    let file = json!({"services": {"ml/qwen": {"balancing": options}}}).to_string();
    let services = Files::new(test).write("services.json", &file);
    let front = json!({"authentication": "None", "services": services, "maxBodyBytes": 5000}).to_string();
    (Configured::new("front", &front).unwrap(), Configured::new("backend", "{}").unwrap())
}

fn request(filter: &Configured, path: &str, more: &[(&str, &str)]) -> Exchange {
    let own = [(":method", "POST"), (":path", path), ("content-type", "application/json")];
    filter.open(&[&own, more].concat())
}

/// Begin an attempt at a backend.
fn attempt(filter: &Configured, backend: &str) -> Exchange {
    let mut exchange = request(filter, "/ml/qwen/x", &[]);
    at(&mut exchange, backend);
    assert!(exchange.headers(true));
    exchange
}

/// Say which backend an attempt is at.
fn at(exchange: &mut Exchange, backend: &str) {
    let key = (Source::Cluster, "modelplane.usage:name".to_string());
    exchange.stream().metadata.insert(key, backend.into());
}

#[test]
fn attempts_count_until_their_filter_ends_and_the_next_tier_is_asked_meanwhile() {
    let (front, backend) =
        filters("saturated", options("Weighted", &[("o/own", 1, 0, 2), ("o/next", 1, 1, 0)]));
    let order = |path: &str| {
        let mut exchange = request(&front, path, &[]);
        assert!(exchange.headers(true));
        (exchange.order(), exchange.stream().routed)
    };
    let usual = (vec!["o/own".to_string(), "o/next".to_string()], 1);
    let mut attempts = vec![attempt(&backend, "o/own"), attempt(&backend, "o/other")];
    assert_eq!(order("/ml/qwen/x"), usual);
    attempts.push(attempt(&backend, "o/own"));
    assert_eq!(order("/ml/qwen/x"), (vec!["o/next".to_string(), "o/own".to_string()], 1));
    assert_eq!(counter("overflowed{ml/qwen}"), 1);
    assert_eq!(order("/ml/other/x"), (vec![], 0));
    // A retry ends the attempt before; a filter may end without any hook.
    let again = backend.again(attempts.remove(0));
    assert_eq!(order("/ml/qwen/x"), usual);
    drop((again, attempts));
    assert_eq!(outstanding::of("o/own").now(), 0);
    assert_eq!(counter("overflowed{ml/qwen}"), 1);
}

#[test]
fn the_first_attempt_is_begun_with_the_order_and_counts_once() {
    let (front, backend) =
        filters("reserved", options("Weighted", &[("v/own", 1, 0, 1), ("v/next", 1, 1, 0)]));
    let count = || (outstanding::of("v/own").now(), outstanding::of("v/next").now());
    let mut asked = request(&front, "/ml/qwen/x", &[]);
    assert!(asked.headers(true));
    assert_eq!(count(), (1, 0));
    let mut first = request(&backend, "/ml/qwen/x", &[]);
    at(&mut first, "v/own");
    first.stream().state = asked.stream().state.clone();
    assert!(first.headers(true));
    assert_eq!(count(), (1, 0));
    let mut second = backend.again(first);
    at(&mut second, "v/next");
    assert!(second.headers(true));
    assert_eq!(count(), (0, 1));
    asked.complete();
    drop(second);
    assert_eq!(count(), (0, 0));
    // A request that is asked nowhere, and one whose route leads elsewhere.
    let mut asked = request(&front, "/ml/qwen/x", &[]);
    assert!(asked.headers(true));
    drop(asked);
    assert_eq!(count(), (0, 0));
    let mut asked = request(&front, "/ml/qwen/x", &[]);
    assert!(asked.headers(true));
    let mut elsewhere = request(&backend, "/ml/qwen/x", &[]);
    at(&mut elsewhere, "v/next");
    elsewhere.stream().state = asked.stream().state.clone();
    assert!(elsewhere.headers(true));
    assert_eq!(count(), (0, 1));
}

#[test]
fn a_session_is_that_of_the_header_and_a_prompt_that_of_the_body() {
    let names: Vec<String> = (0..16).map(|number| format!("a/{number}")).collect();
    let backends: Vec<_> = names.iter().map(|name| (name.as_str(), 1, 0, 0)).collect();
    let (front, _) = filters("session", options("Session", &backends));
    let session = |more: &[(&str, &str)]| {
        let mut exchange = request(&front, "/ml/qwen/x", more);
        assert!(exchange.headers(false));
        exchange.order()[0].clone()
    };
    let orders: Vec<_> = (0..20).map(|_| session(&[("x-session", "one")])).collect();
    assert!(orders.iter().all(|name| *name == orders[0]));
    let others: Vec<_> = (0..20).map(|number| session(&[("x-session", &number.to_string())])).collect();
    assert!(others.iter().any(|name| *name != others[0]));

    let (front, _) = filters("prefix", options("Prefix", &backends));
    let prompt = |body: &str, more: &[(&str, &str)]| {
        let mut exchange = request(&front, "/ml/qwen/v1/embeddings", more);
        if exchange.headers(false) {
            return Some(exchange.order()[0].clone());
        }
        let sent = exchange.body(&[body.as_bytes()], false)?;
        assert_eq!(sent, body.as_bytes());
        Some(exchange.order()[0].clone())
    };
    let orders: Vec<_> =
        (0..20).map(|seed| prompt(&format!(r#"{{"seed":{seed},"input":"one"}}"#), &[])).collect();
    assert!(orders.iter().all(|name| *name == orders[0] && name.is_some()));
    // What is not read for its model goes on whatever it is, and one too long does not.
    assert!(prompt("[not JSON", &[]).is_some());
    assert!(prompt("x", &[("content-encoding", "gzip")]).is_some());
    assert!(prompt(&"x".repeat(5001), &[]).is_none());
}

#[test]
fn the_order_of_many_backends_takes_little_time() {
    let names: Vec<String> = (0..1024).map(|number| format!("m/{number}")).collect();
    let backends: Vec<_> = names.iter().map(|name| (name.as_str(), 1, 0, 0)).collect();
    for policy in ["Weighted", "LeastRequests", "Session", "TimeToFirstByte"] {
        let balancing = balancing(policy, &backends);
        for name in &names {
            let observed = &outstanding::of(name).observed;
            observed.reported(LoadReport { queued: Some(1.0), used: Some(0.5) }, now());
            observed.answered(Duration::from_millis(50), now());
        }
        let start = std::time::Instant::now();
        for affinity in 0..100 {
            assert_eq!(balancing.shown(Some(affinity)).0.len(), 3);
        }
        let each = start.elapsed() / 100;
        println!("{policy}: {each:?}");
        // Generous, for an unoptimized build on a busy machine.
        assert!(each.as_millis() < 20, "{policy}: {each:?}");
    }
}
