//! Exponential backoff with full jitter, as in "Exponential Backoff And Jitter" of the AWS Architecture Blog:
//! a random time between nothing and the doubled base, so that callers that failed together do not try again
//! together.

use core::time::Duration;

/// How often something is tried before its failure is reported.
pub const ATTEMPTS: u32 = 8;

const BASE: Duration = Duration::from_millis(10);
const CAP: Duration = Duration::from_secs(1);

/// How long to wait after the failed attempt number `attempt` (from 0): between 0 and min(1 s, 10 ms ×
/// 2^attempt), chosen by `random`.
pub fn delay(attempt: u32, random: u32) -> Duration {
    let most = BASE.saturating_mul(1u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(CAP);
    let nanos = most.as_nanos() as u64 * random as u64 / u32::MAX as u64;
    Duration::from_nanos(nanos)
}
