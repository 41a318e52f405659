//! Exponential backoff with full jitter, as in "Exponential Backoff And Jitter" of the AWS
//! Architecture Blog. The wait is a random time up to a limit that doubles with each failure. So
//! callers that failed together do not try again together.

use core::time::Duration;

/// How often something is tried before its failure is reported.
pub const ATTEMPTS: u32 = 8;

/// How long to wait after the failed attempt number `attempt` (from 0): between 0 and min(1 s, 10
/// ms × 2^attempt), chosen by `random`.
pub fn delay(attempt: u32, random: u32) -> Duration {
    jitter(Duration::from_millis(10), Duration::from_secs(1), attempt, random)
}

/// The delay of a caller that a server had no room for, or that has not reached it: thousands may
/// try at the same time. It is between 0 and min(5 s, 50 ms × 2^attempt).
pub fn delay_of_many(attempt: u32, random: u32) -> Duration {
    jitter(Duration::from_millis(50), Duration::from_secs(5), attempt, random)
}

/// The delay of a request whose answers are lost until the cause is removed. It is between 0 and
/// min(1 min, 50 ms × 2^attempt).
pub fn delay_of_losses(attempt: u32, random: u32) -> Duration {
    jitter(Duration::from_millis(50), Duration::from_secs(60), attempt, random)
}

fn jitter(base: Duration, cap: Duration, attempt: u32, random: u32) -> Duration {
    let most = base.saturating_mul(1u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(cap);
    let nanos = most.as_nanos() * u128::from(random) / u128::from(u32::MAX);
    Duration::from_nanos(nanos as u64)
}
