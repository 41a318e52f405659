//! The part of `hilo_check` about what may well be meant to be so: sequences that feed several columns, and
//! sequences that no column uses.

use std::collections::{BTreeSet, HashMap};

use pgrx::pg_sys;

use super::columns::{Column, Defaults};
use super::finding::{Finding, Findings, Severity, finding, readable, sequence};
use crate::catalog::name::escape_for_message;
use crate::errors::OrRaise;
use crate::memory::{self, Grow};
use crate::sql::spi;

/// How many columns or sequences a note names.
const NAMED: usize = 10;

/// The sequences that feed several columns. A column and those that inherit it, as in partitions, count as one.
pub(super) fn shared(columns: &[Column]) -> Findings {
    let feeds = |column: &&Column| column.shown && column.in_table && column.sequence.is_some();
    let mut fed: Vec<&Column> = memory::collected(columns.iter().filter(feeds)).or_raise();
    fed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let groups = || fed.chunk_by(|a, b| a.name == b.name).filter(|group| group.len() > 1);
    let several: Vec<&Column> = memory::collected(groups().flatten().copied()).or_raise();
    let lines = lines(&several);
    memory::collected(groups().filter_map(|group| feeds_all(group, &lines))).or_raise()
}

/// A column by its table's OID and its number there.
type Place = (pg_sys::Oid, i16);

/// For each column itself and those that it inherits from.
type Lines = HashMap<Place, Vec<Place>>;

fn lines(columns: &[&Column]) -> Lines {
    let mut lines = Lines::new();
    if columns.is_empty() {
        return lines;
    }
    // The text of the query contains all of them.
    memory::room(columns.len() * 64).or_raise();
    let list = |of: &dyn Fn(Place) -> String| {
        columns.iter().map(|column| of(column.place())).collect::<Vec<_>>().join(",")
    };
    let sql = format!(
        "WITH RECURSIVE up (relation, number, above, above_number) AS (
             SELECT d.relation, d.number, d.relation, d.number
               FROM unnest(ARRAY[{relations}]::oid[], ARRAY[{numbers}]::smallint[]) AS d (relation, number)
              UNION
             SELECT up.relation, up.number, i.inhparent, p.attnum
               FROM up JOIN pg_inherits i ON i.inhrelid = up.above
               JOIN pg_attribute a ON a.attrelid = up.above AND a.attnum = up.above_number
               JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname AND NOT p.attisdropped)
         SELECT relation, number::integer, above, above_number::integer FROM up",
        relations = list(&|(relation, _)| relation.to_u32().to_string()),
        numbers = list(&|(_, number)| number.to_string()),
    );
    spi::for_each(&sql, |row| {
        let place = |at| (row.oid(at), row.int4(at + 1).unwrap_or(0) as i16);
        let column = place(1);
        if !lines.contains_key(&column) {
            lines.grow((column, Vec::new())).or_raise();
        }
        lines.get_mut(&column).into_iter().for_each(|line| line.grow(place(3)).or_raise());
    });
    lines
}

/// The note about a sequence that feeds all of these columns, unless they are parts of one hierarchy.
fn feeds_all(columns: &[&Column], lines: &Lines) -> Option<Finding> {
    let line = |column: &Column| lines.get(&column.place()).map_or(&[][..], Vec::as_slice);
    let mut columns: Vec<&Column> = memory::collected(columns.iter().copied()).or_raise();
    // Parents come before those that inherit from them.
    columns.sort_unstable_by(|a, b| {
        (line(a).len(), &a.table, &a.column).cmp(&(line(b).len(), &b.table, &b.column))
    });
    let mut seen: HashMap<Place, ()> = HashMap::new();
    let mut apart: Vec<&Column> = Vec::new();
    for column in columns {
        if !line(column).iter().any(|place| seen.contains_key(place)) {
            apart.grow(column).or_raise();
        }
        seen.grow_by(line(column).iter().map(|place| (*place, ()))).or_raise();
    }
    let [first, _, ..] = apart[..] else { return None };
    let names = apart.iter().take(NAMED).map(|column| column.qualified()).collect();
    Some(finding(
        sequence(&first.name),
        Severity::Note,
        format!("it feeds the columns {}", listed(names, apart.len())),
        "Nothing, if the columns are meant to share it; CREATE TABLE ... (LIKE ... INCLUDING ALL) lets them. Otherwise give each its own with hilo_create and ALTER TABLE ... SET DEFAULT.",
    ))
}

/// One note about all sequences that have been used, and that no column default names and no column owns. A
/// sequence whose owner column is gone need not have been used.
pub(super) fn unused(caller: pg_sys::Oid, defaults: &Defaults) -> Option<Finding> {
    let named = defaults.iter().map(|(_, name)| (&**name, ()));
    let named = memory::mapped(defaults.len(), named).or_raise();
    let readable = readable(caller);
    let sql = format!(
        "SELECT s.name FROM ({readable}) s
          WHERE s.owned_by IS NULL
            AND EXISTS (SELECT FROM hilo.position p WHERE p.sequence = s.id AND (p.next_index > 0 OR p.epoch > 1))
          UNION ALL
         SELECT s.name FROM ({readable}) s WHERE s.owned_by::text = '-'"
    );
    let (mut count, mut first) = (0, BTreeSet::new());
    spi::for_each(&sql, |row| {
        let name = row.bytes(1).unwrap_or_default();
        if !named.contains_key(&name[..]) {
            count += 1;
            first.insert(name);
        }
        if first.len() > NAMED {
            first.pop_last();
        }
    });
    let names = first.iter().map(|name| format!("\"{}\"", escape_for_message(name))).collect();
    let which = match count {
        0 => return None,
        1 => "this sequence".into(),
        _ => format!("these {count} sequences"),
    };
    Some(finding(
        "sequences",
        Severity::Note,
        format!("no column uses {which}: {}", listed(names, count)),
        "Drop those that nothing else draws from: no application, no function, and no default that computes the name.",
    ))
}

/// `a, b and c`, or `a, b and 7 more` if there are `count` in all.
fn listed(mut names: Vec<String>, count: usize) -> String {
    let last = match count - names.len() {
        0 => names.pop().unwrap_or_default(),
        more => format!("{more} more"),
    };
    match names.is_empty() {
        true => last,
        false => format!("{} and {last}", names.join(", ")),
    }
}
