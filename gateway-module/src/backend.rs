//! Filter `backend`, below the router: form of a request for the backend of one attempt.
//!
//! All attempts at a request share its headers. Each one therefore starts from what the client sent: the filter `front`
//! keeps the path as a filter state, else the first attempt, and one that replaces another header keeps that.

use std::sync::Arc;

use crate::abi::{Headers, Setup, Source, Stream, log_error};
use crate::config::{Backend, SPARE_BYTES};
use crate::credentials::{Credential, HEADERS};
use crate::endpoint::Counted;
use crate::errors::{CREDENTIAL_MISSING, INTERNAL_ERROR, INVALID_QUERY, Refusal};
use crate::filter::{Factory, Filter, OnBody, OnHeaders};
use crate::measured::Measured;
use crate::names::{BY_MODEL, BY_PATH, CLIENT, CLIENT_PATH, LOAD_FORMAT, REPLACED, REWRITE, STRIP, WANTED};
use crate::paths::{self, Rewrite};
use crate::prompt::{self, Form, Prompt, is_compressed, is_upgrade};
use crate::regions;

const HOST: &str = ":authority";
const LENGTH: &str = "content-length";

/// Marks of a state: the header was absent, or had the value that follows.
const ABSENT: &[u8] = b"-";
const PRESENT: u8 = b'+';

/// Configuration of the filter.
pub struct BackendFactory(Arc<Backend>);

impl BackendFactory {
    /// Read the configuration.
    pub fn new(setup: &mut Setup, text: &[u8]) -> Result<Self, String> {
        let follow = (!setup.is_validation()).then_some(log_error as fn(&str));
        Ok(BackendFactory(Arc::new(Backend::read(text, follow)?)))
    }
}

impl Factory for BackendFactory {
    fn filter(&self) -> Box<dyn Filter> {
        Box::new(BackendFilter { config: self.0.clone(), rename: None, attempt: None, counted: None })
    }
}

/// New value of `model`, and the body's content type.
struct Rename {
    model: String,
    content_type: String,
}

/// What the cluster of an attempt wants. Its metadata has it as lines of one text, because each look costs.
#[derive(Default)]
struct Wanted<'a> {
    prefix: &'a [u8],
    overlap: &'a [u8],
    host: &'a [u8],
    model: &'a [u8],
    served: &'a [u8],
    credential: &'a [u8],
}

impl<'a> Wanted<'a> {
    /// Read the lines. A cluster without any wants nothing; other lines than these are refused.
    fn read(text: &'a [u8]) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Ok(Wanted::default());
        }
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut found = [&[][..]; 6];
        let is_complete = found.iter_mut().all(|line| lines.next().map(|next| *line = next).is_some());
        if !is_complete || lines.next().is_some() {
            let message = "the gateway cannot read what this backend wants: report it";
            return Err(Refusal::new(&INTERNAL_ERROR, message));
        }
        let [prefix, overlap, host, model, served, credential] = found;
        Ok(Wanted { prefix, overlap, host, model, served, credential })
    }
}

struct BackendFilter {
    config: Arc<Backend>,
    rename: Option<Rename>,
    /// Ends with the filter, whatever ends it.
    attempt: Option<Measured>,
    /// Only below the filter `front`, which takes the counters to Envoy.
    counted: Option<Counted>,
}

impl Filter for BackendFilter {
    fn request_headers(&mut self, stream: &mut Stream, end: bool) -> OnHeaders {
        self.attempt = Measured::begin(stream);
        self.counted = self.config.credentials.is_some().then(|| Counted::begin(""));
        let text = stream.metadata(Source::Cluster, REWRITE, WANTED).to_vec();
        let allowed = regions::check(stream).and_then(|()| Wanted::read(&text));
        let read = allowed.and_then(|wanted| Ok((self.credential(&wanted)?, wanted)));
        let (credential, wanted) = match read {
            Ok(read) => read,
            Err(refusal) => {
                stream.refuse(&refusal);
                return OnHeaders::Stop;
            }
        };
        let again = !stream.is_first_attempt();
        rewrite_path(stream, &wanted, again);
        replace(stream, HOST, (!wanted.host.is_empty()).then_some(Some(wanted.host)), again);
        if self.config.credentials.is_some() && (again || credential.is_some()) {
            for name in HEADERS {
                // A backend with a credential gets no other one: it could be taken for its own, or be another's.
                let wanted = credential
                    .as_ref()
                    .map(|credential| (credential.header == name).then_some(credential.value.as_bytes()));
                replace(stream, name, wanted, again);
            }
            // An outside provider does not learn who asks.
            replace(stream, CLIENT, credential.is_some().then_some(None), again);
        }
        if self.attempt.as_ref().is_some_and(Measured::needs_report) {
            // Only an engine of one's own is asked, not an outside provider.
            replace(stream, LOAD_FORMAT, credential.is_none().then_some(Some(b"json")), again);
        }
        // The body of this attempt is the client's again.
        replace(stream, LENGTH, None, again);
        let renamed = named_elsewhere(stream, &wanted)
            .and_then(|()| if end && !is_upgrade(stream) { Ok(None) } else { rename(stream, &wanted) });
        match renamed {
            Ok(None) => return OnHeaders::Continue,
            Ok(rename) => self.rename = rename,
            Err(refusal) => self.refuse(stream, &refusal),
        }
        stream.set_buffer_limit(self.config.max_body_bytes.saturating_add(SPARE_BYTES));
        OnHeaders::Stop
    }

    fn request_body(&mut self, stream: &mut Stream, end: bool) -> OnBody {
        if self.rename.is_some() && !end {
            return OnBody::Buffer;
        }
        if end {
            self.sent();
        }
        if self.write_model(stream) { OnBody::Continue } else { OnBody::Drop }
    }

    fn request_trailers(&mut self, stream: &mut Stream) -> bool {
        self.sent();
        self.write_model(stream)
    }

    fn response_headers(&mut self, stream: &mut Stream, end: bool) {
        self.attempt.iter_mut().for_each(|attempt| attempt.response_headers(stream));
        self.counted.iter_mut().for_each(|counted| counted.response_headers(stream, end));
    }

    fn response_body(&mut self, stream: &mut Stream, end: bool) {
        self.attempt.iter_mut().for_each(|attempt| attempt.response_body(stream));
        self.counted.iter_mut().for_each(|counted| counted.response_body(stream, end));
    }

    fn response_trailers(&mut self, stream: &mut Stream) {
        self.attempt.iter().for_each(|attempt| attempt.take_report(stream, Headers::ResponseTrailers));
        self.counted.iter_mut().for_each(Counted::complete);
    }
}

impl BackendFilter {
    /// Note that the request is complete.
    fn sent(&mut self) {
        self.attempt.iter_mut().for_each(Measured::sent);
        self.counted.iter_mut().for_each(Counted::sent);
    }

    /// Return the credential of the attempt's cluster.
    fn credential(&self, wanted: &Wanted) -> Result<Option<Credential>, Refusal> {
        if wanted.credential.is_empty() {
            return Ok(None);
        }
        let name = String::from_utf8_lossy(wanted.credential);
        let known = self.config.credentials.as_ref();
        let credential = known.and_then(|known| known.with(|known| known.get(&name).cloned()));
        credential.map(Some).ok_or_else(|| {
            let message = "the gateway has no credential for this backend: \
                           ask the platform team to check the Secret that its ModelEndpoint names";
            Refusal::new(&CREDENTIAL_MISSING, message)
        })
    }

    /// Refuse a request of the client's, which says nothing about the backend.
    fn refuse(&mut self, stream: &mut Stream, refusal: &Refusal) {
        self.attempt.iter_mut().for_each(Measured::refused);
        stream.refuse(refusal);
    }

    /// Write the model's name into the body, and return whether the request goes on.
    fn write_model(&mut self, stream: &mut Stream) -> bool {
        let Some(Rename { model, content_type }) = self.rename.take() else { return true };
        let renamed = {
            let body = stream.request_body();
            if body.is_empty() {
                return true;
            }
            let form = Form::of(&content_type).unwrap_or(Form::Json);
            Prompt::read(&body, form).map(|prompt| prompt.renamed(&body, &model))
        };
        match renamed {
            Ok(renamed) => {
                if stream.header(Headers::Request, LENGTH).is_some() {
                    replace(stream, LENGTH, Some(Some(renamed.len().to_string().as_bytes())), true);
                }
                stream.set_request_body(&renamed);
            }
            // A client must not reach a model of its own choice with the backend's credential.
            Err(cause) => {
                self.refuse(stream, &Refusal::invalid(cause));
                return false;
            }
        }
        true
    }
}

/// Refuse a query that names a model, which some servers read, where the endpoint names it.
fn named_elsewhere(stream: &Stream, wanted: &Wanted) -> Result<(), Refusal> {
    let path = || stream.header(Headers::Request, ":path").unwrap_or_default();
    if wanted.model.is_empty() || !paths::has_parameter(path(), "model") {
        return Ok(());
    }
    let message =
        "the query names a model, but this endpoint has one of its own: remove the parameter \"model\"";
    Err(Refusal::new(&INVALID_QUERY, message))
}

fn rename(stream: &Stream, wanted: &Wanted) -> Result<Option<Rename>, Refusal> {
    // A client that chose the service by its name may not know the engine's.
    let by_model = || stream.state(CLIENT_PATH).is_some_and(|kept| kept.first() == Some(&BY_MODEL));
    let given = match wanted.model {
        b"" if !wanted.served.is_empty() && by_model() => wanted.served,
        model => model,
    };
    if given.is_empty() {
        return Ok(None);
    }
    let model = String::from_utf8_lossy(given).into_owned();
    // What follows an upgrade is not read: it could name another model.
    if is_upgrade(stream) {
        return Err(Refusal::unreadable());
    }
    let content_type = prompt::content_type(stream);
    if Form::of(&content_type).is_none() || is_compressed(stream) {
        return Err(Refusal::unreadable());
    }
    Ok(Some(Rename { model, content_type }))
}

/// Rewrite the path of this attempt; `again` if there may have been one before.
fn rewrite_path(stream: &mut Stream, wanted: &Wanted, again: bool) {
    let kept = stream.state(CLIENT_PATH).and_then(|kept| kept.get(1..));
    let is_kept = kept.is_some();
    let Some(path) = kept.or_else(|| stream.header(Headers::Request, ":path")) else { return };
    let sent = if wanted.prefix.is_empty() {
        (again && is_kept).then(|| path.to_vec())
    } else {
        let strip = stream.metadata(Source::Route, REWRITE, STRIP).len();
        Some(Rewrite { strip, prefix: wanted.prefix, overlap: wanted.overlap }.of(path))
    };
    if !is_kept {
        let kept = [&[BY_PATH], path].concat();
        stream.set_state(CLIENT_PATH, &kept);
    }
    if let Some(sent) = sent {
        stream.set_header(Headers::Request, ":path", Some(&sent));
    }
}

/// Replace or remove a header for this attempt; None restores what an attempt before has replaced.
fn replace(stream: &mut Stream, name: &str, wanted: Option<Option<&[u8]>>, again: bool) {
    if wanted.is_none() && !again {
        return;
    }
    let key = format!("{REPLACED}{name}");
    let before = if again { stream.state(&key).map(<[u8]>::to_vec) } else { None };
    match (wanted, before) {
        (None, None) => {}
        (None, Some(before)) => {
            stream.set_header(Headers::Request, name, before.strip_prefix(&[PRESENT]));
        }
        (Some(value), before) => {
            if before.is_none() {
                let now = stream.header(Headers::Request, name);
                let kept = now.map_or(ABSENT.to_vec(), |now| [&[PRESENT], now].concat());
                stream.set_state(&key, &kept);
            }
            stream.set_header(Headers::Request, name, value);
        }
    }
}
