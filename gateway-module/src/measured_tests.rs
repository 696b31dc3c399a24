//! Tests of what backends report and how fast they answer, alone and over the stand-in for Envoy.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::abi::Source;
use crate::endpoint::{BOUNDS_MS, bound};
use crate::front_tests::Files;
use crate::load_report::LoadReport;
use crate::mean::now;
use crate::names::{LOAD, LOAD_FORMAT};
use crate::order::Balancing;
use crate::outstanding::{self, Attempt, Outstanding};
use crate::stand_in::{Configured, Exchange, counter};

fn balancing(policy: &str, backends: Value) -> Balancing {
    serde_json::from_value(json!({"policy": policy, "backends": backends})).unwrap()
}

fn report(queued: f32, used: f32) -> LoadReport {
    LoadReport { queued: Some(queued), used: Some(used) }
}

/// Begin attempts at a backend.
fn busy(name: &str, count: usize) -> Vec<Attempt> {
    (0..count).map(|_| outstanding::of(name).begin()).collect()
}

#[test]
fn reports_weigh_requests_and_count_only_while_they_are_recent() {
    let balancing = balancing("LeastRequests", json!([{"name": "p/a"}, {"name": "p/b"}]));
    let (a, b) = (outstanding::of("p/a"), outstanding::of("p/b"));
    let at = 1_000_000;
    let attempts = busy("p/a", 2);
    assert_eq!(balancing.shown_at(None, at).0[0], "p/b");
    // 1 request at an engine that is 80 % full is more than 3 at one that is half full.
    a.observed.reported(report(0.0, 0.5), at);
    b.observed.reported(report(0.0, 0.9), at);
    assert_eq!(balancing.shown_at(None, at).0[0], "p/a");
    // One that says it is full still has a tenth.
    b.observed.reported(report(0.0, 1.0), at);
    drop(attempts);
    assert_eq!(balancing.shown_at(None, at).0[0], "p/a");
    let attempts = busy("p/a", 30);
    assert_eq!(balancing.shown_at(None, at).0[0], "p/b");
    drop(attempts);
    // An engine's queue counts as requests do.
    let later = at + 10_000;
    a.observed.reported(report(3.0, 0.0), later);
    let attempts = busy("p/b", 2);
    assert_eq!(balancing.shown_at(None, later).0[0], "p/b");
    let more = busy("p/b", 2);
    assert_eq!(balancing.shown_at(None, later).0[0], "p/a");
    drop((attempts, more));
    assert_eq!(balancing.shown_at(None, later).0[0], "p/b");
    let attempts = busy("p/b", 1);
    assert_eq!(balancing.shown_at(None, later + 7_000).0[0], "p/a");
    drop(attempts);
}

#[test]
fn a_backend_whose_queue_is_too_long_has_no_room_until_its_report_is_old() {
    for policy in ["Weighted", "LeastRequests", "Session", "Prefix", "TimeToFirstByte"] {
        let (own, next) = (format!("q/{policy}-own"), format!("q/{policy}-next"));
        let backends = json!([{"name": own, "maxQueuedRequests": 4}, {"name": next, "priority": 1}]);
        let balancing = balancing(policy, backends);
        let backend = outstanding::of(&own);
        let at = 1_000_000;
        assert_eq!(balancing.shown_at(Some(1), at).0[0], own);
        backend.observed.reported(report(3.9, 1.0), at);
        assert_eq!(balancing.shown_at(Some(1), at), (vec![&*own, &next], false));
        backend.observed.reported(report(4.2, 0.0), at);
        assert_eq!(balancing.shown_at(Some(1), at), (vec![&*next, &own], true));
        assert_eq!(balancing.shown_at(Some(1), at + 7_000).0[0], own);
    }
}

#[test]
fn the_queues_of_several_engines_behind_one_address_are_averaged() {
    let backend = outstanding::of("q/pods");
    for now in (0..4_000).step_by(10) {
        backend.observed.reported(report(if now % 20 == 0 { 8.0 } else { 0.0 }, 0.0), now);
    }
    assert!((backend.observed.queued(4_000).unwrap() - 4.0).abs() < 0.2);
}

/// Backend in a simulation: milliseconds to the first byte, and requests that got it.
struct Simulated {
    name: String,
    outstanding: Arc<Outstanding>,
    first_byte: u64,
    count: usize,
}

/// Send one request each `interval` until `end`, and count where they go. Answers take ten times the time to their
/// first byte; `length` tells how many times as long as others a request takes.
fn simulate(
    balancing: &Balancing,
    backends: &mut [Simulated],
    (start, end): (u64, u64),
    interval: u64,
    length: impl Fn(u64) -> u64,
) {
    let mut bytes = vec![];
    let mut ends: Vec<(u64, Attempt)> = vec![];
    backends.iter_mut().for_each(|backend| backend.count = 0);
    for now in (start..end).step_by(interval as usize) {
        ends.retain(|(at, _)| *at > now);
        bytes.retain(|(at, after, outstanding): &(u64, u64, Arc<Outstanding>)| {
            if *at <= now {
                outstanding.observed.answered(Duration::from_millis(*after), *at);
            }
            *at > now
        });
        let first = balancing.shown_at(None, now).0[0].to_string();
        let chosen = backends.iter_mut().find(|backend| backend.name == first).unwrap();
        chosen.count += 1;
        let after = chosen.first_byte * length(now);
        chosen.outstanding.observed.tried(now);
        ends.push((now + 10 * after, chosen.outstanding.clone().begin()));
        bytes.push((now + after, after, chosen.outstanding.clone()));
    }
}

fn simulated(prefix: &str, times: &[u64]) -> (Balancing, Vec<Simulated>) {
    let backends = times.iter().enumerate().map(|(number, first_byte)| {
        let name = format!("{prefix}/{number}");
        Simulated { outstanding: outstanding::of(&name), name, first_byte: *first_byte, count: 0 }
    });
    let backends: Vec<_> = backends.collect();
    let names: Vec<_> = backends.iter().map(|backend| json!({"name": backend.name})).collect();
    (balancing("TimeToFirstByte", json!(names)), backends)
}

fn counts(backends: &[Simulated]) -> Vec<usize> {
    backends.iter().map(|backend| backend.count).collect()
}

#[test]
fn a_backend_that_is_slower_gets_fewer_requests_whatever_their_lengths_are() {
    // Spreads a time over all numbers, so that lengths follow no pattern.
    let random = |now: u64| (now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 100;
    // Prompts as long as each other, one in ten that takes 50 times as long, and any length up to 100 times.
    let lengths: [&dyn Fn(u64) -> u64; 3] =
        [&|_| 1, &|now| if random(now) < 10 { 50 } else { 1 }, &|now| 1 + random(now)];
    for (number, length) in lengths.into_iter().enumerate() {
        let (balancing, mut backends) = simulated(&format!("t{number}"), &[100, 200, 100]);
        simulate(&balancing, &mut backends, (0, 60_000), 50, length);
        simulate(&balancing, &mut backends, (60_000, 180_000), 50, length);
        let counts = counts(&backends);
        println!("{counts:?}");
        let fast = (counts[0] + counts[2]) / 2;
        assert!(counts[1] * 5 < fast * 4 && counts[1] * 20 > fast, "{counts:?}");
        assert!(counts[0].abs_diff(counts[2]) * 2 < fast, "{counts:?}");
    }
}

#[test]
fn a_slow_backend_is_tried_again_and_comes_back_once_it_is_fast() {
    // So few requests that none waits for another.
    let (balancing, mut backends) = simulated("r", &[10, 5_000]);
    simulate(&balancing, &mut backends, (0, 300_000), 1_000, |_| 1);
    let slow = counts(&backends)[1];
    assert!((5..=12).contains(&slow), "{:?}", counts(&backends));
    backends[1].first_byte = 10;
    simulate(&balancing, &mut backends, (300_000, 360_000), 1_000, |_| 1);
    simulate(&balancing, &mut backends, (360_000, 420_000), 1_000, |_| 1);
    assert!(counts(&backends)[1] >= 20, "{:?}", counts(&backends));
}

#[test]
fn a_backend_without_a_measurement_is_tried_once_and_then_counts_as_the_mean() {
    let (balancing, mut backends) = simulated("u", &[100, 300, 50]);
    for (backend, time) in backends.iter_mut().zip([100, 300]) {
        backend.outstanding.observed.answered(Duration::from_millis(time), 1_000);
        backend.outstanding.observed.tried(1_000);
    }
    let first = |now| balancing.shown_at(None, now).0;
    assert_eq!(first(1_000)[0], "u/2");
    let attempt = backends[2].outstanding.clone().begin();
    assert_eq!(first(1_000)[0], "u/0");
    drop(attempt);
    backends[2].outstanding.observed.tried(1_000);
    assert_eq!(first(1_000), ["u/0", "u/2", "u/1"]);
    // One that answers nothing that counts is not asked first again before long.
    assert_eq!(first(30_000)[0], "u/0");
    backends[0].outstanding.observed.answered(Duration::from_millis(100), 31_000);
    assert_eq!(first(31_002).len(), 3);
    assert!(["u/1", "u/2"].contains(&first(31_002)[0]));
}

#[test]
fn failures_count_as_slow_and_a_client_that_left_only_if_it_waited_long() {
    let backend = outstanding::of("m/failures");
    let observed = &backend.observed;
    observed.left(Duration::from_secs(20), 0);
    assert_eq!(observed.first_byte(0), None);
    for _ in 0..9 {
        observed.answered(Duration::from_millis(100), 0);
    }
    observed.left(Duration::from_millis(50), 0);
    assert!((observed.first_byte(0).unwrap() - 100.0).abs() < 0.1);
    observed.failed(0);
    let one_of_ten = observed.first_byte(0).unwrap();
    assert!((180.0..200.0).contains(&one_of_ten), "{one_of_ten}");
    observed.left(Duration::from_secs(3_600), 0);
    assert!(observed.first_byte(0).unwrap() > 1.5 * one_of_ten);
    observed.answered(Duration::ZERO, 0);
    assert!(observed.first_byte(0).unwrap().is_finite());
}

/// Return the filters of requests and of attempts for a service `ml/qwen` with backends `PREFIX/a` and `PREFIX/b`.
fn filters(prefix: &str, options: Value) -> (Configured, Configured) {
    let files = Files::new(&format!("measured-{prefix}"));
    let services =
        files.write("services.json", &json!({"services": {"ml/qwen": {"balancing": options}}}).to_string());
    let credentials =
        files.write("credentials.json", r#"{"credentials":{"paid":{"header":"authorization","value":"x"}}}"#);
    let front = json!({"authentication": "None", "services": services}).to_string();
    let backend = json!({"credentials": credentials}).to_string();
    (Configured::new("front", &front).unwrap(), Configured::new("backend", &backend).unwrap())
}

fn at(exchange: &mut Exchange, backend: &str, credential: &str) {
    let metadata = &mut exchange.stream().metadata;
    metadata.insert((Source::Cluster, "modelplane.usage:name".into()), backend.into());
    metadata.insert((Source::Cluster, "attempt".into()), format!("\n\n\n\n\n{credential}"));
}

/// Begin a request, and its first attempt at a backend.
fn ask(
    (front, backend): &(Configured, Configured),
    name: &str,
    headers: &[(&str, &str)],
) -> (Exchange, Exchange) {
    let own = [(":method", "POST"), (":path", "/ml/qwen/x")];
    let mut asked = front.open(&[&own, headers].concat());
    assert!(asked.headers(true));
    let mut attempt = backend.open(&[&own, headers].concat());
    attempt.stream().state = asked.stream().state.clone();
    at(&mut attempt, name, "");
    assert!(attempt.headers(true));
    (asked, attempt)
}

fn options(policy: &str, prefix: &str, most: Option<u32>) -> Value {
    let mut first = json!({"name": format!("{prefix}/a")});
    if let Some(most) = most {
        first["maxQueuedRequests"] = json!(most);
    }
    json!({"policy": policy, "backends": [first, {"name": format!("{prefix}/b")}]})
}

#[test]
fn an_engine_is_asked_for_its_report_which_the_client_does_not_get() {
    let filters = filters("reports", options("LeastRequests", "reports", None));
    let (_asked, mut attempt) = ask(&filters, "reports/a", &[(LOAD_FORMAT, "BIN")]);
    assert_eq!(attempt.header(LOAD_FORMAT).unwrap(), "json");
    let answer =
        [(":status", "503"), (LOAD, r#"JSON {"named_metrics":{"num_requests_waiting":7}}"#), ("x", "y")];
    attempt.respond(&answer, &[b"x"], true);
    assert_eq!(attempt.stream().response, [(":status".into(), b"503".to_vec()), ("x".into(), b"y".to_vec())]);
    assert_eq!(outstanding::of("reports/a").observed.queued(now()), Some(7.0));
    // The next attempt is at an outside provider, which gets what the client sent.
    let mut attempt = filters.1.again(attempt);
    at(&mut attempt, "reports/b", "paid");
    assert!(attempt.headers(true));
    assert_eq!(attempt.header(LOAD_FORMAT).unwrap(), "BIN");
    attempt.respond(&[(":status", "200"), (LOAD, "\u{7f}")], &[b"x"], false);
    attempt.stream().trailers = vec![(LOAD.into(), b"TEXT named_metrics.num_requests_waiting=2".to_vec())];
    attempt.respond_trailers();
    assert!(attempt.stream().trailers.is_empty() && attempt.stream().response.len() == 1);
    assert_eq!(outstanding::of("reports/b").observed.queued(now()), Some(2.0));
}

#[test]
fn a_service_that_needs_no_report_changes_nothing() {
    for (policy, most, expected) in [
        ("Session", None, None),
        ("TimeToFirstByte", None, None),
        ("Weighted", Some(3), Some("json".to_string())),
    ] {
        let prefix = format!("needs-{policy}");
        let filters = filters(&prefix, options(policy, &prefix, most));
        let (_asked, mut attempt) = ask(&filters, &format!("{prefix}/a"), &[]);
        assert_eq!(attempt.header(LOAD_FORMAT), expected, "{policy}");
        attempt.respond(&[(":status", "200"), (LOAD, "x")], &[b"x"], true);
        assert_eq!(attempt.stream().response.len(), if expected.is_some() { 1 } else { 2 });
    }
}

#[test]
fn the_time_ends_with_the_first_byte_of_the_body() {
    let filters = filters("times", options("TimeToFirstByte", "times", None));
    let time = |name: &str| outstanding::of(name).observed.first_byte(now());
    let (_asked, mut attempt) = ask(&filters, "times/a", &[]);
    attempt.respond(&[(":status", "200")], &[b"", b""], false);
    assert_eq!(time("times/a"), None);
    attempt.respond(&[(":status", "200")], &[b"x", b"y"], true);
    let first = time("times/a").unwrap();
    assert!((1.0..10_000.0).contains(&first), "{first}");
    drop(attempt);
    assert_eq!(time("times/a"), Some(first));
    // What the client did wrong is answered at once, whatever the load.
    for status in ["400", "404", "301"] {
        let (_asked, mut attempt) = ask(&filters, "times/a", &[]);
        attempt.respond(&[(":status", status)], &[b"x"], true);
        drop(attempt);
        assert_eq!(time("times/a"), Some(first), "{status}");
    }
    for status in ["429", "500", "503"] {
        let before = time("times/b").unwrap_or_default();
        let (_asked, mut attempt) = ask(&filters, "times/b", &[]);
        attempt.respond(&[(":status", status)], &[b"x"], true);
        let after = time("times/b").unwrap();
        assert!((before..70_000.0).contains(&after) && after > 50_000.0, "{status}: {after}");
    }
}

#[test]
fn only_streams_have_a_time_to_the_first_byte_for_metrics() {
    let filters = filters("metrics", options("Weighted", "metrics", None));
    let seen = |backend: &str| {
        filters.0.call();
        let bounds = (0..=BOUNDS_MS.len()).map(bound);
        bounds.map(|bound| counter(&format!("first_byte{{metrics/{backend},{bound}}}"))).sum::<u64>()
    };
    let stream = ("content-type", "text/event-stream; charset=utf-8");
    let (_asked, mut attempt) = ask(&filters, "metrics/a", &[]);
    attempt.respond(&[(":status", "200"), stream], &[b"", b""], false);
    assert_eq!(seen("a"), 0);
    attempt.respond(&[(":status", "200"), stream], &[b"x", b"y"], false);
    assert_eq!(seen("a"), 1);
    attempt.respond(&[], &[b"z"], true);
    drop(attempt);
    assert_eq!(seen("a"), 1);
    for answer in [[(":status", "200"), ("content-type", "application/json")], [(":status", "500"), stream]] {
        let (_asked, mut attempt) = ask(&filters, "metrics/a", &[]);
        attempt.respond(&answer, &[b"x"], true);
        drop(attempt);
        assert_eq!(seen("a"), 1, "{answer:?}");
    }
    // A client that leaves before the first byte has waited at least as long.
    let (_asked, mut attempt) = ask(&filters, "metrics/b", &[]);
    attempt.respond(&[(":status", "200"), stream], &[], false);
    drop(attempt);
    assert_eq!(seen("b"), 1);
}

#[test]
fn each_answer_counts_by_its_status_and_once_it_is_complete_with_its_time() {
    let filters = filters("answers", options("Weighted", "answers", None));
    let seen = |what: &str| {
        filters.0.call();
        counter(&format!("{what}}}"))
    };
    let json = ("content-type", "application/json");
    for (status, end) in [("200", true), ("200", false), ("204", true), ("429", true), ("503", true)] {
        let (_asked, mut attempt) = ask(&filters, "answers/a", &[]);
        attempt.respond(&[(":status", status), json], &[b"x"], end);
        drop(attempt);
    }
    // An attempt without an answer is none.
    let (_asked, attempt) = ask(&filters, "answers/a", &[]);
    drop(attempt);
    let classes =
        ["1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| seen(&format!("answers{{answers/a,{class}")));
    assert_eq!(classes, [0, 3, 0, 1, 1]);
    assert_eq!(seen("complete_answers{answers/a"), 4);
    assert!(seen("complete_answers_ms{answers/a") < 10_000);
}

#[test]
fn an_attempt_without_an_answer_failed_unless_its_client_left() {
    let filters = filters("gone", options("TimeToFirstByte", "gone", None));
    let time = |name: &str| outstanding::of(name).observed.first_byte(now());
    let (mut asked, attempt) = ask(&filters, "gone/a", &[]);
    asked.complete();
    drop(attempt);
    assert_eq!(time("gone/a"), None);
    let (_asked, attempt) = ask(&filters, "gone/a", &[]);
    drop(attempt);
    assert!(time("gone/a").unwrap() > 50_000.0);
}
