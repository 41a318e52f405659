//! The settings. Each is private; the type of what the rest of the code reads states its unit.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;

use hilo_core::node_id::NodeId;
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
/// Text, because Citus can be what says it; see [`NodeId`].
static NODE_ID: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static NODE_COUNT: GucSetting<i32> = GucSetting::<i32>::new(1);
static AUTO_CREATE: GucSetting<bool> = GucSetting::<bool>::new(false);
/// A node cannot see whether the others do the same, so the user has to say it.
static ON_EVERY_NODE: GucSetting<bool> = GucSetting::<bool>::new(false);
/// -1: as many values as may have been reserved ahead within a minute of lag; see
/// [`policy::failover_skip`].
static FAILOVER_SKIP: GucSetting<i32> = GucSetting::<i32>::new(-1);

struct Int {
    name: &'static CStr,
    what: &'static CStr,
    why: &'static CStr,
    setting: &'static GucSetting<i32>,
    range: (i32, i32),
    context: GucContext,
    flags: GucFlags,
}

#[rustfmt::skip]
fn integers() -> Vec<Int> {
    use GucContext::{Postmaster, Sighup, Userset};
    let none = GucFlags::default();
    let (s, ms) = (GucFlags::UNIT_S, GucFlags::UNIT_MS);
    vec![
        Int { name: c"hilo.max_sequences", what: c"Sets the maximum number of sequences that can \
                                                   be active at the same time.",
              why: c"Each slot takes about 2.5 kB of shared memory. When all slots are taken, the \
                     longest idle sequence is flushed to the catalog.",
              setting: &MAX_SEQUENCES, range: (16, 1_000_000), context: Postmaster, flags: none },
        Int { name: c"hilo.max_backend_slices", what: c"Sets the maximum number of sequences of \
                                                        which one session can hold a slice.",
              why: c"Each slice takes 64 bytes of shared memory for every allowed connection.",
              setting: &MAX_BACKEND_SLICES, range: (1, 4096), context: Postmaster, flags: none },
        Int { name: c"hilo.max_slice_size", what: c"Sets the maximum number of values that a \
                                                    session takes from the pool at once.",
              why: c"The slice_size of a sequence takes precedence.",
              setting: &MAX_SLICE_SIZE, range: (1, 65_536), context: Sighup, flags: none },
        Int { name: c"hilo.min_block_size", what: c"Sets the smallest block reserved in the \
                                                    catalog, in values.",
              why: c"The block_size of a sequence takes precedence.",
              setting: &MIN_BLOCK_SIZE, range: (1, 1_048_576), context: Sighup, flags: none },
        Int { name: c"hilo.max_block_size", what: c"Sets the largest block reserved in the \
                                                    catalog, in values.",
              why: c"The block_size of a sequence takes precedence.",
              setting: &MAX_BLOCK_SIZE, range: (1, 1_073_741_824), context: Sighup, flags: none },
        Int { name: c"hilo.min_threshold", what: c"Sets the number of values left at which the \
                                                   next block is fetched at the latest.",
              why: c"", setting: &MIN_THRESHOLD,
              range: (0, 1_073_741_824), context: Sighup, flags: none },
        Int { name: c"hilo.buffer", what: c"Sets how many seconds' worth of values are kept ready.",
              why: c"", setting: &BUFFER, range: (1, 3600), context: Sighup, flags: s },
        Int { name: c"hilo.window", what: c"Sets the time over which the rate of a sequence is \
                                            measured.",
              why: c"", setting: &WINDOW, range: (1, 3600), context: Sighup, flags: s },
        Int { name: c"hilo.sample_interval", what: c"Sets how often the rates of the active \
                                                     sequences are sampled.",
              why: c"", setting: &SAMPLE_INTERVAL,
              range: (10, 60_000), context: Sighup, flags: ms },
        Int { name: c"hilo.reserve_timeout", what: c"Sets how long a caller waits for a block \
                                                     before it gets an error.",
              why: c"", setting: &RESERVE_TIMEOUT,
              range: (1, i32::MAX), context: Userset, flags: ms },
        Int { name: c"hilo.worker_idle_timeout", what: c"Sets how long the worker of a database \
                                                         keeps running after the last session of \
                                                         the database has ended.",
              why: c"", setting: &WORKER_IDLE_TIMEOUT,
              range: (0, 3_600_000), context: Sighup, flags: ms },
        Int { name: c"hilo.node_count", what: c"Sets how many servers serve values of the same \
                                                sequences.",
              why: c"", setting: &NODE_COUNT, range: (1, 1024), context: Sighup, flags: none },
        Int { name: c"hilo.failover_skip", what: c"Sets the number of values skipped after a \
                                                   promotion that may have lost reservations.",
              why: c"-1 skips the values that may have been reserved ahead within a minute of lag.",
              setting: &FAILOVER_SKIP, range: (-1, i32::MAX), context: Sighup, flags: none },
    ]
}

/// Whether the server has loaded the library at its start.
static PRELOADED: AtomicBool = AtomicBool::new(false);

pub fn loaded_by_server() -> bool {
    PRELOADED.load(Relaxed)
}

/// What session_preload_libraries was for this session when it began, or is since the files were
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
    // SAFETY: the setting exists, and is a string, which stays as it is while this reads it. What
    // SET has made of it since is in another place than what is read here.
    unsafe {
        let option = pg_sys::find_option(name, false, true, 0);
        if option.is_null() {
            return None;
        }
        let value = (*option.cast::<pg_sys::config_string>()).reset_val;
        Some(SessionLibraries {
            has_hilo: !value.is_null() && lists_hilo(CStr::from_ptr(value).to_bytes()),
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

/// Defines the settings. Postgres does not allow those that are fixed at server start to be defined
/// later: without preloading, those that size shared memory count when the first session makes it.
/// `check_prefix` checks each value of hilo.server_prefix.
pub fn init(preloaded: bool, check_prefix: CheckHook) {
    PRELOADED.store(preloaded, Relaxed);
    for int in integers() {
        let context = match int.context {
            GucContext::Postmaster if !preloaded => GucContext::Sighup,
            context => context,
        };
        let (low, high) = int.range;
        GucRegistry::define_int_guc(
            int.name,
            int.what,
            int.why,
            int.setting,
            low,
            high,
            context,
            int.flags,
        );
    }
    define_switches();
    define_texts(check_prefix);
    // SAFETY: the prefix is a C string literal; called once, from _PG_init.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"hilo".as_ptr()) }
}

fn define_switches() {
    let none = GucFlags::default();
    GucRegistry::define_bool_guc(
        c"hilo.prefetch",
        c"Fetches the next block before the current one runs out.",
        c"",
        &PREFETCH,
        GucContext::Sighup,
        none,
    );
    GucRegistry::define_bool_guc(
        c"hilo.auto_create",
        c"Creates the sequence at the first use of an unknown name.",
        c"",
        &AUTO_CREATE,
        GucContext::Userset,
        none,
    );
    GucRegistry::define_bool_guc(
    c"hilo.on_every_node",
    c"Says that what this session does to the numbers of a sequence is done on every node that \
      shares it.",
    c"Otherwise no statement may begin, restart or move them where several nodes serve.",
    &ON_EVERY_NODE,
    GucContext::Userset,
    none,
);
}

fn define_texts(check_prefix: CheckHook) {
    let none = GucFlags::default();
    // SAFETY: both check hooks are guarded, so no panic unwinds into Postgres.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            c"hilo.server_prefix",
            c"Sets the text that replaces {server} in the keys that this server makes.",
            c"",
            &SERVER_PREFIX,
            GucContext::Suset,
            none,
            Some(check_prefix),
            None,
            None,
        );
        GucRegistry::define_string_guc_with_hooks(
            c"hilo.node_id",
            c"Sets the number of this server among the servers that share sequences.",
            c"It ranges from 0 to hilo.node_count - 1 and is different on each server; citus: the \
          number of the server's group in Citus.",
            &NODE_ID,
            GucContext::Sighup,
            none,
            Some(check_node_id),
            None,
            None,
        );
    }
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

/// Who this server is, as set.
pub fn node_id() -> NodeId {
    let id = NODE_ID.as_ptr();
    // SAFETY: as in `server_prefix_bytes`.
    let text = unsafe { if (*id).is_null() { c"" } else { CStr::from_ptr(*id) } };
    // The check hook has accepted it.
    text.to_str().ok().and_then(NodeId::parse).unwrap_or(NodeId::Unset)
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
    let text = unsafe { if (*value).is_null() { c"" } else { CStr::from_ptr(*value) } };
    let valid = text.to_str().is_ok_and(|text| NodeId::parse(text).is_some());
    if !valid {
        refuse_value(
            "It must be a number from 0 to 1023, or citus, or empty if the server shares no \
             sequences.",
        );
    }
    valid
}

/// Says in the DETAIL why a check hook refuses a value.
pub fn refuse_value(reason: &str) {
    let text = CString::new(reason.replace('\0', "")).unwrap_or_default();
    // SAFETY: sets the static that core's GUC_check_errdetail sets; the text is copied into the
    // memory context of errors, as there.
    unsafe {
        pg_sys::GUC_check_errdetail_string =
            pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr());
    }
}

/// How many servers serve values of a sequence that is numbered now.
pub fn node_count() -> i32 {
    NODE_COUNT.get()
}

/// The prefix, where Postgres keeps it; valid until the setting changes.
pub fn server_prefix_bytes() -> &'static [u8] {
    let prefix = SERVER_PREFIX.as_ptr();
    // SAFETY: Postgres keeps a null pointer or a C string there. No caller does anything that
    // changes the setting while it uses the bytes.
    unsafe { if (*prefix).is_null() { &[] } else { CStr::from_ptr(*prefix).to_bytes() } }
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
