//! Readers of hostile bytes against generated input: they must not panic, and agree with themselves.
//!
//! `MODELPLANE_FUZZ_SECONDS` is the time for each; `MODELPLANE_FUZZ_SEED` repeats a run.

use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::events::Events;
use crate::keys::{Keys, Shares};
use crate::load_report::{self, LoadReport};
use crate::models::Models;
use crate::prompt::{Form, Prompt};
use crate::services::Services;
use crate::{credentials, multipart, paths, prefix, scan, usage};

/// Generator of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Change a text: bytes, parts of other texts, truncation.
    fn mutate(&mut self, corpus: &[&[u8]]) -> Vec<u8> {
        let mut text = corpus[self.below(corpus.len())].to_vec();
        for _ in 0..self.below(6) {
            let place = self.below(text.len() + 1);
            match self.below(6) {
                0 => text.truncate(place),
                1 => text.insert(place, self.next() as u8),
                2 if place < text.len() => text[place] = self.next() as u8,
                3 if place < text.len() => drop(text.remove(place)),
                4 => {
                    let other = corpus[self.below(corpus.len())];
                    let start = self.below(other.len());
                    let end = start + self.below(other.len() - start);
                    text.splice(place..place, other[start..end].iter().copied());
                }
                _ => text.insert(place, b"{}[]\",:\\\r\n-d u0"[self.below(15)]),
            }
        }
        text
    }

    fn pieces<'a>(&mut self, text: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = vec![];
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + self.below(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

fn fuzz(corpus: &[&[u8]], check: impl Fn(&[u8], &mut Random)) {
    let number = |name: &str, otherwise| {
        std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
    };
    let seed = number("MODELPLANE_FUZZ_SEED", 20_261_123);
    let time = Duration::from_secs(number("MODELPLANE_FUZZ_SECONDS", 0));
    let mut random = Random(seed);
    let start = Instant::now();
    let mut runs = 0;
    while runs < 2_000 || start.elapsed() < time {
        let text = random.mutate(corpus);
        check(&text, &mut random);
        runs += 1;
    }
    println!("{runs} inputs");
}

const PROMPTS: &[&[u8]] = &[
    br#"{"model":"ml/qwen","stream":true,"messages":[{"role":"user","content":"\u00e9\ud83d\ude00"}]}"#,
    br#"{"stream_options":{"include_usage":false,"x":[1,2]},"stream":true,"m\u006fdel":"a"}"#,
    br#" { "a" : { "model" : 1e9 } , "stream_options" : null , "stream" : true , "model" : "" } "#,
];

const STREAMS: &[&[u8]] = &[
    b"data: {\"choices\":[{}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n",
    b"event: message_start\r\ndata: {\"message\":{\"usage\":{\"input_tokens\":9}}}\r\n\r\ndata: [DONE]\r\n\r\n",
    b": comment\n\ndata:{\"usage\":null}\n\n\n\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":1}}\n\n",
];

#[test]
fn scanned_bodies() {
    fuzz(PROMPTS, |text, _| {
        let Ok(text) = std::str::from_utf8(text) else { return };
        let names = ["model", "stream", "stream_options"];
        let Some(found) = scan::members(text.as_bytes(), names) else { return };
        let read: std::collections::BTreeMap<String, &serde_json::value::RawValue> =
            serde_json::from_str(text).expect("the other reader reads it too");
        let scanned = found.map(|place| place.map(|place| &text[place]));
        assert_eq!(scanned, names.map(|name| read.get(name).map(|raw| raw.get())), "{text}");
    });
}

#[test]
fn bodies() {
    fuzz(PROMPTS, |text, _| {
        assert_eq!(prefix::hash_of(text), prefix::hash_of(&[text, b" "].concat()));
        let Ok(prompt) = Prompt::read(text, Form::Json) else { return };
        let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text);
        if let Ok(mut whole) = value(text) {
            whole["model"] = "a\"b".into();
            assert_eq!(value(&prompt.renamed(text, "a\"b")).unwrap(), whole);
        }
        if let (Some((place, end)), Ok(mut whole)) = (prompt.asking(text), value(text)) {
            let asking = [&text[..place], &end].concat();
            if whole["stream_options"].is_null() {
                whole["stream_options"] = serde_json::json!({});
            }
            whole["stream_options"]["include_usage"] = true.into();
            assert_eq!(value(&asking).unwrap(), whole);
            let again = Prompt::read(&asking, Form::Json).unwrap();
            assert_eq!((again.asking(&asking), &again.model), (None, &prompt.model));
        }
    });
}

#[test]
fn events() {
    fuzz(STREAMS, |text, random| {
        let read = |pieces: &[&[u8]], hide: bool| {
            let (mut events, mut out) = (Events::new(hide), vec![]);
            for (number, piece) in pieces.iter().enumerate() {
                out.extend(events.push(&[piece], number + 1 == pieces.len()).of(piece));
            }
            (events.usage, events.count, out)
        };
        let pieces = random.pieces(text);
        let (seen, hidden) = (read(&pieces, false), read(&pieces, true));
        assert_eq!(seen, read(&[text], false));
        assert_eq!(hidden, read(&[text], true));
        assert_eq!(seen.2, text);
        assert_eq!((seen.0, seen.1), (hidden.0, hidden.1));
        // Nothing is added, nothing but counts is taken, and a second reader finds none of these.
        let again = read(&[&hidden.2], true);
        assert_eq!(again.2, hidden.2);
        assert!(seen.0.is_some() || hidden.2 == text);
    });
}

#[test]
fn answers() {
    fuzz(&[STREAMS, PROMPTS].concat(), |text, random| {
        usage::value(text);
        if let Some(found) = usage::scan_event(text) {
            assert_eq!(usage::read(text), Some(found));
        }
        for kind in ["application/json", "text/event-stream"] {
            let mut answer = Answer::of(kind, random.below(2) == 0).unwrap();
            for piece in random.pieces(text) {
                answer.push(&[piece], false);
            }
            answer.count(random.next());
        }
    });
}

#[test]
fn load_reports() {
    let binary = load_report::tests::binary(0.5, 3.0);
    let corpus: &[&[u8]] = &[
        br#"JSON {"application_utilization":0.5,"named_metrics":{"num_requests_waiting":3e0,"x":1}}"#,
        b"TEXT named_metrics.kv_cache_usage_perc=0.5, named_metrics.num_requests_waiting=3.0",
        &binary,
    ];
    fuzz(corpus, |text, _| {
        let Some(report) = LoadReport::read(text) else { return };
        assert!(report.queued.is_none_or(|queued| (0.0..=1e6).contains(&queued)));
        assert!(report.used.is_none_or(|used| (0.0..=1.0).contains(&used)));
        assert_eq!(LoadReport::read(&[text, b" "].concat()), Some(report));
    });
}

#[test]
fn files() {
    let keys = crate::keys::tests::file("a", serde_json::json!({"requestsPerMinute": 5, "expires": 5}));
    let models: &[u8] = br#"{"services":[{"name":"ml/qwen"}],"aliases":[{"name":"a","service":"ml/qwen","namespaces":["*"]}]}"#;
    let credentials: &[u8] = br#"{"credentials":{"a":{"header":"api-key","value":"b"}}}"#;
    let services: &[u8] = br#"{"services":{"ml/qwen":{"balancing":{"policy":"Session","backends":[
        {"name":"fuzz/a","weight":3,"maxOutstandingRequests":8,"maxQueuedRequests":4},{"name":"fuzz/b","priority":1}]}}}}"#;
    let shares = br#"{"gateways":2}"#;
    fuzz(&[&keys, models, credentials, services, shares], |text, random| {
        if let Ok(keys) = Keys::parse(text, None) {
            assert!(Keys::parse(text, Some(&keys)).is_ok());
            keys.find(text);
        }
        if let Ok(models) = Models::parse(text, None) {
            let name = String::from_utf8_lossy(text);
            let _ = (models.resolve(&name, None), models.list(None, None), models.list(Some(&name), None));
        }
        if let Some(balancing) = Services::parse(text, None)
            .ok()
            .as_ref()
            .and_then(|services| services.get("ml/qwen")?.balancing.as_ref())
        {
            let (names, _) = balancing.shown(Some(random.next()));
            assert!((1..names.len()).all(|at| !names[..at].contains(&names[at])));
        }
        let _ = Shares::parse(text, None);
        let _ = credentials::Credentials::parse(text, None);
    });
}

#[test]
fn forms_and_paths() {
    let corpus: &[&[u8]] = &[
        b"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nml/whisper\r\n--b--\r\n",
        b"--b\r\n\r\n\r\n--b\r\nx: y\r\n\r\n\r\n--b--",
        b"multipart/form-data; boundary=\"a b\"; charset=utf-8",
        b"/ml/qwen/v1/chat?a=/b",
    ];
    fuzz(corpus, |text, random| {
        if let Ok(Some(place)) = multipart::field(text, "b", "model") {
            let prompt = Prompt::read(text, Form::Multipart("b"));
            assert_eq!(prompt.is_ok(), std::str::from_utf8(&text[place]).is_ok());
            if let Ok(prompt) = prompt {
                let renamed = prompt.renamed(text, "c");
                assert_eq!(Prompt::read(&renamed, Form::Multipart("b")).unwrap().model.unwrap(), "c");
            }
        }
        let line = String::from_utf8_lossy(text);
        Form::of(&line);
        if let Some(service) = paths::service(&line) {
            assert!(line.starts_with(&format!("/{service}")) && service.matches('/').count() == 1);
        }
        let rewrite = paths::Rewrite { strip: random.below(20), prefix: b"/v1/", overlap: b"v1" };
        assert!(rewrite.of(text).starts_with(b"/v1/"));
    });
}
