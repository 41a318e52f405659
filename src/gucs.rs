//! The settings. Each is private; the type of what the rest of the code reads states its unit.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use pgrx::guc::GucContext::{self, Postmaster, Sighup, Suset, Userset};
use pgrx::guc::{GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;

use hilo_core::node_id;
use hilo_core::policy;

/// Postgres's check hook for a string setting.
type CheckHook = unsafe extern "C-unwind" fn(
    *mut *mut c_char,
    *mut *mut c_void,
    pg_sys::GucSource::Type,
) -> bool;

/// The number of slots is fixed at server start because shared memory cannot grow.
static MAX_SEQUENCES: GucSetting<i32> = GucSetting::<i32>::new(10_000);
/// A slice takes one cache line for every backend that the server allows, so the default is
/// moderate.
static MAX_BACKEND_SLICES: GucSetting<i32> = GucSetting::<i32>::new(64);
/// Limits what one session can hold back from the others.
static MAX_SLICE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(256);
static MIN_BLOCK_SIZE: GucSetting<i32> = GucSetting::<i32>::new(32);
static MAX_BLOCK_SIZE: GucSetting<i32> = GucSetting::<i32>::new(1_048_576);
static MIN_THRESHOLD: GucSetting<i32> = GucSetting::<i32>::new(50);
/// How many seconds' worth of values to keep ready: covers a slow commit or a busy disk.
static BUFFER: GucSetting<i32> = GucSetting::<i32>::new(10);
static WINDOW: GucSetting<i32> = GucSetting::<i32>::new(60);
static SAMPLE_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static PREFETCH: GucSetting<bool> = GucSetting::<bool>::new(true);
static RESERVE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(5_000);
/// Short enough for DROP DATABASE, which waits five seconds for other sessions to end.
static WORKER_IDLE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(2_000);
static SERVER_PREFIX: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
/// Text, because it can be empty, and so that what it was until 0.3.0 is refused with a HINT.
static NODE_ID: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static NODE_COUNT: GucSetting<i32> = GucSetting::<i32>::new(1);
static AUTO_CREATE: GucSetting<bool> = GucSetting::<bool>::new(false);
/// A node cannot see whether the others do the same, so the user has to say it.
static ON_EVERY_NODE: GucSetting<bool> = GucSetting::<bool>::new(false);
/// -1: as many values as may have been reserved ahead within a minute of lag; see
/// [`policy::failover_skip`].
static FAILOVER_SKIP: GucSetting<i32> = GucSetting::<i32>::new(-1);

/// How long a query that is the source of a sequence may take.
static SOURCE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(30_000);

const NONE: GucFlags = GucFlags::empty();

#[rustfmt::skip]
fn define_sizes(preloaded: bool) {
    // Postgres does not allow settings that are fixed at server start to be defined later.
    let at_start = || if preloaded { Postmaster } else { Sighup };
    int(c"hilo.max_sequences", &MAX_SEQUENCES, (16, 1_000_000), at_start(), NONE,
        c"Sets the maximum number of sequences that can be active at the same time.",
        c"Each slot takes about 3.2 kB of shared memory. When all slots are taken, the longest \
          idle sequence is flushed to the catalog.");
    int(c"hilo.max_backend_slices", &MAX_BACKEND_SLICES, (1, 4096), at_start(), NONE,
        c"Sets the maximum number of sequences of which one session can hold a slice.",
        c"Each slice takes 64 bytes of shared memory for every allowed connection.");
    int(c"hilo.max_slice_size", &MAX_SLICE_SIZE, (1, 65_536), Sighup, NONE,
        c"Sets the maximum number of values that a session takes from the pool at once.",
        c"The slice_size of a sequence takes precedence.");
    int(c"hilo.min_block_size", &MIN_BLOCK_SIZE, (1, 1_048_576), Sighup, NONE,
        c"Sets the smallest block reserved in the catalog, in values.",
        c"The block_size of a sequence takes precedence.");
    int(c"hilo.max_block_size", &MAX_BLOCK_SIZE, (1, 1_073_741_824), Sighup, NONE,
        c"Sets the largest block reserved in the catalog, in values.",
        c"The block_size of a sequence takes precedence.");
    int(c"hilo.min_threshold", &MIN_THRESHOLD, (0, 1_073_741_824), Sighup, NONE,
        c"Sets the number of values left at which the next block is fetched at the latest.", c"");
    int(c"hilo.node_count", &NODE_COUNT, (1, 1024), Sighup, NONE,
        c"Sets how many servers serve values of the same sequences.", c"");
    int(c"hilo.failover_skip", &FAILOVER_SKIP, (-1, i32::MAX), Sighup, NONE,
        c"Sets the number of values skipped after a promotion that may have lost reservations.",
        c"-1 skips the values that may have been reserved ahead within a minute of lag.");
}

#[rustfmt::skip]
fn define_times() {
    const S: GucFlags = GucFlags::UNIT_S;
    const MS: GucFlags = GucFlags::UNIT_MS;
    int(c"hilo.buffer", &BUFFER, (1, 3600), Sighup, S,
        c"Sets how many seconds' worth of values are kept ready.", c"");
    int(c"hilo.window", &WINDOW, (1, 3600), Sighup, S,
        c"Sets the time over which the rate of a sequence is measured.", c"");
    int(c"hilo.sample_interval", &SAMPLE_INTERVAL, (10, 60_000), Sighup, MS,
        c"Sets how often the rates of the active sequences are sampled.", c"");
    int(c"hilo.reserve_timeout", &RESERVE_TIMEOUT, (1, i32::MAX), Userset, MS,
        c"Sets how long a caller waits for a block before it gets an error.", c"");
    int(c"hilo.source_timeout", &SOURCE_TIMEOUT, (1, 3_600_000), Sighup, MS,
        c"Sets how long the source of a sequence may take to answer.",
        c"After that it is asked again.");
    int(c"hilo.worker_idle_timeout", &WORKER_IDLE_TIMEOUT, (0, 3_600_000), Sighup, MS,
        c"Sets how long the worker of a database keeps running after the last session of the \
          database has ended.", c"");
}

#[rustfmt::skip]
fn define_switches() {
    let switch = GucRegistry::define_bool_guc;
    switch(c"hilo.prefetch", c"Fetches the next block before the current one runs out.", c"",
        &PREFETCH, Sighup, NONE);
    switch(c"hilo.auto_create", c"Creates the sequence at the first use of an unknown name.", c"",
        &AUTO_CREATE, Userset, NONE);
    switch(c"hilo.on_every_node",
        c"Says that what this session does to the numbers of a sequence is done on every node \
          that shares it.",
        c"Otherwise no statement may begin, restart or move them where several nodes serve.",
        &ON_EVERY_NODE, Userset, NONE);
}

#[rustfmt::skip]
fn define_texts(check_prefix: CheckHook) {
    let text = |name, what, why, setting, context, check: CheckHook| {
        // SAFETY: both check hooks are guarded, so no panic unwinds into Postgres.
        unsafe {
            GucRegistry::define_string_guc_with_hooks(
                name, what, why, setting, context, NONE, Some(check), None, None,
            );
        }
    };
    text(c"hilo.server_prefix",
        c"Sets the text that replaces {server} in the keys that this server makes.", c"",
        &SERVER_PREFIX, Suset, check_prefix);
    text(c"hilo.node_id",
        c"Sets the number of this server among the servers that share sequences.",
        c"It ranges from 0 to hilo.node_count - 1 and is different on each server.",
        &NODE_ID, Sighup, check_node_id);
}

fn int(
    name: &'static CStr,
    setting: &'static GucSetting<i32>,
    (low, high): (i32, i32),
    context: GucContext,
    flags: GucFlags,
    what: &'static CStr,
    why: &'static CStr,
) {
    GucRegistry::define_int_guc(name, what, why, setting, low, high, context, flags);
}

/// Whether the server has loaded the library at its start.
static PRELOADED: AtomicBool = AtomicBool::new(false);

pub fn is_preloaded() -> bool {
    PRELOADED.load(Relaxed)
}

/// The value of session_preload_libraries for this session when it began, or since the files were
/// read again.
pub struct SessionLibraries {
    pub has_hilo: bool,
    /// Whether it is the server's value, which no setting of a role or database has replaced.
    pub of_server: bool,
}

/// `None`: where hilo has to be loaded by the server.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub fn session_libraries() -> Option<SessionLibraries> {
    None
}

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
pub fn session_libraries() -> Option<SessionLibraries> {
    let name = c"session_preload_libraries".as_ptr();
    // SAFETY: the setting exists, and is a string, which stays as it is while this reads it. A
    // value that SET has given it since is in another place.
    unsafe {
        let option = pg_sys::find_option(name, false, true, 0);
        if option.is_null() {
            return None;
        }
        let value = (*option.cast::<pg_sys::config_string>()).reset_val;
        Some(SessionLibraries {
            has_hilo: lists_hilo(c_str(value).to_bytes()),
            of_server: (*option).reset_source <= pg_sys::GucSource::PGC_S_ARGV,
        })
    }
}

/// Whether a list of libraries contains this one.
pub fn lists_hilo(libraries: &[u8]) -> bool {
    let is_hilo = |library: &[u8]| {
        let library = library.trim_ascii();
        let library = library.strip_prefix(b"\"").unwrap_or(library);
        let library = library.strip_suffix(b"\"").unwrap_or(library);
        library.strip_prefix(b"$libdir/").unwrap_or(library) == b"hilo"
    };
    libraries.split(|byte| *byte == b',').any(is_hilo)
}

/// Defines the settings. Without preloading, those that size shared memory count when the first
/// session makes it. `check_prefix` checks each value of hilo.server_prefix.
pub fn init(preloaded: bool, check_prefix: CheckHook) {
    PRELOADED.store(preloaded, Relaxed);
    define_sizes(preloaded);
    define_times();
    define_switches();
    define_texts(check_prefix);
    // SAFETY: the prefix is a C string literal; called once, from _PG_init.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"hilo".as_ptr()) }
}

pub fn max_sequences() -> usize {
    MAX_SEQUENCES.get() as usize
}

pub fn max_backend_slices() -> usize {
    MAX_BACKEND_SLICES.get() as usize
}

/// In values.
pub fn max_slice_size() -> i32 {
    MAX_SLICE_SIZE.get()
}

pub fn reserve_timeout() -> Duration {
    Duration::from_millis(RESERVE_TIMEOUT.get() as u64)
}

pub fn source_timeout() -> Duration {
    Duration::from_millis(SOURCE_TIMEOUT.get() as u64)
}

pub fn worker_idle_timeout() -> Duration {
    Duration::from_millis(WORKER_IDLE_TIMEOUT.get() as u64)
}

pub fn sample_interval() -> Duration {
    Duration::from_millis(SAMPLE_INTERVAL.get() as u64)
}

pub fn window() -> Duration {
    Duration::from_secs(WINDOW.get() as u64)
}

/// The settings of the refill policy, for a sequence with this `block_size` of its own.
pub fn refill(block_size: Option<i64>) -> policy::Settings {
    let max_block = MAX_BLOCK_SIZE.get() as i64;
    policy::Settings {
        buffer: BUFFER.get() as f64,
        min_threshold: MIN_THRESHOLD.get() as i64,
        min_block: (MIN_BLOCK_SIZE.get() as i64).min(max_block),
        max_block,
        fixed: block_size,
        prefetch: PREFETCH.get(),
    }
}

/// # Safety
/// `text` is null or a C string, which stays as it is while the result is used.
unsafe fn c_str(text: *const c_char) -> &'static CStr {
    // SAFETY: as the caller guarantees.
    if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } }
}

/// Who this server is among several; `None`: it is not set.
pub fn node_id() -> Option<i32> {
    // SAFETY: as in `server_prefix_bytes`. The check hook has accepted the text.
    let text = unsafe { c_str(*NODE_ID.as_ptr()) };
    text.to_str().ok().and_then(node_id::parse).flatten()
}

/// The check hook of hilo.node_id.
///
/// # Safety
/// `value` must be what Postgres passes to a check hook.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn check_node_id(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: the caller guarantees that `value` points to null or to a C string that outlives the
    // call.
    let text = unsafe { c_str(*value) }.to_string_lossy();
    let valid = node_id::parse(&text).is_some();
    if text.trim().eq_ignore_ascii_case("citus") {
        refuse_value("The nodes of Citus have no ids any more: workers draw from the coordinator.");
        // SAFETY: sets the static that core's GUC_check_errhint sets.
        unsafe { pg_sys::GUC_check_errhint_string = for_errors(LEAVE_STRIPES) };
    } else if !valid {
        refuse_value("It must be a number from 0 to 1023, or empty: it shares no sequences.");
    }
    valid
}

/// How a cluster of Citus leaves the stripes of version 0.3.0.
pub const LEAVE_STRIPES: &str = "Remove hilo.node_id and hilo.node_count from the settings of \
    every node, and let new sequences follow those of version 0.3.0: docs/citus.md says how.";

/// Says in the DETAIL why a check hook refuses a value.
pub fn refuse_value(reason: &str) {
    // SAFETY: sets the static that core's GUC_check_errdetail sets.
    unsafe { pg_sys::GUC_check_errdetail_string = for_errors(reason) };
}

/// A copy in the memory context of errors.
fn for_errors(text: &str) -> *mut c_char {
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    // SAFETY: the text is a C string.
    unsafe { pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr()) }
}

/// How many servers serve values of a sequence that is numbered now.
pub fn node_count() -> i32 {
    NODE_COUNT.get()
}

/// The prefix, where Postgres keeps it; valid until the setting changes.
pub fn server_prefix_bytes() -> &'static [u8] {
    // SAFETY: Postgres keeps a null pointer or a C string there. No caller does anything that
    // changes the setting while it uses the bytes.
    unsafe { c_str(*SERVER_PREFIX.as_ptr()).to_bytes() }
}

pub fn auto_create() -> bool {
    AUTO_CREATE.get()
}

pub fn on_every_node() -> bool {
    ON_EVERY_NODE.get()
}

/// Values to skip for each promotion; `None`: as many as [`policy::failover_skip`] says.
pub fn failover_skip() -> Option<i64> {
    Some(FAILOVER_SKIP.get() as i64).filter(|skip| *skip >= 0)
}
