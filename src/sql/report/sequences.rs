//! The sequences: those that need attention first.

use std::collections::HashMap;

use hilo_core::chart::Step;

use super::findings::Findings;
use super::source::{Part, Source, text};
use super::table::MOST;
use crate::sql::spi;

pub struct Sequence {
    /// In the database's encoding, to be asked for again.
    pub key: Vec<u8>,
    pub name: String,
    pub gapless: bool,
    pub ordered: bool,
    pub cycle: bool,
    /// Whether `hilo_check` has found an error (0) or a warning (1) about it.
    pub rank: Option<i32>,
    /// How much of it is reserved, from 0 to 1.
    pub used: f64,
    /// What its slot says, if it has one.
    pub active: Option<Active>,
    /// Values in the hands of holders.
    pub leased: f64,
}

pub struct Active {
    pub served: i64,
    pub rate: f64,
    /// Values in slices, in the current block, in standby, returned.
    pub tiers: [f64; 4],
    pub waits: i64,
    /// The total and the longest, in milliseconds.
    pub wait_time: [f64; 2],
    pub blocks_reserved: i64,
    pub blocks_prefetched: i64,
    pub errors: i64,
    pub last_error: Option<String>,
    pub last_error_at: Option<String>,
    /// Seconds until the last value is served.
    pub exhausted_in: Option<f64>,
    pub course: Vec<Step>,
}

#[derive(Default)]
pub struct Sequences {
    pub first: Vec<Sequence>,
    pub all: i64,
    pub active: i64,
    /// Values per second, and values in memory, of all of them.
    pub rate: f64,
    pub ready: f64,
    /// Why less is known of them than there could be.
    pub lacking: Vec<String>,
}

/// What the view shows of active sequences, and the same without a row for where it cannot be read.
const ACTIVE: &str = "SELECT * FROM @hilo_stat_sequences";
const NONE_ACTIVE: &str = "SELECT NULL::text AS name, served, NULL::float8 AS rate, served AS in_slices, served AS in_current,
           served AS in_standby, served AS in_returned, served AS waits, NULL::float8 AS wait_time_total,
           NULL::float8 AS wait_time_max, served AS blocks_reserved, served AS blocks_prefetched, served AS errors,
           NULL::text AS last_error, NULL::timestamptz AS last_error_at, NULL::float8 AS used_fraction,
           NULL::interval AS exhausted_in
      FROM (VALUES (0::bigint)) AS none (served) WHERE false";

pub fn read(source: &Source, findings: &Part<Findings>) -> Part<Sequences> {
    let (mut names, mut ranks) = (Vec::new(), Vec::new());
    for (name, rank) in findings.iter().flat_map(Findings::sequences) {
        names.push(spi::literal(name));
        ranks.push(rank.to_string());
    }
    let found = format!(
        "unnest(ARRAY[{}]::text[], ARRAY[{}]::integer[])",
        names.join(","),
        ranks.join(",")
    );
    let mut lacking = Vec::new();
    let mut sequences = match first(source, ACTIVE, &found) {
        Ok(sequences) => sequences,
        Err(why) => {
            lacking.push(format!("What is in memory cannot be read: {why}"));
            first(source, NONE_ACTIVE, &found)?
        }
    };
    if let Err(why) = courses(source, &mut sequences.first) {
        lacking.push(format!("The rates over time cannot be read: {why}"));
    }
    if let Err(why) = leased(source, &mut sequences.first) {
        lacking.push(format!("What is leased cannot be read: {why}"));
    }
    // If memory cannot be read, neither can the rates, for the same reason.
    lacking.truncate(if lacking.len() > 1 && sequences.active == 0 { 1 } else { lacking.len() });
    Ok(Sequences { lacking, ..sequences })
}

fn first(source: &Source, active: &str, found: &str) -> Part<Sequences> {
    let sql = format!(
        "WITH active AS MATERIALIZED ({active}),
              found AS (SELECT name, min(rank) AS rank FROM {found} AS f (name, rank) GROUP BY name)
         SELECT s.name, s.gapless, s.ordered, s.cycle, f.rank, u.used, a.name IS NOT NULL, a.served, a.rate,
                a.in_slices::float8, a.in_current::float8, a.in_standby::float8, a.in_returned::float8,
                a.waits, a.wait_time_total, a.wait_time_max, a.blocks_reserved, a.blocks_prefetched, a.errors,
                a.last_error, to_char(a.last_error_at, 'YYYY-MM-DD HH24:MI:SS'),
                extract(epoch FROM a.exhausted_in)::float8,
                count(*) OVER (), count(a.name) OVER (), sum(a.rate) OVER (),
                sum(a.in_slices::float8 + a.in_current + a.in_standby + a.in_returned) OVER ()
           FROM @hilo_sequences s
           LEFT JOIN active a ON a.name = s.name
           LEFT JOIN found f ON f.name = s.name
          CROSS JOIN LATERAL (
              SELECT CASE WHEN a.used_fraction IS NOT NULL THEN a.used_fraction
                          WHEN s.max_reserved IS NULL THEN 0
                          WHEN s.increment > 0
                          THEN (s.max_reserved::float8 - s.min_value + 1) / (s.max_value::float8 - s.min_value + 1)
                          ELSE (s.max_value::float8 - s.max_reserved + 1) / (s.max_value::float8 - s.min_value + 1)
                     END AS used
          ) u
          ORDER BY f.rank NULLS LAST, a.errors > 0 DESC NULLS LAST,
                CASE WHEN s.cycle THEN 0 ELSE floor(u.used * 10) END DESC,
                floor(a.wait_time_total / 1000) DESC NULLS LAST, a.rate DESC NULLS LAST, s.name COLLATE \"C\"
          LIMIT {MOST}"
    );
    let mut all = Sequences::default();
    let rows = source.rows(&sql, |row| {
        let whole = |column| row.int8(column).unwrap_or(0);
        let number = |column| row.float8(column).unwrap_or(0.0);
        (all.all, all.active, all.rate, all.ready) = (whole(23), whole(24), number(25), number(26));
        let active = row.bool(7).then(|| Active {
            served: whole(8),
            rate: number(9),
            tiers: [10, 11, 12, 13].map(number),
            waits: whole(14),
            wait_time: [15, 16].map(number),
            blocks_reserved: whole(17),
            blocks_prefetched: whole(18),
            errors: whole(19),
            last_error: text(&row, 20),
            last_error_at: text(&row, 21),
            exhausted_in: row.float8(22),
            course: Vec::new(),
        });
        Sequence {
            key: row.bytes(1).unwrap_or_default(),
            name: text(&row, 1).unwrap_or_default(),
            gapless: row.bool(2),
            ordered: row.bool(3),
            cycle: row.bool(4),
            rank: row.int4(5),
            used: number(6),
            active,
            leased: 0.0,
        }
    })?;
    Ok(Sequences { first: rows, ..all })
}

/// Adds how the rates have changed.
fn courses(source: &Source, sequences: &mut [Sequence]) -> Part<()> {
    let active = sequences.iter_mut().filter(|sequence| sequence.active.is_some());
    let mut by_name: HashMap<Vec<u8>, &mut Active> = HashMap::new();
    by_name.extend(active.filter_map(|one| Some((one.key.clone(), one.active.as_mut()?))));
    let names = names(by_name.keys());
    source.rows(
        &format!(
            "SELECT name, extract(epoch FROM max(until) OVER w - since)::float8,
                    extract(epoch FROM max(until) OVER w - until)::float8, rate
               FROM @hilo_stat_rates WHERE name = ANY ({names})
             WINDOW w AS (PARTITION BY name) ORDER BY since"
        ),
        |row| {
            let number = |column| row.float8(column).unwrap_or(0.0);
            let step = Step { since: number(2), until: number(3), rate: number(4) };
            if let Some(of) = by_name.get_mut(&row.bytes(1).unwrap_or_default()) {
                of.course.push(step);
            }
        },
    )?;
    Ok(())
}

/// Adds what is in the hands of holders.
fn leased(source: &Source, sequences: &mut [Sequence]) -> Part<()> {
    let names = names(sequences.iter().map(|sequence| &sequence.key));
    let sql = format!(
        "SELECT name, sum(count)::float8 FROM @hilo_leases WHERE name = ANY ({names}) GROUP BY name"
    );
    let sums = source.rows(&sql, |row| (row.bytes(1).unwrap_or_default(), row.float8(2)))?;
    let sums: HashMap<Vec<u8>, Option<f64>> = sums.into_iter().collect();
    for sequence in sequences {
        sequence.leased = sums.get(&sequence.key).copied().flatten().unwrap_or(0.0);
    }
    Ok(())
}

fn names<'a>(names: impl Iterator<Item = &'a Vec<u8>>) -> String {
    let literals: Vec<String> = names.map(|name| spi::literal(name)).collect();
    format!("ARRAY[{}]::text[]", literals.join(","))
}
