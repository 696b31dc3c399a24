//! Filter `front`: who asks, for which service, within which limits, and how many tokens it took.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::abi::{Body, Headers, Setup, Stream, log_error};
use crate::answer::{Answer, Counted};
use crate::config::{Front, SPARE_BYTES};
use crate::counters::{Counters, Flushes};
use crate::direct::Direct;
use crate::errors::{
    AMBIGUOUS_API_KEY, Code, EXPIRED_API_KEY, INVALID_API_KEY, INVALID_BODY, KEY_BLOCKED, METHOD_NOT_ALLOWED,
    MISSING_API_KEY, REQUEST_OVERALL_TIMEOUT, REQUEST_TOO_LARGE, ROUTE_NOT_FOUND, Refusal,
};
use crate::events::Piece;
use crate::filter::{Factory, Filter, OnBody, OnHeaders, OnWake};
use crate::global_limits::GlobalLimits;
use crate::head::{AnswerHead, Head, Secrets};
use crate::hold::{self, Holding};
use crate::keys::{Blocked, Key, Shares};
use crate::limits::{Admission, Gateways};
use crate::models::not_allowed;
use crate::names::{
    ADDRESS, API_KEY, AUTHORIZATION, BY_MODEL, BY_PATH, CLIENT, CLIENT_PATH, HOP, HOPS, LOOP, MOST_HOPS,
    RECORD,
};
use crate::order::Balancing;
use crate::outstanding::Reservation;
use crate::paths;
use crate::prompt::{self, Prompt};
use crate::record::{Record, member};
use crate::regions;

/// Path of the list of models.
const LIST: &str = "/v1/models";

/// Maximum of Envoy's details of an answer in a record.
const MOST_DETAILS_BYTES: usize = 1024;

/// Configuration of the filter.
pub struct FrontFactory {
    config: Arc<Front>,
    counters: Counters,
    _flushes: Option<Flushes>,
}

impl FrontFactory {
    /// Read the configuration.
    pub fn new(setup: &mut Setup, text: &[u8]) -> Result<Self, String> {
        let follow = (!setup.is_validation()).then_some(log_error as fn(&str));
        let config = Arc::new(Front::read(text, follow)?);
        let counters = Counters::new(setup)?;
        Ok(FrontFactory { config, counters, _flushes: follow.map(|_| Flushes::of(setup)).transpose()? })
    }
}

impl Factory for FrontFactory {
    fn filter(&self) -> Box<dyn Filter> {
        Box::new(FrontFilter {
            config: self.config.clone(),
            counters: self.counters,
            started: Instant::now(),
            record: Record::new(self.config.record),
            key: None,
            admission: None,
            global_limits: None,
            replacement: None,
            service: String::new(),
            body: RequestBody::default(),
            reservation: None,
            direct: None,
            hide: false,
            answer: None,
            first_token_ms: None,
            refused: None,
            holding: Holding::default(),
        })
    }

    fn called(&self, setup: &mut Setup) {
        self.counters.flush(setup);
    }
}

/// What the filter does with the request's body.
#[derive(Default)]
struct RequestBody {
    bytes: u64,
    has_length: bool,
    limit: Option<u64>,
    path: String,
    content_type: Cow<'static, str>,
    held: bool,
    /// True while the body must come to its end in time: it is not a websocket, and there is no answer yet.
    is_timed: bool,
    /// True if the body is held for its model or its stream's token counts, not only for its prompt.
    read: bool,
    by_model: bool,
    model: String,
}

/// Stop of the request: an answer was sent, or is to be sent.
enum Stop {
    Refuse(Refusal),
    List(String),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refuse(refusal)
    }
}

struct FrontFilter {
    config: Arc<Front>,
    counters: Counters,
    started: Instant,
    record: Record,
    key: Option<Arc<Key>>,
    admission: Option<Admission>,
    global_limits: Option<GlobalLimits>,
    /// Body of the answer in place of Envoy's own.
    replacement: Option<String>,
    service: String,
    body: RequestBody,
    reservation: Option<Reservation>,
    /// Endpoint of a request without the filter of attempts.
    direct: Option<Direct>,
    hide: bool,
    answer: Option<Answer>,
    first_token_ms: Option<u64>,
    refused: Option<&'static Code>,
    holding: Holding,
}

impl Filter for FrontFilter {
    fn request_headers(&mut self, stream: &mut Stream, end: bool) -> OnHeaders {
        match self.admit(stream, end) {
            Ok(()) if self.body.held || self.must_wait(stream) => OnHeaders::Stop,
            Ok(()) => match self.go_on(stream, None) {
                Ok(()) => OnHeaders::Continue,
                Err(refusal) => {
                    self.stop(stream, refusal.into());
                    OnHeaders::Stop
                }
            },
            Err(stop) => {
                self.stop(stream, stop);
                OnHeaders::Stop
            }
        }
    }

    fn request_body(&mut self, stream: &mut Stream, end: bool) -> OnBody {
        let bytes = stream.body_bytes(Body::ReceivedRequest) as u64;
        self.body.bytes += bytes;
        if self.body.limit.is_some_and(|limit| self.body.bytes > limit) {
            self.stop(stream, too_large(self.body.limit.unwrap_or_default()).into());
            return OnBody::Drop;
        }
        if !end && self.is_late() {
            self.stop(stream, too_slow().into());
            return OnBody::Drop;
        }
        if self.holding.is_waiting() {
            let Err(refusal) = self.holding.grow(bytes) else { return OnBody::Buffer };
            self.stop(stream, refusal.into());
            return OnBody::Drop;
        }
        if !self.body.held {
            if end {
                self.sent();
            }
            return OnBody::Continue;
        }
        if !end {
            return OnBody::Buffer;
        }
        match (self.read_body(stream), self.holding.is_waiting()) {
            (true, _) => OnBody::Continue,
            (false, true) => OnBody::Buffer,
            (false, false) => OnBody::Drop,
        }
    }

    fn request_trailers(&mut self, stream: &mut Stream) -> bool {
        self.sent();
        !self.holding.is_waiting() && (!self.body.held || self.read_body(stream))
    }

    fn wake(&mut self, stream: &mut Stream) -> OnWake {
        let next = self.holding.look(stream, &self.counters);
        match &next {
            OnWake::Continue => self.body.limit = self.key.as_ref().and_then(|key| key.max_body_bytes),
            OnWake::Refuse(refusal) => self.refused = Some(refusal.code),
            OnWake::Stay => {}
        }
        next
    }

    fn response_headers(&mut self, stream: &mut Stream, end: bool) {
        self.body.is_timed = false;
        if self.replace_refusal(stream) || (!self.config.usage && self.direct.is_none()) {
            return;
        }
        let head = stream.headers(Headers::Response, AnswerHead::read);
        if let Some(direct) = &mut self.direct {
            direct.response_headers(stream, &head, end);
        }
        if !self.config.usage || !head.status.starts_with(b"2") || head.is_compressed {
            return;
        }
        self.answer = Answer::of(std::str::from_utf8(head.content_type).unwrap_or_default(), self.hide);
        if self.hide && head.has_length && self.answer.as_ref().is_some_and(Answer::is_stream) {
            // The body that the client gets is shorter.
            stream.set_header(Headers::Response, "content-length", None);
        }
    }

    fn response_body(&mut self, stream: &mut Stream, end: bool) {
        if let Some(body) = self.replacement.take() {
            let bytes = stream.body(Body::ReceivedResponse).iter().map(|piece| piece.len()).sum();
            stream.set_response_piece(bytes, body.as_bytes());
        }
        if let Some(direct) = &mut self.direct {
            direct.response_body(stream, end);
        }
        let Some(answer) = &mut self.answer else { return };
        let pieces = stream.body(Body::ReceivedResponse);
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        if bytes > 0 && self.first_token_ms.is_none() {
            self.first_token_ms = Some(self.started.elapsed().as_millis() as u64);
        }
        match answer.push(&pieces, end) {
            Piece::Same => {}
            Piece::Without(part) => stream.cut_response_piece(part),
            Piece::Other(data) => stream.set_response_piece(bytes, &data),
        }
    }

    fn response_trailers(&mut self, stream: &mut Stream) {
        if let Some(direct) = &mut self.direct {
            direct.complete();
        }
        let rest = self.answer.as_mut().map(|answer| answer.push(&[], true));
        if let Some(Piece::Other(rest)) = rest
            && !rest.is_empty()
        {
            stream.append_response(&rest);
        }
    }

    fn complete(&mut self, stream: &mut Stream) {
        self.holding.leave(stream, &self.counters);
        let counted = self.answer.as_ref().and_then(|answer| answer.count(self.body.bytes));
        if let Some(counted) = &counted {
            self.counters.answered(&self.service, counted);
            if let Some(admission) = &self.admission {
                admission.charge(counted.usage.total(), Instant::now());
            }
            if let Some(limits) = &self.global_limits {
                limits.charge(stream, counted.usage.total());
            }
        }
        if let Some(code) = self.refused {
            self.counters.refused(code);
        }
        if self.config.record {
            self.describe(counted.as_ref());
            self.record.bytes(member!("details"), stream.details(), MOST_DETAILS_BYTES);
            if let Some(record) = self.record.take() {
                stream.set_state(RECORD, &record);
            }
        }
        (self.admission, self.reservation) = (None, None);
    }

    fn failed(&mut self, stream: &mut Stream) {
        self.holding.leave(stream, &self.counters);
    }
}

impl FrontFilter {
    /// Add to the record what is known when the stream ends.
    fn describe(&mut self, counted: Option<&Counted>) {
        let record = &mut self.record;
        if let Some(key) = &self.key {
            record.text(member!("key"), &key.id);
            record.text(member!("namespace"), &key.grant.namespace);
        }
        record.text(member!("model"), &self.body.model);
        if let Some(Counted { usage, estimated }) = counted {
            record.number(member!("promptTokens"), usage.prompt);
            record.number(member!("completionTokens"), usage.completion);
            record.number(member!("totalTokens"), usage.total());
            record.truth(member!("estimated"), *estimated);
        }
        if let Some(answer) = &self.answer {
            record.truth(member!("stream"), answer.is_stream());
        }
        if let Some(first_token_ms) = self.first_token_ms {
            record.number(member!("firstTokenMs"), first_token_ms);
        }
        if let Some(held_ms) = self.holding.milliseconds() {
            record.number(member!("heldMs"), held_ms);
        }
        if let Some(code) = self.refused {
            record.text(member!("error"), code.name);
        }
    }

    fn stop(&mut self, stream: &mut Stream, stop: Stop) {
        match stop {
            Stop::Refuse(refusal) => {
                self.refused = Some(refusal.code);
                stream.refuse(&refusal);
            }
            Stop::List(body) => {
                stream.answer(200, &[("content-type", "application/json")], &body, "models");
            }
        }
    }

    /// Decide on the headers alone; the body is held if it must be read.
    fn admit(&mut self, stream: &mut Stream, end: bool) -> Result<(), Stop> {
        let record = &mut self.record;
        let (head, secrets) = stream.headers(Headers::Request, |headers| Head::read(headers, record));
        let key = self.identify(&secrets);
        self.drop_headers(stream, &head);
        self.key = key?;
        let by_model = self.config.models.is_some() && paths::is_by_model(&head.path);
        if !by_model {
            self.set_service(paths::service(&head.path))?;
        }
        if let Some(key) = &self.key {
            let shares = self.config.shares.as_ref();
            let gateways = shares.map_or(Gateways::ONE, |shares| shares.with(Shares::gateways));
            let (mut account, mut namespace) = (key.account.clone(), key.grant.account.clone());
            if self.config.global_limits {
                (account, namespace) = (account.beside_service(), namespace.beside_service());
                self.global_limits = GlobalLimits::of(key);
            }
            let admission = Admission::take(account, namespace, gateways, self.started);
            self.admission = Some(admission.map_err(|exceeded| Refusal::limited(&exceeded))?);
            for (is_there, name) in [(head.has_authorization, AUTHORIZATION), (head.has_api_key, API_KEY)] {
                if is_there {
                    stream.set_header(Headers::Request, name, None);
                }
            }
            stream.add_header(Headers::Request, CLIENT, key.id.as_bytes());
            if let Some(limits) = &self.global_limits {
                limits.ask(stream);
            }
            if let Some(regions) = &key.regions {
                regions.bind(stream);
            }
        }
        if by_model {
            self.check_method(&head, end)?;
        }
        if self.config.usage && head.accepts_encodings {
            stream.set_header(Headers::Request, "accept-encoding", None);
        }
        if end || head.is_upgrade {
            self.body.path = head.path;
            return Ok(());
        }
        Ok(self.expect_body(stream, by_model, head)?)
    }

    /// Drop what only the gateway may set, and count the hop.
    fn drop_headers(&self, stream: &mut Stream, head: &Head) {
        if head.names_client {
            stream.set_header(Headers::Request, CLIENT, None);
        }
        if self.config.internal_headers {
            if head.has_address {
                stream.set_header(Headers::Request, ADDRESS, None);
            }
            for name in &head.internal {
                stream.set_header(Headers::Request, name, None);
            }
            match &head.hops {
                Some(before) => {
                    if before.starts_with(&[HOP; MOST_HOPS]) {
                        stream.set_state(LOOP, b"1");
                        stream.clear_route_cache();
                    }
                    stream.set_header(Headers::Request, HOPS, Some(&[&[HOP], before.as_slice()].concat()));
                }
                None => stream.add_header(Headers::Request, HOPS, &[HOP]),
            }
        }
    }

    /// Return the key of the request; None if none is demanded.
    fn identify(&self, secrets: &Secrets) -> Result<Option<Arc<Key>>, Refusal> {
        let Some(keys) = &self.config.keys else { return Ok(None) };
        let Some(secret) = secret(secrets)? else {
            let message = "an API key is needed: send the header \"Authorization: Bearer KEY\"";
            return Err(Refusal::new(&MISSING_API_KEY, message));
        };
        let Some(key) = keys.with(|keys| keys.find(secret).cloned()) else {
            return Err(Refusal::new(&INVALID_API_KEY, "this API key is unknown: ask for another one"));
        };
        let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(u64::MAX, |since| since.as_secs());
        if key.expires.is_some_and(|expires| now() >= expires) {
            return Err(Refusal::new(&EXPIRED_API_KEY, "this API key has expired: ask for another one"));
        }
        match key.blocked {
            None => Ok(Some(key)),
            Some(Blocked::Budget) => Err(Refusal::out_of_budget()),
            Some(Blocked::Key) => {
                Err(Refusal::new(&KEY_BLOCKED, "this API key is blocked: ask the owner of the key"))
            }
        }
    }

    /// Check the service that a path names. With keys, a path without a service leads nowhere.
    fn set_service(&mut self, service: Option<&str>) -> Result<(), Refusal> {
        match (service, &self.key) {
            (Some(service), Some(key)) if !key.allows(service) => return Err(not_allowed(service)),
            (None, Some(_)) => {
                return Err(no_route("paths begin with /NAMESPACE/SERVICE/"));
            }
            _ => {}
        }
        self.service = service.unwrap_or_default().to_string();
        Ok(())
    }

    /// Check the method of a path that is routed by a model, and answer the list of models.
    fn check_method(&self, head: &Head, end: bool) -> Result<(), Stop> {
        let (method, path) = (&*head.method, paths::without_query(&head.path));
        if head.is_upgrade {
            return Err(no_route("a websocket needs a path /NAMESPACE/SERVICE/...").into());
        }
        let list = path.strip_prefix(LIST).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        match (list, method, &self.config.models) {
            (Some(rest), "GET", Some(models)) => {
                let only = rest.strip_prefix('/').filter(|name| !name.is_empty()).map(paths::decoded);
                Err(Stop::List(models.with(|models| models.list(only.as_deref(), self.key.as_deref()))?))
            }
            (None, "POST", _) if end => Err(Refusal::new(&INVALID_BODY, "the request has no body").into()),
            (None, "POST", _) => Ok(()),
            (None, "GET", _) => Err(no_route("GET below /v1/ is for /v1/models only").into()),
            _ => {
                let message = format!("{method} is not a method of {path}");
                Err(Refusal::new(&METHOD_NOT_ALLOWED, message).into())
            }
        }
    }

    /// Decide whether the body is held, and refuse it if it is known to be too large or unreadable.
    fn expect_body(&mut self, stream: &mut Stream, by_model: bool, head: Head) -> Result<(), Refusal> {
        let form = prompt::Form::of(&head.content_type);
        let asks = || self.config.include_usage && paths::is_counted_if_asked(&head.path);
        let reads = by_model || (form == Some(prompt::Form::Json) && asks());
        if reads && (form.is_none() || head.is_compressed) {
            return Err(Refusal::unreadable());
        }
        self.body.has_length = head.has_length;
        self.body.by_model = by_model;
        self.body.read = reads;
        let is_prompt = form == Some(prompt::Form::Json) && !head.is_compressed;
        self.body.held = reads || (is_prompt && self.balancing(Balancing::needs_prompt).unwrap_or_default());
        let own = self.key.as_ref().and_then(|key| key.max_body_bytes);
        let held = self.body.held.then_some(self.config.max_body_bytes);
        self.body.limit = own.into_iter().chain(held).min();
        if let Some(limit) = self.body.limit {
            if head.content_length.is_some_and(|length| length > limit) {
                return Err(too_large(limit));
            }
            if self.body.held {
                stream.set_buffer_limit(limit.saturating_add(SPARE_BYTES));
            }
        }
        self.body.is_timed = true;
        self.body.path = head.path;
        self.body.content_type = head.content_type;
        Ok(())
    }

    /// Read the body that was held, and return whether the request goes on.
    fn read_body(&mut self, stream: &mut Stream) -> bool {
        self.body.held = false;
        match self.route_and_ask(stream) {
            Ok(_) if self.must_wait(stream) => false,
            Ok(prompt) => match self.go_on(stream, prompt.as_deref()) {
                Ok(()) => true,
                Err(refusal) => {
                    self.stop(stream, refusal.into());
                    false
                }
            },
            Err(refusal) => {
                self.stop(stream, refusal.into());
                false
            }
        }
    }

    /// Hold a request whose service is set so and has no endpoint; true if it does not go on.
    fn must_wait(&mut self, stream: &mut Stream) -> bool {
        let Some(hold) = hold::limits(&self.config.services, &self.service, stream) else { return false };
        self.keep_path(stream);
        self.body.limit.get_or_insert(self.config.max_body_bytes);
        let limit = self.body.limit.unwrap_or(u64::MAX);
        stream.set_buffer_limit(limit.saturating_add(SPARE_BYTES));
        if let Err(refusal) =
            self.holding.begin(stream, &self.counters, &self.service, &hold, self.body.bytes)
        {
            self.stop(stream, refusal.into());
        }
        true
    }

    /// Route by the body's model and ask for token counts. Return the body if the order of backends needs it.
    fn route_and_ask(&mut self, stream: &mut Stream) -> Result<Option<Vec<u8>>, Refusal> {
        let (asking, prompt) = {
            let body = stream.request_body();
            let asking = if self.body.read { self.understand(&body)? } else { None };
            let is_needed = self.balancing(Balancing::needs_prompt).unwrap_or_default();
            (asking, is_needed.then(|| body.into_owned()))
        };
        self.hide = asking.is_some();
        if self.body.by_model {
            self.route(stream);
            if self.rename(stream)? {
                return Ok(prompt);
            }
        }
        if let Some((place, end)) = asking {
            stream.set_request_end(self.body.bytes as usize, place, &end);
            self.set_length(stream, place + end.len());
        }
        Ok(prompt)
    }

    /// Write the endpoint's name for the model into the body, and ask for token counts; false if it has none.
    fn rename(&mut self, stream: &mut Stream) -> Result<bool, Refusal> {
        if self.config.direct {
            // Lets Envoy choose the route again: metadata alone does not.
            stream.has_hosts();
            self.direct = Direct::of(stream);
        }
        let Some(served) = self.direct.as_ref().map(Direct::served).filter(|served| !served.is_empty())
        else {
            return Ok(false);
        };
        let form = prompt::Form::of(&self.body.content_type).unwrap_or(prompt::Form::Json);
        let mut renamed = {
            let body = stream.request_body();
            Prompt::read(&body, form).map_err(Refusal::invalid)?.renamed(&body, served)
        };
        if self.hide {
            let asking = Prompt::read(&renamed, form).map_err(Refusal::invalid)?.asking(&renamed);
            if let Some((place, end)) = asking {
                renamed.truncate(place);
                renamed.extend_from_slice(&end);
            }
        }
        self.set_length(stream, renamed.len());
        stream.set_request_body(&renamed);
        Ok(true)
    }

    /// Let `content-length` be that of the body, if there is one.
    fn set_length(&self, stream: &mut Stream, bytes: usize) {
        if self.body.has_length {
            let mut digits = [0; 20];
            stream.set_header(Headers::Request, "content-length", Some(decimal(bytes as u64, &mut digits)));
        }
    }

    /// Return whether the request takes too long to be complete.
    fn is_late(&self) -> bool {
        let most = self.config.request_timeout.filter(|_| self.body.is_timed);
        most.is_some_and(|most| self.started.elapsed() > most)
    }

    /// Note that the request is complete.
    fn sent(&mut self) {
        self.direct.iter_mut().for_each(Direct::sent);
    }

    /// Let the request go on to a backend of its service.
    fn go_on(&mut self, stream: &mut Stream, body: Option<&[u8]>) -> Result<(), Refusal> {
        self.order(stream, body)?;
        if self.config.direct && !self.body.by_model {
            self.direct = Direct::of(stream);
        }
        if self.direct.is_none() {
            self.keep_path(stream);
        }
        match (&self.direct, self.key.as_ref().and_then(|key| key.regions.as_ref())) {
            (Some(direct), Some(regions)) if !regions.contain(Some(direct.region())) => {
                Err(regions::outside())
            }
            _ => Ok(()),
        }
    }

    /// Read the model and find its service. Return where the body changes to ask for token counts, and its end from
    /// there, if it does not ask yet.
    fn understand(&mut self, body: &[u8]) -> Result<Option<(usize, Vec<u8>)>, Refusal> {
        let form = prompt::Form::of(&self.body.content_type).unwrap_or(prompt::Form::Json);
        let prompt = Prompt::read(body, form).map_err(Refusal::invalid)?;
        self.body.model = prompt.model.as_deref().unwrap_or_default().to_string();
        if self.body.by_model && prompt.model.is_none() {
            return Err(Refusal::invalid("it names no model".into()));
        }
        if self.body.by_model
            && let Some(models) = &self.config.models
        {
            let key = self.key.as_deref();
            self.service = models.with(|models| models.resolve(&self.body.model, key))?;
        }
        let asking = if self.config.include_usage { prompt.asking(body) } else { None };
        Ok(asking.filter(|_| paths::is_counted_if_asked(&self.body.path)))
    }

    /// Read the choice among the service's backends; None if it has none.
    fn balancing<T>(&self, read: impl FnOnce(&Balancing) -> T) -> Option<T> {
        let services = self.config.services.as_ref()?;
        services.with(|services| services.get(&self.service)?.balancing.as_ref().map(read))
    }

    /// Hand over the order of the service's backends, if it has one, or if the key is bound to regions.
    fn order(&mut self, stream: &mut Stream, body: Option<&[u8]>) -> Result<(), Refusal> {
        let Some(services) = &self.config.services else { return Ok(()) };
        let (key, regions) = match &self.key {
            Some(key) => (Some(&*key.id), key.regions.as_ref()),
            None => (None, None),
        };
        let applied = services.with(|services| {
            let service = services.get(&self.service)?;
            let bound = service.bound.as_ref().filter(|_| regions.is_some());
            let order = service.balancing.as_ref().or(bound)?;
            Some(order.apply(stream, key, body, regions))
        });
        let applied = match applied {
            Some(Some(applied)) => applied,
            Some(None) => return regions.map_or(Ok(()), |regions| Err(regions.refusal(&self.service))),
            None => return Ok(()),
        };
        self.reservation = applied.reservation;
        if applied.overflows {
            self.counters.overflowed(stream, &self.service);
        }
        Ok(())
    }

    /// Put the module's own error in place of that of a limit that the rate limit service counts.
    fn replace_refusal(&mut self, stream: &mut Stream) -> bool {
        let Some(refusal) = self.global_limits.as_ref().and_then(|limits| limits.decision(stream)) else {
            return false;
        };
        let body = refusal.body();
        for (name, value) in refusal.headers() {
            stream.set_header(Headers::Response, name, Some(value.as_bytes()));
        }
        stream.set_header(Headers::Response, "content-length", Some(body.len().to_string().as_bytes()));
        (self.refused, self.replacement) = (Some(refusal.code), Some(body));
        true
    }

    /// Replace the path by that of the service that the model names.
    fn route(&mut self, stream: &mut Stream) {
        let path = ["/", self.service.as_str(), self.body.path.as_str()].concat();
        stream.set_header(Headers::Request, ":path", Some(path.as_bytes()));
        stream.clear_route_cache();
        self.body.path = path;
    }

    /// Hand the path to the filter of attempts; one that is not known it reads itself.
    fn keep_path(&self, stream: &mut Stream) {
        if !self.body.path.is_empty() {
            let mark = if self.body.by_model { BY_MODEL } else { BY_PATH };
            stream.set_state(CLIENT_PATH, &[&[mark], self.body.path.as_bytes()].concat());
        }
    }
}

/// Return a number as text, in a place for it.
fn decimal(mut number: u64, place: &mut [u8; 20]) -> &[u8] {
    let mut start = place.len();
    loop {
        start -= 1;
        place[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &place[start..];
        }
    }
}

/// Return the key in the headers of a request.
fn secret<'a>(secrets: &Secrets<'a>) -> Result<Option<&'a [u8]>, Refusal> {
    let ambiguous = || Refusal::new(&AMBIGUOUS_API_KEY, "the request has more than one API key: send one");
    if secrets.authorization.several || secrets.api_key.several {
        return Err(ambiguous());
    }
    match (secrets.authorization.first.and_then(bearer), secrets.api_key.first) {
        (Some(one), Some(other)) if one != other => Err(ambiguous()),
        (one, other) => Ok(one.or(other)),
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii()).filter(|key| !key.is_empty())
}

fn too_large(limit: u64) -> Refusal {
    let message = format!("the body is larger than the limit of {limit} bytes: send a shorter one");
    Refusal::new(&REQUEST_TOO_LARGE, message)
}

fn too_slow() -> Refusal {
    Refusal::new(&REQUEST_OVERALL_TIMEOUT, "the request took too long to arrive: send a shorter one")
}

fn no_route(remedy: &str) -> Refusal {
    Refusal::new(&ROUTE_NOT_FOUND, format!("no route leads to this path: {remedy}"))
}
