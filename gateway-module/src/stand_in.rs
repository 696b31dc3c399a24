//! Stand-in for Envoy: the functions that the module calls, over one stream in memory.
//!
//! It frees what it lent as soon as it changes, so that AddressSanitizer finds a module that reads it later, and it
//! calls hooks while an answer is sent, as Envoy does.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;

use crate::abi::{self, Body, Buffer, Handle, Header, Headers, Source};
use crate::filter::{Factory, Filter, OnHeaders, OnWake};

/// Answer of the module's own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub status: u32,
    pub headers: HashMap<String, String>,
    pub body: String,
    pub details: String,
}

impl Answer {
    pub fn error(&self) -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&self.body).unwrap()["error"].clone()
    }
}

type Pieces = Vec<Vec<u8>>;

/// Stream with all that Envoy knows of it.
#[derive(Default)]
pub struct Stream {
    pub request: Vec<(String, Vec<u8>)>,
    pub response: Vec<(String, Vec<u8>)>,
    pub trailers: Vec<(String, Vec<u8>)>,
    pub metadata: HashMap<(Source, String), String>,
    pub state: HashMap<String, Vec<u8>>,
    pub answer: Option<Answer>,
    pub answers: usize,
    pub routed: usize,
    pub buffer_limit: Option<u64>,
    /// Record for the access log, each value as text.
    pub noted: HashMap<String, String>,
    /// Instances of the route's cluster; None if there is no such cluster.
    pub hosts: Option<usize>,
    pub went_on: usize,
    /// True to free the filter while its request goes on or is answered, as Envoy does outside of filters' hooks.
    pub ends_early: bool,
    is_freed: bool,
    /// Dynamic metadata by namespace.
    pub dynamic: HashMap<String, serde_json::Value>,
    pub details: Option<String>,
    /// Number of attempts before this one.
    pub attempts: u64,
    bodies: HashMap<Body, Pieces>,
    slot: Option<Handle>,
}

thread_local! {
    static COUNTERS: RefCell<(Vec<String>, HashMap<String, u64>)> = RefCell::default();
}

/// Return the value of a counter, `name{label,label}`, of this thread's filters.
pub fn counter(name: &str) -> u64 {
    COUNTERS.with_borrow(|counters| counters.1.get(name).copied().unwrap_or_default())
}

/// Configured filter.
pub struct Configured(Handle);

impl Configured {
    pub fn new(name: &str, text: &str) -> Option<Self> {
        crate::envoy_dynamic_module_on_program_init();
        let (name, text) = (Buffer::of(name.as_bytes()), Buffer::of(text.as_bytes()));
        let made =
            unsafe { abi::envoy_dynamic_module_on_http_filter_config_new(std::ptr::null_mut(), name, text) };
        (!made.is_null()).then(|| Configured(made))
    }

    /// Begin a request with headers.
    pub fn open(&self, headers: &[(&str, &str)]) -> Exchange {
        let mut stream = Box::<Stream>::default();
        stream.request = owned(headers);
        self.attach(Box::into_raw(stream))
    }

    /// Begin another attempt at a request, which keeps its headers and states.
    pub fn again(&self, mut before: Exchange) -> Exchange {
        let stream = std::mem::replace(&mut before.stream, Box::into_raw(Box::<Stream>::default()));
        drop(before);
        unsafe { &mut *stream }.metadata.clear();
        unsafe { &mut *stream }.attempts += 1;
        self.attach(stream)
    }

    /// Call the configuration, as Envoy's main thread does.
    pub fn call(&self) {
        unsafe {
            abi::envoy_dynamic_module_on_http_filter_config_scheduled(std::ptr::null_mut(), self.0, 0);
        }
    }

    /// Return a filter whose hooks panic.
    pub fn that_panics() -> Self {
        let factory: Box<dyn Factory> = Box::new(Panics);
        Configured(Box::into_raw(Box::new(factory)).cast())
    }

    /// Return a filter that panics once it is woken.
    pub fn that_panics_later(self) -> Self {
        let factory = unsafe { Box::from_raw(self.0.cast::<Box<dyn Factory>>()) };
        std::mem::forget(self);
        let later: Box<dyn Factory> = Box::new(PanicsLater(factory));
        Configured(Box::into_raw(Box::new(later)).cast())
    }

    fn attach(&self, stream: *mut Stream) -> Exchange {
        let slot = unsafe { abi::envoy_dynamic_module_on_http_filter_new(self.0, stream.cast()) };
        unsafe { &mut *stream }.slot = Some(slot);
        Exchange { stream, slot }
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        unsafe { abi::envoy_dynamic_module_on_http_filter_config_destroy(self.0) }
    }
}

/// Factory or filter that panics once it is woken.
struct PanicsLater<T: ?Sized>(Box<T>);

impl Factory for PanicsLater<Box<dyn Factory>> {
    fn filter(&self) -> Box<dyn Filter> {
        Box::new(PanicsLater(self.0.filter()))
    }
}

impl Filter for PanicsLater<dyn Filter> {
    fn request_headers(&mut self, stream: &mut abi::Stream, end: bool) -> OnHeaders {
        self.0.request_headers(stream, end)
    }

    fn wake(&mut self, _stream: &mut abi::Stream) -> OnWake {
        panic!("in a test")
    }

    fn failed(&mut self, stream: &mut abi::Stream) {
        self.0.failed(stream);
    }
}

struct Panics;

impl Factory for Panics {
    fn filter(&self) -> Box<dyn Filter> {
        Box::new(Panics)
    }
}

impl Filter for Panics {
    fn request_headers(&mut self, _stream: &mut abi::Stream, end: bool) -> OnHeaders {
        if end { OnHeaders::Continue } else { panic!("in a test") }
    }

    fn response_headers(&mut self, _stream: &mut abi::Stream, _end: bool) {
        panic!("in a test")
    }
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

/// Request and answer that pass one filter.
pub struct Exchange {
    stream: *mut Stream,
    slot: Handle,
}

impl Exchange {
    pub fn stream(&mut self) -> &mut Stream {
        unsafe { &mut *self.stream }
    }

    fn handle(&self) -> *mut c_void {
        self.stream.cast()
    }

    /// Send the headers; true if they go on.
    pub fn headers(&mut self, end: bool) -> bool {
        let status = unsafe {
            abi::envoy_dynamic_module_on_http_filter_request_headers(self.handle(), self.slot, end)
        };
        status == 0
    }

    /// Send a body in pieces and return what goes on; None if nothing does. Trailers end it, if asked.
    pub fn body(&mut self, pieces: &[&[u8]], trailers: bool) -> Option<Vec<u8>> {
        let mut sent = vec![];
        for (number, piece) in pieces.iter().enumerate() {
            let end = !trailers && number + 1 == pieces.len();
            self.stream().bodies.insert(Body::ReceivedRequest, vec![piece.to_vec()]);
            let status = unsafe {
                abi::envoy_dynamic_module_on_http_filter_request_body(self.handle(), self.slot, end)
            };
            let received = self.stream().bodies.remove(&Body::ReceivedRequest).unwrap_or_default();
            let held = self.stream().bodies.entry(Body::BufferedRequest).or_default();
            match status {
                0 => {
                    sent.extend(std::mem::take(held).concat());
                    sent.extend(received.concat());
                }
                1 => held.extend(received),
                3 => return None,
                _ => panic!("no such status: {status}"),
            }
        }
        if trailers {
            let stopped = unsafe {
                abi::envoy_dynamic_module_on_http_filter_request_trailers(self.handle(), self.slot)
            };
            if stopped != 0 {
                return None;
            }
            sent.extend(self.stream().bodies.remove(&Body::BufferedRequest).unwrap_or_default().concat());
        }
        Some(sent)
    }

    /// Call the hook of a wake-up.
    pub fn wake(&mut self) {
        unsafe { abi::envoy_dynamic_module_on_http_filter_scheduled(self.handle(), self.slot, 0) }
    }

    /// Return how often a thread has woken the stream; None if none can.
    pub fn wakes(&mut self) -> Option<usize> {
        let own = self.handle() as usize;
        SCHEDULERS.lock().unwrap().iter().find(|each| each.0 == own).map(|each| each.1)
    }

    /// Return the body that is held.
    pub fn held_body(&mut self) -> Vec<u8> {
        self.stream().bodies.get(&Body::BufferedRequest).map(|pieces| pieces.concat()).unwrap_or_default()
    }

    /// Answer with a body in pieces and return what the client gets. Without `end` the client leaves.
    pub fn respond(&mut self, headers: &[(&str, &str)], pieces: &[&[u8]], end: bool) -> Vec<u8> {
        self.stream().response = owned(headers);
        let (handle, slot) = (self.handle(), self.slot);
        unsafe { abi::envoy_dynamic_module_on_http_filter_response_headers(handle, slot, false) };
        let mut got = vec![];
        for (number, piece) in pieces.iter().enumerate() {
            let last = end && number + 1 == pieces.len();
            self.stream().bodies.insert(Body::ReceivedResponse, vec![piece.to_vec()]);
            unsafe { abi::envoy_dynamic_module_on_http_filter_response_body(handle, slot, last) };
            got.extend(self.stream().bodies.remove(&Body::ReceivedResponse).unwrap_or_default().concat());
        }
        got
    }

    /// End an answer with trailers, and return what they add to its body.
    pub fn respond_trailers(&mut self) -> Vec<u8> {
        unsafe { abi::envoy_dynamic_module_on_http_filter_response_trailers(self.handle(), self.slot) };
        self.stream().bodies.remove(&Body::BufferedResponse).unwrap_or_default().concat()
    }

    /// End the stream.
    pub fn complete(&mut self) {
        unsafe { abi::envoy_dynamic_module_on_http_filter_stream_complete(self.handle(), self.slot) }
    }

    /// Return the names of the backends in the order that the module handed over.
    pub fn order(&mut self) -> Vec<String> {
        let Some(order) = self.stream().dynamic.get("modelplane.order") else { return vec![] };
        let groups = order["priority_groups"].as_array().unwrap().iter();
        groups.map(|group| group["name"].as_str().unwrap().to_string()).collect()
    }

    pub fn header(&mut self, name: &str) -> Option<String> {
        let found = self.stream().request.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| String::from_utf8(value.clone()).unwrap())
    }

    pub fn answer(&mut self) -> Answer {
        self.stream().answer.clone().unwrap_or_default()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        unsafe {
            if !self.stream().is_freed {
                abi::envoy_dynamic_module_on_http_filter_destroy(self.slot);
            }
            drop(Box::from_raw(self.stream));
        }
    }
}

unsafe fn of<'a>(handle: Handle) -> &'a mut Stream {
    unsafe { &mut *handle.cast::<Stream>() }
}

unsafe fn text(buffer: Buffer) -> String {
    String::from_utf8(unsafe { buffer.bytes() }.to_vec()).unwrap()
}

fn without_prefix(details: String) -> String {
    details.strip_prefix("modelplane:").expect("the prefix of the module's own answers").to_string()
}

/// Return the members of a record in a line of the access log.
fn noted(record: &[u8]) -> HashMap<String, String> {
    let line = [b"{\"status\":200", record, b"}"].concat();
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&line).unwrap();
    let text = |value: serde_json::Value| value.as_str().map_or(value.to_string(), str::to_string);
    members.into_iter().map(|(name, value)| (name, text(value))).collect()
}

unsafe fn lend(value: Option<&[u8]>, out: *mut Buffer) -> bool {
    unsafe { *out = value.map_or(Buffer::NONE, Buffer::of) };
    value.is_some()
}

fn map(stream: &mut Stream, headers: Headers) -> &mut Vec<(String, Vec<u8>)> {
    match headers {
        Headers::Request => &mut stream.request,
        Headers::Response => &mut stream.response,
        Headers::ResponseTrailers => &mut stream.trailers,
    }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_log(_level: u32, _message: Buffer) {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_is_validation_mode() -> bool {
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_header(
    stream: Handle,
    headers: Headers,
    name: Buffer,
    value: *mut Buffer,
    index: usize,
    count: *mut usize,
) -> bool {
    let name = unsafe { text(name) };
    let values: Vec<&Vec<u8>> = map(unsafe { of(stream) }, headers)
        .iter()
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .collect();
    unsafe {
        *count = values.len();
        lend(values.get(index).map(|value| value.as_slice()), value)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_headers_size(
    stream: Handle,
    headers: Headers,
) -> usize {
    map(unsafe { of(stream) }, headers).len()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_headers(
    stream: Handle,
    headers: Headers,
    out: *mut Header,
) -> bool {
    for (number, (name, value)) in map(unsafe { of(stream) }, headers).iter().enumerate() {
        unsafe { *out.add(number) = Header { name: Buffer::of(name.as_bytes()), value: Buffer::of(value) } };
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_header(
    stream: Handle,
    headers: Headers,
    name: Buffer,
    value: Buffer,
) -> bool {
    let name = unsafe { text(name) };
    let value = (!value.start.is_null()).then(|| unsafe { value.bytes() }.to_vec());
    let map = map(unsafe { of(stream) }, headers);
    map.retain(|(key, _)| *key != name);
    map.extend(value.map(|value| (name, value)));
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_add_header(
    stream: Handle,
    headers: Headers,
    name: Buffer,
    value: Buffer,
) -> bool {
    let (name, value) = unsafe { (text(name), value.bytes().to_vec()) };
    map(unsafe { of(stream) }, headers).push((name, value));
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_send_response(
    handle: Handle,
    status: u32,
    headers: *const Header,
    count: usize,
    body: Buffer,
    details: Buffer,
) {
    let headers = unsafe { std::slice::from_raw_parts(headers, count) };
    let (stream, slot) = unsafe {
        let stream = of(handle);
        let headers = headers.iter().map(|header| (text(header.name), text(header.value))).collect();
        stream.answer =
            Some(Answer { status, headers, body: text(body), details: without_prefix(text(details)) });
        stream.answers += 1;
        (handle, stream.slot.unwrap())
    };
    unsafe {
        let details = Buffer::of(b"details");
        abi::envoy_dynamic_module_on_http_filter_local_reply(stream, slot, status, details, false);
        abi::envoy_dynamic_module_on_http_filter_response_headers(stream, slot, true);
        end_early(handle);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_body_size(stream: Handle, body: Body) -> usize {
    unsafe { of(stream) }.bodies.get(&body).map_or(0, |pieces| pieces.iter().map(Vec::len).sum())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_body_chunks_size(
    stream: Handle,
    body: Body,
) -> usize {
    unsafe { of(stream) }.bodies.get(&body).map_or(0, Vec::len)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_body_chunks(
    stream: Handle,
    body: Body,
    out: *mut Buffer,
) -> bool {
    let Some(pieces) = unsafe { of(stream) }.bodies.get_mut(&body) else { return false };
    for (number, piece) in pieces.iter_mut().enumerate() {
        // To be changed, too.
        unsafe { *out.add(number) = Buffer { start: piece.as_mut_ptr(), length: piece.len() } };
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_append_body(
    stream: Handle,
    body: Body,
    data: Buffer,
) -> bool {
    let data = unsafe { data.bytes() }.to_vec();
    unsafe { of(stream) }.bodies.entry(body).or_default().push(data);
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_drain_body(
    stream: Handle,
    body: Body,
    bytes: usize,
) -> bool {
    let pieces = unsafe { of(stream) }.bodies.entry(body).or_default();
    let rest = pieces.concat().split_off(bytes);
    *pieces = if rest.is_empty() { vec![] } else { vec![rest] };
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_received_buffered_request_body(_stream: Handle) -> bool {
    false
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_metadata_string(
    stream: Handle,
    source: Source,
    namespace: Buffer,
    key: Buffer,
    value: *mut Buffer,
) -> bool {
    let (namespace, mut key) = unsafe { (text(namespace), text(key)) };
    if namespace != "modelplane.rewrite" {
        key = format!("{namespace}:{key}");
    }
    let found = unsafe { of(stream).metadata.get(&(source, key)) };
    unsafe { lend(found.map(String::as_bytes), value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_metadata_struct(
    stream: Handle,
    namespace: Buffer,
    value: Buffer,
) -> bool {
    let (namespace, value) = unsafe { (text(namespace), structure(value.bytes())) };
    unsafe { of(stream).dynamic.insert(namespace, value) };
    true
}

/// Return a `google.protobuf.Struct` from its wire format.
fn structure(mut rest: &[u8]) -> serde_json::Value {
    let mut members = serde_json::Map::new();
    while !rest.is_empty() {
        let member = take(&mut rest, 0x0a);
        let mut member = member.as_slice();
        let name = String::from_utf8(take(&mut member, 0x0a)).unwrap();
        members.insert(name, value(&take(&mut member, 0x12)));
    }
    members.into()
}

/// Return a `google.protobuf.Value` from its wire format.
fn value(mut rest: &[u8]) -> serde_json::Value {
    match rest[0] {
        0x11 => f64::from_le_bytes(rest[1..].try_into().unwrap()).into(),
        0x1a => String::from_utf8(take(&mut rest, 0x1a)).unwrap().into(),
        0x2a => structure(&take(&mut rest, 0x2a)),
        _ => {
            let list = take(&mut rest, 0x32);
            let mut list = list.as_slice();
            let mut values = vec![];
            while !list.is_empty() {
                values.push(value(&take(&mut list, 0x0a)));
            }
            values.into()
        }
    }
}

/// Take a field with a length from its wire format.
fn take(rest: &mut &[u8], tag: u8) -> Vec<u8> {
    assert_eq!(rest[0], tag);
    let (mut length, mut used) = (0, 1);
    loop {
        length |= usize::from(rest[used] & 0x7f) << (7 * (used - 1));
        used += 1;
        if rest[used - 1] < 0x80 {
            break;
        }
    }
    let value = rest[used..used + length].to_vec();
    *rest = &rest[used + length..];
    value
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
    stream: Handle,
    attribute: u32,
    value: *mut Buffer,
) -> bool {
    assert_eq!(attribute, 16);
    let details = unsafe { of(stream) }.details.as_deref();
    unsafe { lend(details.map(str::as_bytes), value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
    stream: Handle,
    attribute: u32,
    value: *mut u64,
) -> bool {
    assert_eq!(attribute, 53);
    unsafe { *value = of(stream).attempts + 1 };
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
    stream: Handle,
    key: Buffer,
    value: *mut Buffer,
) -> bool {
    let found = unsafe { of(stream).state.get(&text(key)) };
    unsafe { lend(found.map(Vec::as_slice), value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
    stream: Handle,
    key: Buffer,
    value: Buffer,
) -> bool {
    let (key, value) = unsafe { (text(key), value.bytes().to_vec()) };
    if key == "modelplane.record" {
        unsafe { of(stream) }.noted = noted(&value);
    }
    assert!(unsafe { of(stream) }.state.insert(key, value).is_none(), "a state is set once");
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_clear_route_cache(stream: Handle) {
    unsafe { of(stream) }.routed += 1;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_buffer_limit(stream: Handle, bytes: u64) {
    unsafe { of(stream) }.buffer_limit = Some(bytes);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_define_counter(
    _config: Handle,
    name: Buffer,
    _labels: *const Buffer,
    _count: usize,
    id: *mut usize,
) -> u32 {
    let name = unsafe { text(name) };
    COUNTERS.with_borrow_mut(|counters| {
        unsafe { *id = counters.0.len() };
        counters.0.push(name);
    });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_increment_counter(
    _stream: Handle,
    id: usize,
    labels: *const Buffer,
    count: usize,
    by: u64,
) -> u32 {
    let labels: Vec<String> = (0..count).map(|number| unsafe { text(*labels.add(number)) }).collect();
    COUNTERS.with_borrow_mut(|counters| {
        let name = format!("{}{{{}}}", counters.0[id], labels.join(","));
        let value = counters.1.entry(name).or_default();
        *value = value.wrapping_add(by);
    });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
    config: Handle,
    id: usize,
    labels: *const Buffer,
    count: usize,
    by: u64,
) -> u32 {
    unsafe { envoy_dynamic_module_callback_http_filter_increment_counter(config, id, labels, count, by) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
    config: Handle,
    name: Buffer,
    labels: *const Buffer,
    count: usize,
    id: *mut usize,
) -> u32 {
    unsafe {
        envoy_dynamic_module_callback_http_filter_config_define_counter(config, name, labels, count, id)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_increment_gauge(
    stream: Handle,
    id: usize,
    labels: *const Buffer,
    count: usize,
    by: u64,
) -> u32 {
    unsafe { envoy_dynamic_module_callback_http_filter_increment_counter(stream, id, labels, count, by) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_decrement_gauge(
    stream: Handle,
    id: usize,
    labels: *const Buffer,
    count: usize,
    by: u64,
) -> u32 {
    let by = by.wrapping_neg();
    unsafe { envoy_dynamic_module_callback_http_filter_increment_counter(stream, id, labels, count, by) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_cluster_host_count(
    stream: Handle,
    _priority: u32,
    total: *mut usize,
    _healthy: *mut usize,
    _degraded: *mut usize,
) -> bool {
    let hosts = unsafe { of(stream) }.hosts;
    unsafe { *total = hosts.unwrap_or_default() };
    hosts.is_some()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_continue_decoding(stream: Handle) {
    unsafe { of(stream) }.went_on += 1;
    unsafe { end_early(stream) };
}

unsafe fn end_early(handle: Handle) {
    let stream = unsafe { of(handle) };
    if stream.ends_early && !stream.is_freed {
        stream.is_freed = true;
        let slot = stream.slot.unwrap();
        unsafe {
            abi::envoy_dynamic_module_on_http_filter_stream_complete(handle, slot);
            abi::envoy_dynamic_module_on_http_filter_destroy(slot);
        }
    }
}

/// Wakers by stream; the value counts how often each was used.
static SCHEDULERS: std::sync::Mutex<Vec<(usize, usize)>> = std::sync::Mutex::new(vec![]);

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_new(stream: Handle) -> Handle {
    SCHEDULERS.lock().unwrap().push((stream as usize, 0));
    // Not read, but freed, so that a use after that is found.
    Box::into_raw(Box::new(stream as usize)).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_commit(
    scheduler: Handle,
    _event: u64,
) {
    let stream = unsafe { *scheduler.cast::<usize>() };
    let mut all = SCHEDULERS.lock().unwrap();
    all.iter_mut().filter(|each| each.0 == stream).for_each(|each| each.1 += 1);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: Handle) {
    let stream = unsafe { *Box::from_raw(scheduler.cast::<usize>()) };
    SCHEDULERS.lock().unwrap().retain(|each| each.0 != stream);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: Handle) -> Handle {
    config
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(_scheduler: Handle) {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(
    _scheduler: Handle,
    _event: u64,
) {
}

#[test]
fn a_panic_ends_in_its_hook_and_answers_the_request() {
    let filter = Configured::that_panics();
    let mut exchange = filter.open(&[]);
    assert!(!exchange.headers(false));
    assert_eq!((exchange.answer().status, exchange.answer().details.as_str()), (500, "internal_error"));
    assert_eq!(exchange.body(&[b"x"], false), None);
    exchange.complete();
    // In an answer, what is left of it passes.
    let mut exchange = filter.open(&[]);
    assert!(exchange.headers(true));
    assert_eq!(exchange.respond(&[], &[b"x"], true), b"x");
    assert_eq!(exchange.stream().answers, 0);
}
