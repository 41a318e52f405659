//! The settings. Each is private. The rest of the code reads it through a function whose type
//! states the unit.

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

/// The settings that are numbers or switches: type or unit, default, limits, when it can change,
/// and the texts of `pg_settings`. A setting `x` is `hilo.x`, and `x()` reads it. `preloaded` says
/// whether the server loads the library at its start.
macro_rules! settings {
    ($define:ident($preloaded:ident) $(
        $(#[$doc:meta])*
        $vis:vis $name:ident: $type:ident = $default:literal $(in $low:literal..=$high:expr)?,
            $context:expr, $what:literal, $why:literal;
    )+) => {
        #[allow(non_upper_case_globals)]
        mod setting {
            use super::*;
            $($(#[$doc])* pub static $name: GucSetting<settings!(@raw $type)> =
                GucSetting::<settings!(@raw $type)>::new($default);)+
        }

        $($(#[$doc])* $vis fn $name() -> settings!(@type $type) {
            settings!(@value $type setting::$name.get())
        })+

        fn $define($preloaded: bool) {
            $(settings!(
                @define $type c_name(concat!("hilo.", stringify!($name), "\0")), $what, $why,
                &setting::$name, ($($low, $high)?), $context
            );)+
        }
    };
    (@raw bool) => { bool };
    (@raw $type:ident) => { i32 };
    (@type ms) => { Duration };
    (@type s) => { Duration };
    (@type skip) => { Option<i64> };
    (@type $type:ident) => { $type };
    (@value ms $value:expr) => { Duration::from_millis($value as u64) };
    (@value s $value:expr) => { Duration::from_secs($value as u64) };
    (@value skip $value:expr) => { Some(i64::from($value)).filter(|skip| *skip >= 0) };
    (@value bool $value:expr) => { $value };
    (@value $type:ident $value:expr) => { $value as $type };
    (@flags ms) => { GucFlags::UNIT_MS };
    (@flags s) => { GucFlags::UNIT_S };
    (@flags $type:ident) => { GucFlags::empty() };
    (@define bool $name:expr, $what:expr, $why:expr, $setting:expr, (), $context:expr) => {
        GucRegistry::define_bool_guc($name, $what, $why, $setting, $context, GucFlags::empty())
    };
    (@define $type:ident $name:expr, $what:expr, $why:expr, $setting:expr,
        ($low:expr, $high:expr), $context:expr) => {
        GucRegistry::define_int_guc(
            $name, $what, $why, $setting, $low, $high, $context, settings!(@flags $type),
        )
    };
}

settings! {
    define(preloaded)
    /// The number of slots is fixed at server start because shared memory cannot grow.
    pub max_sequences: usize = 10_000 in 16..=1_000_000, at_start(preloaded),
        c"Sets the maximum number of sequences that can be active at the same time.",
        c"Each slot takes about 3.2 kB of shared memory. When all slots are taken, the longest \
          idle sequence is flushed to the catalog.";
    /// A slice takes one cache line for every backend that the server allows, so the default is
    /// moderate.
    pub max_backend_slices: usize = 64 in 1..=4096, at_start(preloaded),
        c"Sets the maximum number of sequences of which one session can hold a slice.",
        c"Each slice takes 64 bytes of shared memory for every allowed connection.";
    /// Limits what one session can hold back from the others.
    pub max_slice_size: i32 = 256 in 1..=65_536, Sighup,
        c"Sets the maximum number of values that a session takes from the pool at once.",
        c"The slice_size of a sequence takes precedence.";
    min_block_size: i64 = 32 in 1..=1_048_576, Sighup,
        c"Sets the smallest block reserved in the catalog, in values.",
        c"The block_size of a sequence takes precedence.";
    max_block_size: i64 = 1_048_576 in 1..=1_073_741_824, Sighup,
        c"Sets the largest block reserved in the catalog, in values.",
        c"The block_size of a sequence takes precedence.";
    min_threshold: i64 = 50 in 0..=1_073_741_824, Sighup,
        c"Sets the number of values left at which the next block is fetched at the latest.", c"";
    /// How many servers serve the values of a sequence that is numbered from now on.
    pub node_count: i32 = 1 in 1..=1024, Sighup,
        c"Sets how many servers serve values of the same sequences.", c"";
    /// How many values to skip for each promotion. `None`: as many as may have been reserved ahead
    /// within a minute of lag (see [`policy::failover_skip`]).
    pub failover_skip: skip = -1 in -1..=i32::MAX, Sighup,
        c"Sets the number of values skipped after a promotion that may have lost reservations.",
        c"-1 skips the values that may have been reserved ahead within a minute of lag.";
    /// How much to keep ready: covers a slow commit or a busy disk.
    buffer: s = 10 in 1..=3600, Sighup,
        c"Sets how many seconds' worth of values are kept ready.", c"";
    pub window: s = 60 in 1..=3600, Sighup,
        c"Sets the time over which the rate of a sequence is measured.", c"";
    pub sample_interval: ms = 1_000 in 10..=60_000, Sighup,
        c"Sets how often the rates of the active sequences are sampled.", c"";
    pub reserve_timeout: ms = 5_000 in 1..=i32::MAX, Userset,
        c"Sets how long a caller waits for a block before it gets an error.", c"";
    /// How long a query that is the source of a sequence may take.
    pub source_timeout: ms = 30_000 in 1..=3_600_000, Sighup,
        c"Sets how long the source of a sequence may take to answer.",
        c"After that it is asked again.";
    pub worker_idle_timeout: ms = 2_000 in 0..=3_600_000, Sighup,
        c"Sets how long the worker of a database keeps running after the last session of the \
          database has ended.", c"";
    prefetch: bool = true, Sighup,
        c"Fetches the next block before the current one runs out.", c"";
    pub auto_create: bool = false, Userset,
        c"Creates the sequence at the first use of an unknown name.", c"";
    /// A node cannot see whether the others do the same, so the user has to say it.
    pub on_every_node: bool = false, Userset,
        c"Says that what this session does to the numbers of a sequence is done on every node \
          that shares it.",
        c"Otherwise no statement may begin, restart or move them where several nodes serve.";
}

/// Postgres does not allow settings that are fixed at server start to be defined later.
fn at_start(preloaded: bool) -> GucContext {
    if preloaded { Postmaster } else { Sighup }
}

/// A literal that ends with a zero byte.
fn c_name(name: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
}

static SERVER_PREFIX: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
/// Text, because it can be empty.
static NODE_ID: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

#[rustfmt::skip]
fn define_texts(check_prefix: CheckHook) {
    let text = |name, what, why, setting, context, check: CheckHook| {
        // SAFETY: both check hooks are guarded, so no panic unwinds into Postgres.
        unsafe {
            GucRegistry::define_string_guc_with_hooks(
                name, what, why, setting, context, GucFlags::empty(), Some(check), None, None,
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

/// The list for this session; `None` if the server has to load hilo.
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
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
        let value = (*option.cast::<pg_sys::config_string>()).reset_val;
        #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
        let value = (*option).__bindgen_anon_1._string.reset_val;
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
    define(preloaded);
    define_texts(check_prefix);
    // SAFETY: the prefix is a C string literal; called once, from _PG_init.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"hilo".as_ptr()) }
}

/// The settings of the refill policy, for a sequence with this `block_size` of its own.
pub fn refill(block_size: Option<i64>) -> policy::Settings {
    let max_block = max_block_size();
    policy::Settings {
        buffer: buffer().as_secs_f64(),
        min_threshold: min_threshold(),
        min_block: min_block_size().min(max_block),
        max_block,
        fixed: block_size,
        prefetch: prefetch(),
    }
}

/// # Safety
/// `text` is null or a C string, which stays as it is while the result is used.
unsafe fn c_str(text: *const c_char) -> &'static CStr {
    // SAFETY: as the caller guarantees.
    if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } }
}

/// The id of this server among several; `None`: it is not set.
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
    if !valid {
        refuse_value("It must be a number from 0 to 1023, or empty: it shares no sequences.");
    }
    valid
}

/// Says in the DETAIL why a check hook refuses a value.
pub fn refuse_value(reason: &str) {
    let text = CString::new(reason.replace('\0', "")).unwrap_or_default();
    // SAFETY: sets the static that core's GUC_check_errdetail sets, to a copy of a C string in the
    // memory context of errors.
    unsafe {
        pg_sys::GUC_check_errdetail_string =
            pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr());
    }
}

/// The prefix, where Postgres keeps it; valid until the setting changes.
pub fn server_prefix_bytes() -> &'static [u8] {
    // SAFETY: Postgres keeps a null pointer or a C string there. No caller does anything that
    // changes the setting while it uses the bytes.
    unsafe { c_str(*SERVER_PREFIX.as_ptr()).to_bytes() }
}
