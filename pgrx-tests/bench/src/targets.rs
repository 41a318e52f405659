//! The goals, as ratios within one run, and what a run reached.

use super::bystanders;
use super::results::Results;

/// Whether a ratio must be at most or at least a bound.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One goal.
pub struct Target {
    pub goal: &'static str,
    limit: Limit,
    ratio: fn(&Results) -> Option<f64>,
    /// Why the goal is missed. Written by hand; printed only if a run misses it.
    why: &'static str,
}

/// A goal, compared with a run.
pub struct Verdict {
    pub goal: &'static str,
    pub limit: String,
    pub measured: String,
    /// None if it was not measured.
    pub reached: Option<bool>,
    pub why: &'static str,
}

fn cost(results: &Results, id: &str, floor: &str) -> Option<f64> {
    Some(results.over(&format!("call/{id}"), &format!("call/{floor}"))?.median)
}

fn costs(results: &Results, hilo: &str, core: &str) -> Option<f64> {
    Some(cost(results, hilo, "floor_hilo")? / cost(results, core, "floor_core")?)
}

fn rates(results: &Results, hilo: &str, core: &str) -> Option<f64> {
    results.ratio(&format!("throughput/{hilo}/8"), &format!("throughput/{core}/8"))
}

fn inserts(results: &Results, core: &str) -> Option<f64> {
    results.ratio("insert/hilo", &format!("insert/{core}"))
}

fn copies(results: &Results, what: &str, hilo: &str) -> Option<f64> {
    results.ratio(&format!("copy/{what}/{hilo}"), &format!("copy/{what}/core1000"))
}

fn waits(results: &Results) -> Option<f64> {
    Some(results.sum("steady/waits/hilo")? + results.sum("steady/waits/ordered")?)
}

/// Whole calls, including the making of the name.
fn crowd_in_all(results: &Results) -> Option<f64> {
    results.ratio(&format!("many/hilo/{}", results.words("sequences")), "many/hilo/1")
}

fn crowd_over_the_floor(results: &Results) -> Option<f64> {
    let n = results.words("sequences");
    Some(results.over(&format!("many/hilo/{n}"), &format!("many/floor_hilo/{n}"))?.median)
}

fn crowd(results: &Results) -> Option<f64> {
    let cost = |n: &str| {
        Some(results.over(&format!("many/hilo/{n}"), &format!("many/floor_hilo/{n}"))?.median)
    };
    Some(cost(results.words("sequences"))? / cost("1")?)
}

/// Why throughput falls short.
const FLOOR: &str = "Most of the time all cores do the executor's work for a row. That is the floor in the table of \
    sessions; no contender can exceed it, and it is itself hardly five times CACHE 1.";

/// Why INSERT falls short.
const ROW: &str =
    "The number is a tenth of a row or less: the difference is smaller than that between rounds.";

/// Why many sequences fall short.
const MISSES: &str = "A call on one of many sequences needs seven cache lines that a call on another has not. For 10,000 \
    sequences they come from the third cache or from memory, where those of a single one are in the first.";

/// Why a first call falls short.
const FIRST_PAGES: &str = "The first call touches pages of hilo's library and of shared memory that the session has not \
    mapped yet: some twenty pieces of code of 64 kB, and six parts of shared memory. \
    Core's code and buffers are mapped by the session's start.";

pub const TARGETS: [Target; 31] = [
    Target {
        goal: "cost of a call over the floor, against core's CACHE 1000",
        limit: Limit::AtMost(1.0 / 5.0),
        ratio: |results| costs(results, "hilo", "core1000"),
        why: "",
    },
    Target {
        goal: "the same, against CACHE 1",
        limit: Limit::AtMost(1.0 / 12.0),
        ratio: |results| costs(results, "hilo", "core1"),
        why: "",
    },
    Target {
        goal: "the same of an ordered sequence, against CACHE 1000",
        limit: Limit::AtMost(1.0 / 3.0),
        ratio: |results| costs(results, "ordered", "core1000"),
        why: "",
    },
    Target {
        goal: "numbers a second of 8 sessions on one sequence, against CACHE 1",
        limit: Limit::AtLeast(5.0),
        ratio: |results| rates(results, "hilo", "core1"),
        why: FLOOR,
    },
    Target {
        goal: "the same, against CACHE 100",
        limit: Limit::AtLeast(1.0),
        ratio: |results| rates(results, "hilo", "core100"),
        why: FLOOR,
    },
    Target {
        goal: "the same of an ordered sequence, against CACHE 1",
        limit: Limit::AtLeast(3.0),
        ratio: |results| rates(results, "ordered", "core1"),
        why: FLOOR,
    },
    Target {
        goal: "INSERT … SELECT, time against CACHE 1000",
        limit: Limit::AtMost(1.0),
        ratio: |results| inserts(results, "core1000"),
        why: ROW,
    },
    Target {
        goal: "the same, against CACHE 1: the worst quartile of hilo against the best of core",
        limit: Limit::AtMost(1.0),
        ratio: |results| {
            Some(results.stat("insert/hilo")?.high / results.stat("insert/core1")?.low)
        },
        why: ROW,
    },
    Target {
        goal: "COPY into a table, time against CACHE 1000",
        limit: Limit::AtMost(0.8),
        ratio: |results| copies(results, "table", "hilo"),
        why: "",
    },
    Target {
        goal: "the same, WAL",
        limit: Limit::AtMost(1.05),
        ratio: |results| copies(results, "wal/table", "hilo"),
        why: "",
    },
    Target {
        goal: "COPY into eight partitions, time against CACHE 1000",
        limit: Limit::AtMost(0.8),
        ratio: |results| copies(results, "parts", "hilo"),
        why: "",
    },
    Target {
        goal: "the same, WAL",
        limit: Limit::AtMost(1.05),
        ratio: |results| copies(results, "wal/parts", "hilo"),
        why: "",
    },
    Target {
        goal: "rows for tables that do not use hilo, instructions against a server without it, the worst way",
        limit: Limit::AtMost(1.01),
        ratio: bystanders::worst,
        why: "hilo's hooks look at each statement once.",
    },
    Target {
        goal: "CREATE TABLE AS over a parallel aggregate, times as fast as with CACHE 1",
        limit: Limit::AtLeast(1.3),
        ratio: |results| results.ratio("parallel/core1", "parallel/hilo"),
        why: "The more cores are idle, the more a parallel query gains.",
    },
    Target {
        goal: "calls that wait, of 8 sessions in steady state",
        limit: Limit::AtMost(0.0),
        ratio: waits,
        why: "",
    },
    Target {
        goal: "first call of a session, ms more than with CACHE 1",
        limit: Limit::AtMost(0.05),
        ratio: |results| {
            Some(results.over("first/connect/hilo", "first/connect/core1")?.median * 1e-3)
        },
        why: FIRST_PAGES,
    },
    Target {
        goal: "first uses of many sequences after a start, time against core's",
        limit: Limit::AtMost(1.0),
        ratio: |results| results.ratio("first/use/hilo", "first/use/core"),
        why: "The worker writes a row, and waits for the disk once for each 240 of them, before a block is served. Core \
            reads a row, and logs a record that nothing waits for before the end of the statement.",
    },
    Target {
        goal: "the same right after their creation",
        limit: Limit::AtMost(1.0),
        ratio: |results| results.ratio("first/new/hilo", "first/new/core"),
        why: "As above.",
    },
    Target {
        goal: "connections a second, a call each, against CACHE 1",
        limit: Limit::AtLeast(0.97),
        ratio: |results| results.ratio("first/rate/hilo", "first/rate/core1"),
        why: FIRST_PAGES,
    },
    Target {
        goal: "first number of a sequence that hilo.auto_create creates, ms",
        limit: Limit::AtMost(0.3),
        ratio: |results| Some(results.median("first/created")? * 1e-3),
        why: "The caller waits until the worker has woken, written two rows, once each, and an entry in each of five indexes, \
            and committed to the disk, and until it has woken itself. By strace's count the worker calls `fdatasync` once, and \
            the kernel seven times more; the session calls it four times. Core's CREATE SEQUENCE with `nextval`, in one \
            transaction, calls `fdatasync` once and the kernel eight times more, and no process waits for another.",
    },
    Target {
        goal: "bytes of WAL for a million numbers, against CACHE 1",
        limit: Limit::AtMost(1.0 / 100.0),
        ratio: |results| results.ratio("wal/bytes/hilo", "wal/bytes/core1"),
        why: "",
    },
    Target {
        goal: "10,000 sequences at random, ns over the floor",
        limit: Limit::AtMost(200.0),
        ratio: crowd_over_the_floor,
        why: MISSES,
    },
    Target {
        goal: "cost of a call in all, 10,000 sequences at random against one",
        limit: Limit::AtMost(2.0),
        ratio: crowd_in_all,
        why: MISSES,
    },
    Target {
        goal: "the same over the floor",
        limit: Limit::AtMost(2.0),
        ratio: crowd,
        why: MISSES,
    },
    Target {
        goal: "a number from a client's memory, ns of a processor",
        limit: Limit::AtMost(20.0),
        ratio: |results| results.median("hits/ns"),
        why: "",
    },
    Target {
        goal: "% of numbers that come from a client's memory",
        limit: Limit::AtLeast(99.0),
        ratio: |results| results.median("fleet/memory"),
        why: "",
    },
    Target {
        goal: "commits for a hundred numbers of eight clients",
        limit: Limit::AtMost(0.1),
        ratio: |results| results.median("fleet/catalog"),
        why: "",
    },
    Target {
        goal: "the same, a second",
        limit: Limit::AtMost(20.0),
        ratio: |results| results.median("fleet/commits"),
        why: "",
    },
    Target {
        goal: "calls of a client that wait, in steady state",
        limit: Limit::AtMost(0.0),
        ratio: |results| results.sum("fleet/waits"),
        why: "",
    },
    Target {
        goal: "the same, in an outage that is shorter than the buffer",
        limit: Limit::AtMost(0.0),
        ratio: |results| results.sum("outage/waits"),
        why: "",
    },
    Target {
        goal: "numbers a second of 8 tasks from a client's memory, against one",
        limit: Limit::AtLeast(1.0),
        ratio: |results| results.ratio("hits/client/8", "hits/client/1"),
        why: "",
    },
];

impl Target {
    pub fn judge(&self, results: &Results) -> Verdict {
        let ratio = (self.ratio)(results);
        let (limit, reached) = match self.limit {
            Limit::AtMost(most) => {
                (format!("at most {}", decimals(most)), ratio.map(|r| r <= most))
            }
            Limit::AtLeast(least) => {
                (format!("at least {}", decimals(least)), ratio.map(|r| r >= least))
            }
        };
        let measured = ratio.map_or_else(|| "not measured".to_owned(), decimals);
        Verdict { goal: self.goal, limit, measured, reached, why: self.why }
    }
}

/// Three decimals, or five of a small value, without trailing zeros.
fn decimals(value: f64) -> String {
    let text = if value.abs() < 0.01 { format!("{value:.5}") } else { format!("{value:.3}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_missed_or_reached_or_not_measured() {
        let judge = |hilo: f64| {
            let mut results = Results::default();
            results.push("wal/bytes/hilo", hilo);
            results.push("wal/bytes/core1", 3_000_000.0);
            let wal = TARGETS.iter().find(|target| target.goal.contains("of WAL")).unwrap();
            wal.judge(&results).reached
        };
        assert_eq!((judge(300.0), judge(300_000.0)), (Some(true), Some(false)));
        assert!(TARGETS.iter().all(|target| target.judge(&Results::default()).reached.is_none()));
    }
}
