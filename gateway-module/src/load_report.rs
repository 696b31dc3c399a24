//! Load that an engine reports with an answer: ORCA, the header `endpoint-load-metrics`.
//!
//! The formats are those of the ORCA specification: `JSON {...}`, `TEXT NAME=VALUE, ...` and `BIN`, an encoded
//! `xds.data.orca.v3.OrcaLoadReport` in base64. Names are those of vLLM and Triton. The bytes are an engine's: a report
//! that cannot be read is none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Maximum of a report's bytes; a longer one is not read.
const MOST_BYTES: usize = 4096;

/// Maximum of requests in a queue; more count as this.
const MOST_QUEUED: f64 = 1e6;

const NAMED: &str = "named_metrics.";

/// Load of one engine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LoadReport {
    /// Requests that wait for the engine.
    pub queued: Option<f32>,
    /// Part of the engine in use, 0 to 1: of what it says itself, else of the memory for the prompts in progress.
    pub used: Option<f32>,
}

#[derive(Debug, Default, Deserialize)]
struct Metrics {
    #[serde(alias = "applicationUtilization")]
    application_utilization: Option<f64>,
    #[serde(default, alias = "namedMetrics")]
    named_metrics: Named,
}

#[derive(Debug, Default, Deserialize)]
struct Named {
    num_requests_waiting: Option<f64>,
    kv_cache_usage_perc: Option<f64>,
    kv_cache_utilization: Option<f64>,
}

impl LoadReport {
    /// Read the value of the header; None if it says nothing that counts.
    pub fn read(value: &[u8]) -> Option<Self> {
        if value.len() > MOST_BYTES {
            return None;
        }
        let (format, content) = value.split_at_checked(value.iter().position(|byte| *byte == b' ')?)?;
        let content = content.trim_ascii();
        let metrics = match format.to_ascii_uppercase().as_slice() {
            b"JSON" => serde_json::from_slice(content).ok(),
            b"TEXT" => Metrics::of_text(std::str::from_utf8(content).ok()?),
            b"BIN" => Metrics::of_message(&STANDARD.decode(content).ok()?),
            _ => None,
        }?;
        metrics.report()
    }
}

impl Metrics {
    fn of_text(text: &str) -> Option<Self> {
        let mut metrics = Metrics::default();
        for pair in text.split(',') {
            let (name, value) = pair.split_once(['=', ':'])?;
            metrics.set(name.trim(), value.trim().parse().ok()?);
        }
        Some(metrics)
    }

    /// Read an encoded message: field 9, and the map of field 8.
    fn of_message(mut rest: &[u8]) -> Option<Self> {
        let mut metrics = Metrics::default();
        while let Some((number, value)) = field(&mut rest)? {
            match (number, value) {
                (9, Value::Double(value)) => metrics.application_utilization = Some(value),
                (8, Value::Bytes(mut entry)) => {
                    let (mut name, mut number) = (&b""[..], 0.0);
                    while let Some(member) = field(&mut entry)? {
                        match member {
                            (1, Value::Bytes(text)) => name = text,
                            (2, Value::Double(value)) => number = value,
                            _ => {}
                        }
                    }
                    metrics.set(&format!("{NAMED}{}", String::from_utf8_lossy(name)), number);
                }
                _ => {}
            }
        }
        Some(metrics)
    }

    fn set(&mut self, name: &str, value: f64) {
        let named = &mut self.named_metrics;
        let known = match name.strip_prefix(NAMED) {
            Some("num_requests_waiting") => &mut named.num_requests_waiting,
            Some("kv_cache_usage_perc") => &mut named.kv_cache_usage_perc,
            Some("kv_cache_utilization") => &mut named.kv_cache_utilization,
            None if name == "application_utilization" => &mut self.application_utilization,
            _ => return,
        };
        *known = Some(value);
    }

    fn report(self) -> Option<LoadReport> {
        let within =
            |most: f64| move |value: f64| (value.is_finite() && value >= 0.0).then(|| value.min(most) as f32);
        let named = self.named_metrics;
        let used = self.application_utilization.or(named.kv_cache_usage_perc).or(named.kv_cache_utilization);
        let report = LoadReport {
            queued: named.num_requests_waiting.and_then(within(MOST_QUEUED)),
            used: used.and_then(within(1.0)),
        };
        (report != LoadReport::default()).then_some(report)
    }
}

/// Value of a field in protobuf's wire format.
enum Value<'a> {
    Double(f64),
    Bytes(&'a [u8]),
    Other,
}

/// Take a field with its number. The inner None is the end, the outer one says that there is no such format.
fn field<'a>(rest: &mut &'a [u8]) -> Option<Option<(u64, Value<'a>)>> {
    if rest.is_empty() {
        return Some(None);
    }
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => varint(rest).map(|_| Value::Other)?,
        1 => Value::Double(f64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(take(rest, length)?)
        }
        5 => take(rest, 4).map(|_| Value::Other)?,
        _ => return None,
    };
    Some(Some((tag >> 3, value)))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Return a report in the form `BIN`, with utilization and a queue of some length.
    pub fn binary(used: f64, queued: f64) -> Vec<u8> {
        let name = b"num_requests_waiting";
        let mut entry = vec![0x0a, name.len() as u8];
        entry.extend_from_slice(name);
        entry.push(0x11);
        entry.extend_from_slice(&queued.to_le_bytes());
        // An integer and a fixed one of fields that do not count, then fields 9 and 8.
        let mut message = vec![0x18, 0xac, 0x02, 0x5d, 0, 0, 0, 0, 0x49];
        message.extend_from_slice(&used.to_le_bytes());
        message.extend_from_slice(&[0x42, entry.len() as u8]);
        message.extend_from_slice(&entry);
        [b"BIN ", STANDARD.encode(message).as_bytes()].concat()
    }

    #[test]
    fn each_format_says_the_same() {
        let expected = Some(LoadReport { queued: Some(3.0), used: Some(0.5) });
        for text in [
            r#"JSON {"named_metrics": {"kv_cache_usage_perc": 0.5, "num_requests_waiting": 3.0, "x": 1}}"#,
            r#"json {"applicationUtilization":0.5,"namedMetrics":{"num_requests_waiting":3},"eps":1}"#,
            "TEXT named_metrics.kv_cache_usage_perc=0.5, named_metrics.num_requests_waiting=3.0",
            "TEXT cpu_utilization=0.9,named_metrics.kv_cache_utilization:0.5,named_metrics.num_requests_waiting:3",
            // What the engine says of itself comes before its memory.
            "TEXT application_utilization=0.5,named_metrics.kv_cache_usage_perc=1,named_metrics.num_requests_waiting=3",
        ] {
            assert_eq!(LoadReport::read(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(LoadReport::read(&binary(0.5, 3.0)), expected);
    }

    #[test]
    fn what_is_not_a_load_does_not_count() {
        let long = format!("TEXT named_metrics.num_requests_waiting=3,x={}", "1".repeat(5_000));
        for text in [
            "",
            "JSON",
            "JSON {}",
            "JSON []",
            "JSON {\"named_metrics\":{\"num_requests_waiting\":\"3\"}}",
            "JSON {\"named_metrics\":{\"num_requests_waiting\":3,\"num_requests_waiting\":4}}",
            "JSON {\"named_metrics\":{\"num_requests_waiting\":1e999}}",
            "TEXT named_metrics.num_requests_waiting",
            "TEXT named_metrics.num_requests_waiting=-1",
            "TEXT named_metrics.num_requests_waiting=nan",
            "TEXT named_metrics.num_requests_waiting=inf",
            "TEXT num_requests_waiting=3",
            "TEXT cpu_utilization=0.3",
            "BIN ////",
            "BIN not base64",
            "OTHER named_metrics.num_requests_waiting=3",
            "named_metrics.num_requests_waiting=3",
            &long,
        ] {
            assert_eq!(LoadReport::read(text.as_bytes()), None, "{text}");
        }
        let bounded =
            LoadReport::read(b"TEXT named_metrics.num_requests_waiting=1e300,application_utilization=7");
        assert_eq!(bounded, Some(LoadReport { queued: Some(1e6), used: Some(1.0) }));
    }
}
