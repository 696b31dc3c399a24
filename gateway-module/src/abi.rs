//! Boundary to Envoy: the functions that it calls and those that it offers, and all unsafe code.
//!
//! The declarations are the project's own, of the part of the dynamic module ABI v0.2.0 (Envoy 1.40) that is used. Three
//! rules keep the boundary sound. A buffer that Envoy lends is borrowed from the `Stream`, and each call that can
//! change it needs the `Stream` exclusively. A panic ends in the hook in which it happens. A hook that Envoy calls
//! within another one, as it does while an answer is sent, leaves the filter alone.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::errors::{INTERNAL_ERROR, Refusal};
use crate::filter::{Factory, Filter, OnBody, OnHeaders, OnWake};
use crate::names::DETAILS;

/// Object of Envoy's.
pub type Handle = *mut c_void;

/// Bytes that one side lends the other for one call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Buffer {
    pub(crate) start: *const u8,
    pub(crate) length: usize,
}

/// Header with its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    pub(crate) name: Buffer,
    pub(crate) value: Buffer,
}

/// Header that Envoy lends.
#[repr(transparent)]
pub struct Lent<'a>(Header, PhantomData<&'a [u8]>);

impl<'a> Lent<'a> {
    /// Return the name and the value.
    pub fn pair(&self) -> (&'a [u8], &'a [u8]) {
        // Safety: that of the lifetime.
        unsafe { (self.0.name.bytes(), self.0.value.bytes()) }
    }
}

impl Buffer {
    pub(crate) const NONE: Buffer = Buffer { start: ptr::null(), length: 0 };

    pub(crate) fn of(bytes: &[u8]) -> Buffer {
        Buffer { start: bytes.as_ptr(), length: bytes.len() }
    }

    /// Safety: the bytes live as long as `'a`.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.start.is_null() {
            &[]
        } else {
            unsafe { std::slice::from_raw_parts(self.start, self.length) }
        }
    }
}

/// Headers of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Headers {
    /// Of the request.
    Request = 0,
    /// Of the answer.
    Response = 2,
    /// At the end of the answer.
    ResponseTrailers = 3,
}

/// Bytes of a body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Body {
    /// Piece of the request that the hook was called for.
    ReceivedRequest = 0,
    /// Pieces of the request that are held.
    BufferedRequest = 1,
    /// Piece of the answer that the hook was called for.
    ReceivedResponse = 2,
    /// Pieces of the answer that are held.
    BufferedResponse = 3,
}

/// Number of headers that almost every request and answer has at most.
const FEW_HEADERS: usize = 32;

/// Number of pieces that almost every body has at most.
const FEW: usize = 4;

/// Pieces of a body that are lent.
pub enum Pieces<'a> {
    /// So many of these.
    Few([&'a [u8]; FEW], usize),
    /// All of these.
    Many(Vec<&'a [u8]>),
}

impl<'a> Deref for Pieces<'a> {
    type Target = [&'a [u8]];

    fn deref(&self) -> &Self::Target {
        match self {
            Pieces::Few(pieces, count) => &pieces[..*count],
            Pieces::Many(pieces) => pieces,
        }
    }
}

/// Owner of static metadata.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Source {
    /// Route of the request.
    Route = 1,
    /// Cluster of the attempt.
    Cluster = 2,
}

/// Attribute `response.code_details`.
const DETAILS_OF_ANSWER: u32 = 16;

/// Attribute `upstream.request_attempt_count`.
const ATTEMPTS: u32 = 53;

/// Severity of a line in Envoy's log.
const ERROR: u32 = 4;

/// Advice that the pages of a place in memory are not needed (madvise(2)).
const NOT_NEEDED: c_int = 4;

unsafe extern "C" {
    fn madvise(start: *mut c_void, length: usize, advice: c_int) -> c_int;
    fn envoy_dynamic_module_callback_log(level: u32, message: Buffer);
    fn envoy_dynamic_module_callback_is_validation_mode() -> bool;
    fn envoy_dynamic_module_callback_http_get_header(
        stream: Handle,
        headers: Headers,
        name: Buffer,
        value: *mut Buffer,
        index: usize,
        count: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_headers_size(stream: Handle, headers: Headers) -> usize;
    fn envoy_dynamic_module_callback_http_get_headers(
        stream: Handle,
        headers: Headers,
        out: *mut Header,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_header(
        stream: Handle,
        headers: Headers,
        name: Buffer,
        value: Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_add_header(
        stream: Handle,
        headers: Headers,
        name: Buffer,
        value: Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_send_response(
        stream: Handle,
        status: u32,
        headers: *const Header,
        count: usize,
        body: Buffer,
        details: Buffer,
    );
    fn envoy_dynamic_module_callback_http_get_body_size(stream: Handle, body: Body) -> usize;
    fn envoy_dynamic_module_callback_http_get_body_chunks_size(stream: Handle, body: Body) -> usize;
    fn envoy_dynamic_module_callback_http_get_body_chunks(
        stream: Handle,
        body: Body,
        out: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_append_body(stream: Handle, body: Body, data: Buffer) -> bool;
    fn envoy_dynamic_module_callback_http_drain_body(stream: Handle, body: Body, bytes: usize) -> bool;
    fn envoy_dynamic_module_callback_http_received_buffered_request_body(stream: Handle) -> bool;
    fn envoy_dynamic_module_callback_http_get_metadata_string(
        stream: Handle,
        source: Source,
        namespace: Buffer,
        key: Buffer,
        value: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_dynamic_metadata_struct(
        stream: Handle,
        namespace: Buffer,
        value: Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        stream: Handle,
        attribute: u32,
        value: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
        stream: Handle,
        attribute: u32,
        value: *mut u64,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
        stream: Handle,
        key: Buffer,
        value: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
        stream: Handle,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_clear_route_cache(stream: Handle);
    fn envoy_dynamic_module_callback_http_set_buffer_limit(stream: Handle, bytes: u64);
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        config: Handle,
        name: Buffer,
        labels: *const Buffer,
        count: usize,
        id: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_increment_counter(
        stream: Handle,
        id: usize,
        labels: *const Buffer,
        count: usize,
        by: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
        config: Handle,
        id: usize,
        labels: *const Buffer,
        count: usize,
        by: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
        config: Handle,
        name: Buffer,
        labels: *const Buffer,
        count: usize,
        id: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_increment_gauge(
        stream: Handle,
        id: usize,
        labels: *const Buffer,
        count: usize,
        by: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_decrement_gauge(
        stream: Handle,
        id: usize,
        labels: *const Buffer,
        count: usize,
        by: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_get_cluster_host_count(
        stream: Handle,
        priority: u32,
        total: *mut usize,
        healthy: *mut usize,
        degraded: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(stream: Handle);
    fn envoy_dynamic_module_callback_http_filter_scheduler_new(stream: Handle) -> Handle;
    fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: Handle, event: u64);
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: Handle);
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: Handle) -> Handle;
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: Handle);
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(scheduler: Handle, event: u64);
}

const FAILED: &str = "the gateway failed on this request: report it";

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Return the number of panics since the last call.
pub fn take_panics() -> u64 {
    if PANICS.load(Ordering::Relaxed) == 0 { 0 } else { PANICS.swap(0, Ordering::Relaxed) }
}

/// Drop the pages of a place in memory, which come back from its file: no page of it may have been written.
pub fn drop_pages(start: usize, end: usize) {
    unsafe { madvise(start as *mut c_void, end - start, NOT_NEEDED) };
}

/// Write an error to Envoy's log.
pub fn log_error(message: &str) {
    unsafe { envoy_dynamic_module_callback_log(ERROR, Buffer::of(message.as_bytes())) }
}

/// Counter that Envoy publishes.
#[derive(Clone, Copy)]
pub struct Counter(usize);

/// Gauge that Envoy publishes.
#[derive(Clone, Copy)]
pub struct Gauge(usize);

/// Means to wake a stream from any thread, as long as the stream lives.
pub struct Scheduler(Handle);

// Safety: Envoy lets any thread wake a stream, and delete the scheduler.
unsafe impl Send for Scheduler {}

impl Scheduler {
    /// Let the stream's worker call the filter's hook soon.
    pub fn wake(&self) {
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, 0) }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}

/// Envoy while a filter is configured.
pub struct Setup(Handle);

impl Setup {
    /// Return whether Envoy only checks its configuration.
    pub fn is_validation(&self) -> bool {
        unsafe { envoy_dynamic_module_callback_is_validation_mode() }
    }

    /// Define a counter with labels.
    pub fn counter(&mut self, name: &str, labels: &[&str]) -> Result<Counter, String> {
        let labels = buffers(labels);
        let mut id = 0;
        let name_ = Buffer::of(name.as_bytes());
        let failed = unsafe {
            envoy_dynamic_module_callback_http_filter_config_define_counter(
                self.0,
                name_,
                labels.as_ptr(),
                labels.len(),
                &mut id,
            )
        };
        if failed == 0 { Ok(Counter(id)) } else { Err(format!("Envoy refused the counter {name}: {failed}")) }
    }

    /// Define a gauge with labels.
    pub fn gauge(&mut self, name: &str, labels: &[&str]) -> Result<Gauge, String> {
        let labels = buffers(labels);
        let mut id = 0;
        let name_ = Buffer::of(name.as_bytes());
        let failed = unsafe {
            envoy_dynamic_module_callback_http_filter_config_define_gauge(
                self.0,
                name_,
                labels.as_ptr(),
                labels.len(),
                &mut id,
            )
        };
        if failed == 0 { Ok(Gauge(id)) } else { Err(format!("Envoy refused the gauge {name}: {failed}")) }
    }

    /// Add to a counter.
    pub fn increment(&mut self, counter: Counter, labels: &[&str], by: u64) {
        let labels = buffers(labels);
        unsafe {
            envoy_dynamic_module_callback_http_filter_config_increment_counter(
                self.0,
                counter.0,
                labels.as_ptr(),
                labels.len(),
                by,
            );
        }
    }

    /// Return what calls the configuration on Envoy's main thread.
    pub fn caller(&mut self) -> Caller {
        Caller(unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_new(self.0) })
    }
}

/// What calls `Factory::called` on Envoy's main thread, as long as the configuration is there.
pub struct Caller(Handle);

// Safety: Envoy's scheduler is for other threads; it refers to its configuration weakly.
unsafe impl Send for Caller {}

impl Caller {
    /// Ask for a call.
    pub fn call(&self) {
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, 0) }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}

/// Stream of Envoy's within one hook.
pub struct Stream<'hook> {
    handle: Handle,
    answered: &'hook Cell<bool>,
}

impl Stream<'_> {
    /// Let a reader have all headers, which takes less time than to look for a few.
    pub fn headers<'a, R>(&'a self, headers: Headers, read: impl FnOnce(&[Lent<'a>]) -> R) -> R {
        let count = unsafe { envoy_dynamic_module_callback_http_get_headers_size(self.handle, headers) };
        let (mut few, mut many) = ([const { MaybeUninit::uninit() }; FEW_HEADERS], Vec::new());
        let all: &mut [MaybeUninit<Lent>] = if count > FEW_HEADERS {
            many.resize_with(count, MaybeUninit::uninit);
            &mut many
        } else {
            &mut few[..count]
        };
        let out = all.as_mut_ptr().cast::<Header>();
        let found =
            count > 0 && unsafe { envoy_dynamic_module_callback_http_get_headers(self.handle, headers, out) };
        // Safety: Envoy has written as many as it counted. They are borrowed from self, which each setter needs
        // exclusively.
        read(if found { unsafe { std::slice::from_raw_parts(out.cast(), count) } } else { &[] })
    }

    /// Return a header's first value.
    pub fn header(&self, headers: Headers, name: &str) -> Option<&[u8]> {
        let (value, count) = self.value(headers, name);
        // Safety: borrowed from self, which each setter needs exclusively.
        (count > 0).then(|| unsafe { value.bytes() })
    }

    /// Return a header's first value, if it is UTF-8.
    pub fn text(&self, headers: Headers, name: &str) -> Option<&str> {
        self.header(headers, name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Return the number of a header's values.
    pub fn count(&self, headers: Headers, name: &str) -> usize {
        self.value(headers, name).1
    }

    fn value(&self, headers: Headers, name: &str) -> (Buffer, usize) {
        let (mut value, mut count) = (Buffer::NONE, 0);
        let name = Buffer::of(name.as_bytes());
        let found = unsafe {
            envoy_dynamic_module_callback_http_get_header(
                self.handle,
                headers,
                name,
                &mut value,
                0,
                &mut count,
            )
        };
        if found { (value, count) } else { (Buffer::NONE, 0) }
    }

    /// Replace a header, or remove it.
    pub fn set_header(&mut self, headers: Headers, name: &str, value: Option<&[u8]>) {
        let name = Buffer::of(name.as_bytes());
        let value = value.map_or(Buffer::NONE, Buffer::of);
        unsafe { envoy_dynamic_module_callback_http_set_header(self.handle, headers, name, value) };
    }

    /// Add a header, which takes less than replacing one.
    pub fn add_header(&mut self, headers: Headers, name: &str, value: &[u8]) {
        let (name, value) = (Buffer::of(name.as_bytes()), Buffer::of(value));
        unsafe { envoy_dynamic_module_callback_http_add_header(self.handle, headers, name, value) };
    }

    /// Answer the request.
    pub fn answer(&mut self, status: u32, headers: &[(&str, &str)], body: &str, details: &str) {
        if self.answered.replace(true) {
            return;
        }
        let buffer = |text: &str| Buffer::of(text.as_bytes());
        let headers: Vec<Header> =
            headers.iter().map(|(name, value)| Header { name: buffer(name), value: buffer(value) }).collect();
        let details = format!("{DETAILS}{details}");
        let (body, details) = (buffer(body), buffer(&details));
        unsafe {
            envoy_dynamic_module_callback_http_send_response(
                self.handle,
                status,
                headers.as_ptr(),
                headers.len(),
                body,
                details,
            );
        }
    }

    /// Refuse the request.
    pub fn refuse(&mut self, refusal: &Refusal) {
        self.answer(refusal.code.status, &refusal.headers(), &refusal.body(), refusal.code.name);
    }

    /// Return the pieces of a body.
    pub fn body(&self, body: Body) -> Pieces<'_> {
        let count = unsafe { envoy_dynamic_module_callback_http_get_body_chunks_size(self.handle, body) };
        let (mut few, mut many) = ([Buffer::NONE; FEW], vec![]);
        let out = if count > FEW {
            many.resize(count, Buffer::NONE);
            many.as_mut_ptr()
        } else {
            few.as_mut_ptr()
        };
        let found = count > 0
            && unsafe { envoy_dynamic_module_callback_http_get_body_chunks(self.handle, body, out) };
        // Safety: borrowed from self, which each setter needs exclusively.
        let lent = |piece: Buffer| unsafe { piece.bytes() };
        match (found, count > FEW) {
            (false, _) => Pieces::Few([&[]; FEW], 0),
            (true, false) => Pieces::Few(few.map(lent), count),
            (true, true) => Pieces::Many(many.into_iter().map(lent).collect()),
        }
    }

    /// Return the number of bytes of a body.
    pub fn body_bytes(&self, body: Body) -> usize {
        unsafe { envoy_dynamic_module_callback_http_get_body_size(self.handle, body) }
    }

    /// Return the request's body so far, copied only if it is in several pieces.
    pub fn request_body(&self) -> Cow<'_, [u8]> {
        // Envoy may call with what it held as the piece received.
        let again = unsafe { envoy_dynamic_module_callback_http_received_buffered_request_body(self.handle) };
        let held = if again { Pieces::Few([&[]; FEW], 0) } else { self.body(Body::BufferedRequest) };
        let received = self.body(Body::ReceivedRequest);
        match (&held[..], &received[..]) {
            ([whole], []) | ([], [whole]) => Cow::Borrowed(whole),
            (held, received) => Cow::Owned([held.concat(), received.concat()].concat()),
        }
    }

    /// Replace the request's body, of which all pieces are there. Its `content-length` stays as it is.
    pub fn set_request_body(&mut self, data: &[u8]) {
        let received = self.drain(Body::ReceivedRequest);
        let buffered = self.drain(Body::BufferedRequest);
        let body = if received > 0 || buffered == 0 { Body::ReceivedRequest } else { Body::BufferedRequest };
        self.append(body, data);
    }

    /// Replace the end of the request's body from a place on, of which all pieces are there, with some bytes in total.
    /// Its `content-length` stays as it is.
    pub fn set_request_end(&mut self, bytes: usize, place: usize, end: &[u8]) {
        if let Some((now, later)) = end.split_at_checked(bytes - place) {
            for body in [Body::ReceivedRequest, Body::BufferedRequest] {
                if let Some(piece) = self.only_piece(body).filter(|piece| piece.len() == bytes) {
                    piece[place..].copy_from_slice(now);
                    return self.append(body, later);
                }
            }
        }
        let whole = [&self.request_body()[..place], end].concat();
        self.set_request_body(&whole);
    }

    /// Replace the piece of the answer's body, which has some bytes.
    pub fn set_response_piece(&mut self, bytes: usize, data: &[u8]) {
        self.drain_bytes(Body::ReceivedResponse, bytes);
        if !data.is_empty() {
            self.append(Body::ReceivedResponse, data);
        }
    }

    /// Take a part out of the answer's body, which is in one piece.
    pub fn cut_response_piece(&mut self, part: Range<usize>) {
        // Envoy drops bytes at the begin of a body only: so what precedes the part takes its place.
        if let Some(piece) = self.only_piece(Body::ReceivedResponse) {
            piece.copy_within(..part.start, part.len());
            self.drain_bytes(Body::ReceivedResponse, part.len());
        }
    }

    /// Return the piece of a body that has one, to be changed.
    fn only_piece(&mut self, body: Body) -> Option<&mut [u8]> {
        let mut piece = Buffer::NONE;
        let is_lent = unsafe {
            envoy_dynamic_module_callback_http_get_body_chunks_size(self.handle, body) == 1
                && envoy_dynamic_module_callback_http_get_body_chunks(self.handle, body, &mut piece)
        };
        // Safety: Envoy lends the bytes of a body to be changed, too, and they are borrowed from self exclusively.
        (is_lent && !piece.start.is_null())
            .then(|| unsafe { std::slice::from_raw_parts_mut(piece.start.cast_mut(), piece.length) })
    }

    /// Add to the answer's body, which has ended with trailers.
    pub fn append_response(&mut self, data: &[u8]) {
        self.append(Body::BufferedResponse, data);
    }

    fn drain(&mut self, body: Body) -> usize {
        let bytes = self.body_bytes(body);
        self.drain_bytes(body, bytes);
        bytes
    }

    fn drain_bytes(&mut self, body: Body, bytes: usize) {
        if bytes > 0 {
            unsafe { envoy_dynamic_module_callback_http_drain_body(self.handle, body, bytes) };
        }
    }

    fn append(&mut self, body: Body, data: &[u8]) {
        unsafe { envoy_dynamic_module_callback_http_append_body(self.handle, body, Buffer::of(data)) };
    }

    /// Return a text of the metadata of a route or cluster; an absent one is empty.
    pub fn metadata(&self, source: Source, namespace: &str, key: &str) -> &[u8] {
        let (namespace, key) = (Buffer::of(namespace.as_bytes()), Buffer::of(key.as_bytes()));
        let mut value = Buffer::NONE;
        let found = unsafe {
            envoy_dynamic_module_callback_http_get_metadata_string(
                self.handle,
                source,
                namespace,
                key,
                &mut value,
            )
        };
        // Safety: borrowed from self, which each setter needs exclusively.
        if found { unsafe { value.bytes() } } else { &[] }
    }

    /// Set dynamic metadata, an encoded `google.protobuf.Struct`.
    pub fn set_metadata(&mut self, namespace: &str, encoded: &[u8]) {
        let (namespace, value) = (Buffer::of(namespace.as_bytes()), Buffer::of(encoded));
        unsafe {
            envoy_dynamic_module_callback_http_set_dynamic_metadata_struct(self.handle, namespace, value)
        };
    }

    /// Return Envoy's details of the answer; empty if there is none.
    pub fn details(&self) -> &[u8] {
        let mut value = Buffer::NONE;
        let found = unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_string(
                self.handle,
                DETAILS_OF_ANSWER,
                &mut value,
            )
        };
        // Safety: borrowed from self, which each setter needs exclusively.
        if found { unsafe { value.bytes() } } else { &[] }
    }

    /// Return whether this is the first attempt at the request, and certainly so.
    pub fn is_first_attempt(&self) -> bool {
        let mut attempts = 0;
        let found = unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_int(self.handle, ATTEMPTS, &mut attempts)
        };
        found && attempts == 1
    }

    /// Return a filter state, which all attempts at a request share.
    pub fn state(&self, key: &str) -> Option<&[u8]> {
        let mut value = Buffer::NONE;
        let key = Buffer::of(key.as_bytes());
        let found = unsafe {
            envoy_dynamic_module_callback_http_get_filter_state_bytes(self.handle, key, &mut value)
        };
        // Safety: borrowed from self, which each setter needs exclusively.
        found.then(|| unsafe { value.bytes() })
    }

    /// Set a filter state, once.
    pub fn set_state(&mut self, key: &str, value: &[u8]) -> bool {
        let (key, value) = (Buffer::of(key.as_bytes()), Buffer::of(value));
        unsafe { envoy_dynamic_module_callback_http_set_filter_state_bytes(self.handle, key, value) }
    }

    /// Let Envoy choose the route anew.
    pub fn clear_route_cache(&mut self) {
        unsafe { envoy_dynamic_module_callback_http_clear_route_cache(self.handle) }
    }

    /// Set the number of bytes that Envoy holds of a body.
    pub fn set_buffer_limit(&mut self, bytes: u64) {
        unsafe { envoy_dynamic_module_callback_http_set_buffer_limit(self.handle, bytes) }
    }

    /// Add to a counter.
    pub fn increment(&mut self, counter: Counter, labels: &[&str], by: u64) {
        let labels = buffers(labels);
        unsafe {
            envoy_dynamic_module_callback_http_filter_increment_counter(
                self.handle,
                counter.0,
                labels.as_ptr(),
                labels.len(),
                by,
            );
        }
    }

    /// Add to a gauge.
    pub fn add(&mut self, gauge: Gauge, labels: &[&str], by: u64) {
        let labels = buffers(labels);
        let (of, count) = (labels.as_ptr(), labels.len());
        unsafe {
            envoy_dynamic_module_callback_http_filter_increment_gauge(self.handle, gauge.0, of, count, by)
        };
    }

    /// Subtract from a gauge.
    pub fn subtract(&mut self, gauge: Gauge, labels: &[&str], by: u64) {
        let labels = buffers(labels);
        let (of, count) = (labels.as_ptr(), labels.len());
        unsafe {
            envoy_dynamic_module_callback_http_filter_decrement_gauge(self.handle, gauge.0, of, count, by)
        };
    }

    /// Return whether the cluster of the route exists and has an instance.
    pub fn has_hosts(&self) -> bool {
        let (mut total, mut healthy, mut degraded) = (0, 0, 0);
        let exists = unsafe {
            envoy_dynamic_module_callback_http_get_cluster_host_count(
                self.handle,
                0,
                &mut total,
                &mut healthy,
                &mut degraded,
            )
        };
        exists && total > 0
    }

    /// Return the means to wake this stream.
    pub fn scheduler(&mut self) -> Scheduler {
        Scheduler(unsafe { envoy_dynamic_module_callback_http_filter_scheduler_new(self.handle) })
    }
}

fn buffers(labels: &[&str]) -> Vec<Buffer> {
    labels.iter().map(|label| Buffer::of(label.as_bytes())).collect()
}

/// Filter of one stream, as Envoy keeps it.
struct Slot {
    filter: RefCell<Box<dyn Filter>>,
    answered: Cell<bool>,
    failed: Cell<bool>,
}

/// Phase of a stream in which a hook runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Request,
    Response,
}

/// Run a hook of a filter. `idle` is the answer of a filter that is busy; `failed` that of one that failed.
///
/// Safety: `slot` is one that `envoy_dynamic_module_on_http_filter_new` returned and that is not destroyed.
unsafe fn hook<T: Copy>(
    stream: Handle,
    slot: Handle,
    phase: Phase,
    idle: T,
    failed: T,
    run: impl FnOnce(&mut dyn Filter, &mut Stream) -> T,
) -> T {
    // Shared, because Envoy calls hooks within hooks.
    let slot = unsafe { &*slot.cast::<Slot>() };
    if slot.failed.get() {
        return failed;
    }
    let Ok(mut filter) = slot.filter.try_borrow_mut() else { return idle };
    let mut stream = Stream { handle: stream, answered: &slot.answered };
    catch_unwind(AssertUnwindSafe(|| run(filter.as_mut(), &mut stream))).unwrap_or_else(|_| {
        fail(slot, filter.as_mut(), &mut stream);
        if phase == Phase::Request {
            stream.refuse(&Refusal::new(&INTERNAL_ERROR, FAILED));
        }
        failed
    })
}

/// Count a panic in a hook of a filter, whose hooks are not called any more.
fn fail(slot: &Slot, filter: &mut dyn Filter, stream: &mut Stream) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    slot.failed.set(true);
    let _ = catch_unwind(AssertUnwindSafe(|| filter.failed(stream)));
}

/// Filters of a module: their names in Envoy's configuration, and what reads the configuration of each.
pub(crate) type Filters =
    &'static [(&'static str, fn(&mut Setup, &[u8]) -> Result<Box<dyn Factory>, String>)];

static FILTERS: OnceLock<Filters> = OnceLock::new();

/// Offer filters to Envoy, and return the version of the ABI that these declarations follow.
pub(crate) fn offer(filters: Filters) -> *const c_char {
    FILTERS.get_or_init(|| filters);
    c"v0.2.0".as_ptr()
}

fn configure(setup: &mut Setup, name: &[u8], text: &[u8]) -> Result<Box<dyn Factory>, String> {
    let filters = FILTERS.get().copied().unwrap_or_default();
    match filters.iter().find(|(known, _)| known.as_bytes() == name) {
        Some((_, read)) => read(setup, text),
        None => {
            let names: Vec<_> = filters.iter().map(|(known, _)| *known).collect();
            Err(format!("the filters are {}", names.join(" and ")))
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    config: Handle,
    name: Buffer,
    text: Buffer,
) -> Handle {
    let (name, text) = unsafe { (name.bytes(), text.bytes()) };
    let configured = catch_unwind(AssertUnwindSafe(|| configure(&mut Setup(config), name, text)));
    match configured.unwrap_or_else(|_| Err("a defect of the module".into())) {
        Ok(factory) => Box::into_raw(Box::new(factory)).cast(),
        Err(problem) => {
            log_error(&format!("modelplane filter {}: {problem}", String::from_utf8_lossy(name)));
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(factory: Handle) {
    let factory = unsafe { Box::from_raw(factory.cast::<Box<dyn Factory>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(factory)));
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    config: Handle,
    factory: Handle,
    _event: u64,
) {
    let factory = unsafe { &*factory.cast::<Box<dyn Factory>>() };
    let _ = catch_unwind(AssertUnwindSafe(|| factory.called(&mut Setup(config))));
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    factory: Handle,
    _stream: Handle,
) -> Handle {
    let factory = unsafe { &*factory.cast::<Box<dyn Factory>>() };
    match catch_unwind(AssertUnwindSafe(|| factory.filter())) {
        Ok(filter) => {
            let slot =
                Slot { filter: RefCell::new(filter), answered: Cell::new(false), failed: Cell::new(false) };
            Box::into_raw(Box::new(slot)).cast()
        }
        Err(_) => ptr::null_mut(),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(slot: Handle) {
    let slot = unsafe { Box::from_raw(slot.cast::<Slot>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(slot)));
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    stream: Handle,
    slot: Handle,
    end: bool,
) -> u32 {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.request_headers(stream, end);
    unsafe { hook(stream, slot, Phase::Request, OnHeaders::Continue, OnHeaders::Stop, run) as u32 }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
    stream: Handle,
    slot: Handle,
    end: bool,
) -> u32 {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.request_body(stream, end);
    unsafe { hook(stream, slot, Phase::Request, OnBody::Continue, OnBody::Drop, run) as u32 }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(
    stream: Handle,
    slot: Handle,
) -> u32 {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.request_trailers(stream);
    let goes_on = unsafe { hook(stream, slot, Phase::Request, true, false, run) };
    u32::from(!goes_on)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    stream: Handle,
    slot: Handle,
    end: bool,
) -> u32 {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.response_headers(stream, end);
    unsafe { hook(stream, slot, Phase::Response, (), (), run) };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_body(
    stream: Handle,
    slot: Handle,
    end: bool,
) -> u32 {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.response_body(stream, end);
    unsafe { hook(stream, slot, Phase::Response, (), (), run) };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(
    stream: Handle,
    slot: Handle,
) -> u32 {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.response_trailers(stream);
    unsafe { hook(stream, slot, Phase::Response, (), (), run) };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
    stream: Handle,
    slot: Handle,
) {
    let run = |filter: &mut dyn Filter, stream: &mut Stream| filter.complete(stream);
    unsafe { hook(stream, slot, Phase::Response, (), (), run) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    stream: Handle,
    slot: Handle,
    _event: u64,
) {
    // Envoy frees the slot if the stream ends while the request goes on or is answered: only the handle is used.
    match unsafe { wake(stream, slot) } {
        OnWake::Stay => {}
        OnWake::Continue => unsafe { envoy_dynamic_module_callback_http_filter_continue_decoding(stream) },
        OnWake::Refuse(refusal) => {
            Stream { handle: stream, answered: &Cell::new(false) }.refuse(&refusal);
        }
    }
}

/// Wake a filter.
///
/// Safety: as for `hook`.
unsafe fn wake(stream: Handle, slot: Handle) -> OnWake {
    let slot = unsafe { &*slot.cast::<Slot>() };
    if slot.failed.get() || slot.answered.get() {
        return OnWake::Stay;
    }
    let Ok(mut filter) = slot.filter.try_borrow_mut() else { return OnWake::Stay };
    let mut stream = Stream { handle: stream, answered: &slot.answered };
    let next = catch_unwind(AssertUnwindSafe(|| filter.wake(&mut stream))).unwrap_or_else(|_| {
        fail(slot, filter.as_mut(), &mut stream);
        OnWake::Refuse(Refusal::new(&INTERNAL_ERROR, FAILED))
    });
    slot.answered.set(matches!(next, OnWake::Refuse(_)));
    next
}

/// Hooks that Envoy demands and that these filters do not use.
macro_rules! unused {
    ($($name:ident($($type:ty),*) $(-> $answer:ty = $value:expr)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($(_: $type),*) $(-> $answer)? { $($value)? }
        )*
    };
}

unused! {
    envoy_dynamic_module_on_http_filter_http_callout_done(Handle, Handle, u64, u32, Handle, usize, Handle, usize);
    envoy_dynamic_module_on_http_filter_http_stream_headers(Handle, Handle, u64, Handle, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_data(Handle, Handle, u64, Handle, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_trailers(Handle, Handle, u64, Handle, usize);
    envoy_dynamic_module_on_http_filter_http_stream_complete(Handle, Handle, u64);
    envoy_dynamic_module_on_http_filter_http_stream_reset(Handle, Handle, u64, u32);
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(Handle, Handle);
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(Handle, Handle);
    envoy_dynamic_module_on_http_filter_config_http_callout_done(Handle, Handle, u64, u32, Handle, usize, Handle, usize);
    envoy_dynamic_module_on_http_filter_local_reply(Handle, Handle, u32, Buffer, bool) -> u32 = 0;
    envoy_dynamic_module_on_http_filter_per_route_config_new(Buffer, Buffer) -> Handle = ptr::null_mut();
    envoy_dynamic_module_on_http_filter_per_route_config_destroy(Handle);
}
