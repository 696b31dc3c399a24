//! Tests of held requests over the stand-in for Envoy.

use serde_json::json;

use crate::abi::Source;
use crate::front_tests::Files;
use crate::stand_in::{Configured, Exchange, counter};

/// Return a filter that holds requests for `ml/NAME`, within limits.
fn filter(name: &str, timeout_s: u64, max_requests: u64) -> Configured {
    let files = Files::new("hold");
    let hold = json!({"timeoutSeconds": timeout_s, "maxRequests": max_requests});
    let services = json!({"services": {format!("ml/{name}"): {"hold": hold}}});
    let services = files.write(&format!("{name}.json"), &services.to_string());
    let text = json!({"authentication": "None", "services": services, "maxBodyBytes": 1000, "record": true});
    Configured::new("front", &text.to_string()).unwrap()
}

fn post(filter: &Configured, path: &str) -> Exchange {
    let mut exchange =
        filter.open(&[(":method", "POST"), (":path", path), ("content-type", "application/json")]);
    exchange.stream().metadata.insert((Source::Route, "hold".into()), "1".into());
    exchange
}

fn gauge(name: &str) -> u64 {
    counter(&format!("held_requests{{ml/{name}}}"))
}

fn ended(name: &str, result: &str) -> u64 {
    counter(&format!("holds{{ml/{name},{result}}}"))
}

#[test]
fn a_request_waits_until_its_cluster_has_an_instance() {
    let filter = filter("released", 60, 9);
    let mut exchange = post(&filter, "/ml/released/x");
    assert!(!exchange.headers(false));
    assert_eq!(exchange.body(&[b"one ", b"two"], false), Some(vec![]));
    assert_eq!((exchange.held_body(), gauge("released")), (b"one two".to_vec(), 1));
    assert_eq!(exchange.stream().state["modelplane.held"], b"1");
    for hosts in [None, Some(0)] {
        exchange.stream().hosts = hosts;
        exchange.wake();
    }
    assert_eq!((exchange.stream().went_on, exchange.stream().routed), (0, 2));
    exchange.stream().hosts = Some(1);
    exchange.wake();
    exchange.wake();
    assert_eq!((exchange.stream().went_on, exchange.stream().answers), (1, 0));
    exchange.complete();
    assert!(exchange.stream().noted.contains_key("heldMs"));
    assert_eq!((gauge("released"), ended("released", "released")), (0, 1));
}

#[test]
fn only_a_service_with_limits_and_a_route_that_holds_requests_do_so() {
    let filter = filter("others", 60, 9);
    assert!(post(&filter, "/ml/llama/x").headers(true));
    let mut exchange = post(&filter, "/ml/others/x");
    exchange.stream().metadata.clear();
    assert!(exchange.headers(true));
    assert_eq!(exchange.wakes(), None);
}

#[test]
fn a_request_whose_body_is_read_waits_after_that() {
    let filter = filter("read", 60, 9);
    let mut exchange = post(&filter, "/ml/read/v1/chat/completions");
    assert!(!exchange.headers(false));
    assert_eq!((exchange.wakes(), gauge("read")), (None, 0));
    assert_eq!(exchange.body(&[b"{\"stream\":", b"true}"], false), Some(vec![]));
    assert_eq!(gauge("read"), 1);
    assert!(String::from_utf8(exchange.held_body()).unwrap().contains("include_usage"));
    let mut with_trailers = post(&filter, "/ml/read/v1/chat/completions");
    assert!(!with_trailers.headers(false));
    assert_eq!(with_trailers.body(&[b"{}"], true), None);
    assert_eq!((with_trailers.answer().status, gauge("read")), (0, 2));
    exchange.complete();
    with_trailers.complete();
    assert_eq!((gauge("read"), ended("read", "left")), (0, 2));
}

#[test]
fn the_time_is_limited() {
    let filter = filter("late", 0, 9);
    let mut exchange = post(&filter, "/ml/late/x");
    assert!(!exchange.headers(true));
    exchange.stream().ends_early = true;
    exchange.wake();
    let answer = exchange.answer();
    assert_eq!((answer.status, answer.details.as_str()), (503, "hold_timeout"));
    assert_eq!(answer.headers["retry-after"], "5");
    assert_eq!((gauge("late"), ended("late", "timed_out")), (0, 1));
    filter.call();
    assert_eq!(counter("refused{hold_timeout}"), 1);
}

#[test]
fn a_request_whose_hook_panics_waits_no_more() {
    let filter = filter("failed", 60, 1).that_panics_later();
    let mut exchange = post(&filter, "/ml/failed/x");
    assert!(!exchange.headers(true));
    assert_eq!(gauge("failed"), 1);
    exchange.wake();
    assert_eq!((exchange.answer().status, gauge("failed")), (500, 0));
    exchange.complete();
    drop(exchange);
    assert_eq!((gauge("failed"), ended("failed", "left")), (0, 1));
    assert!(!post(&filter, "/ml/failed/x").headers(true));
    assert_eq!(gauge("failed"), 1);
}

#[test]
fn the_number_of_requests_is_limited() {
    let filter = filter("many", 60, 2);
    let mut held: Vec<Exchange> = (0..2).map(|_| post(&filter, "/ml/many/x")).collect();
    assert!(held.iter_mut().all(|exchange| !exchange.headers(true)));
    let mut one_more = post(&filter, "/ml/many/x");
    assert!(!one_more.headers(true));
    assert_eq!((one_more.answer().status, one_more.answer().details.as_str()), (503, "too_many_held"));
    one_more.wake();
    assert_eq!(one_more.stream().answers, 1);
    drop(held.pop());
    let mut next = post(&filter, "/ml/many/x");
    assert!(!next.headers(true));
    assert_eq!(next.answer().status, 0);
}

#[test]
fn the_body_is_limited_while_the_request_waits() {
    let filter = filter("large", 60, 9);
    let mut exchange = post(&filter, "/ml/large/x");
    assert!(!exchange.headers(false));
    assert_eq!(exchange.body(&[&[b'x'; 600], &[b'x'; 600]], false), None);
    assert_eq!(exchange.answer().details, "request_too_large");
    exchange.complete();
    assert_eq!((gauge("large"), ended("large", "left")), (0, 1));
    // Once it goes on, the limit is over.
    let mut exchange = post(&filter, "/ml/large/x");
    assert!(!exchange.headers(false));
    exchange.stream().hosts = Some(1);
    exchange.wake();
    assert_eq!(exchange.body(&[&[b'x'; 1200]], false).map(|sent| sent.len()), Some(1200));
}

#[test]
fn a_thread_wakes_a_request_until_its_stream_ends() {
    let filter = filter("woken", 60, 9);
    let mut exchange = post(&filter, "/ml/woken/x");
    assert!(!exchange.headers(true));
    while exchange.wakes() < Some(2) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    exchange.stream().hosts = Some(1);
    exchange.stream().ends_early = true;
    exchange.wake();
    assert_eq!((exchange.stream().went_on, exchange.wakes()), (1, None));
}

#[test]
fn of_many_requests_one_looks_until_it_goes_on() {
    let filter = filter("turns", 60, 99);
    let mut held: Vec<Exchange> = (0..20).map(|_| post(&filter, "/ml/turns/x")).collect();
    assert!(held.iter_mut().all(|exchange| !exchange.headers(true)));
    let woken = |held: &mut Vec<Exchange>| -> usize { held.iter_mut().filter_map(Exchange::wakes).sum() };
    while woken(&mut held) < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(woken(&mut held) < 20);
    let mut first = held.pop().unwrap();
    first.stream().hosts = Some(1);
    first.wake();
    while held.iter_mut().any(|exchange| exchange.wakes() == Some(0)) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
