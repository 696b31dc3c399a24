//! Regions to which the requests of a key may go.
//!
//! The filter of requests orders only backends in these regions, and hands the regions over as a filter state. The
//! filter of attempts compares each attempt with them, so that nothing else decides where a prompt goes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use crate::abi::{Source, Stream};
use crate::errors::{REGION_NOT_ALLOWED, Refusal};
use crate::names::{BOUND, REGION, REWRITE};

/// Stands between regions; no name of one has it.
const SEPARATOR: char = ',';

/// True once any request was bound: most gateways bind none, and attempts need not look.
static ANY: AtomicBool = AtomicBool::new(false);

/// Regions, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeSet<String>")]
pub struct Regions {
    names: BTreeSet<String>,
    state: String,
}

impl TryFrom<BTreeSet<String>> for Regions {
    type Error = String;

    fn try_from(names: BTreeSet<String>) -> Result<Self, String> {
        if let Some(name) = names.iter().find(|name| name.is_empty() || name.contains(SEPARATOR)) {
            return Err(format!("regions: {name:?} is not the name of a region"));
        }
        let mut state = String::from(SEPARATOR);
        for name in &names {
            state.push_str(name);
            state.push(SEPARATOR);
        }
        Ok(Regions { names, state })
    }
}

impl Regions {
    /// Return whether requests may go to a region; a backend without one is outside every region.
    pub fn contain(&self, region: Option<&str>) -> bool {
        region.is_some_and(|region| self.names.contains(region))
    }

    /// Bind all attempts at a request to these regions.
    pub fn bind(&self, stream: &mut Stream) {
        ANY.store(true, Ordering::Relaxed); // read by the same thread, which also attempts the request
        stream.set_state(BOUND, self.state.as_bytes());
    }

    /// Refuse a request of which no backend is in these regions.
    pub fn refusal(&self, service: &str) -> Refusal {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let only = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        let message = format!(
            "no endpoint of {service} is in a region that this API key allows ({only}): try again later, or ask \
             the owner of the key"
        );
        Refusal::later(&REGION_NOT_ALLOWED, message)
    }
}

/// Refuse an attempt at a cluster outside the regions of its request.
pub fn check(stream: &Stream) -> Result<(), Refusal> {
    if !ANY.load(Ordering::Relaxed) {
        return Ok(());
    }
    let Some(bound) = stream.state(BOUND) else { return Ok(()) };
    let region = stream.metadata(Source::Cluster, REWRITE, REGION);
    let allowed = |name: &[u8]| !name.is_empty() && name == region;
    if bound.split(|byte| *byte == SEPARATOR as u8).any(allowed) { Ok(()) } else { Err(outside()) }
}

/// Refuse an attempt outside the regions of its request.
pub fn outside() -> Refusal {
    let message = "the endpoint is in no region that this API key allows: ask the owner of the key";
    Refusal::later(&REGION_NOT_ALLOWED, message.into())
}
