//! Core's sequences and hilo's, statement by statement on one server: each case runs both and asserts what each
//! returns. `docs/parity.md` has a row for each in which they differ.

mod alter;
mod bounds;
mod moved;
mod objects;
mod options;
mod places;
mod privileges;
mod script;
mod transactions;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use script::Stage;

/// How hilo stands to core in one behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Same,
    Better,
    Different,
}

impl Relation {
    fn word(self) -> &'static str {
        match self {
            Relation::Same => "same",
            Relation::Better => "better",
            Relation::Different => "different",
        }
    }
}

/// The steps, in the language of [`script`], and what is to be seen.
pub struct Side {
    script: &'static str,
    outcome: &'static str,
}

/// One behaviour.
pub struct Case {
    id: &'static str,
    relation: Relation,
    core: Side,
    hilo: Side,
}

/// Both are seen to do the same.
const fn same(
    id: &'static str,
    core: &'static str,
    hilo: &'static str,
    outcome: &'static str,
) -> Case {
    Case {
        id,
        relation: Relation::Same,
        core: Side { script: core, outcome },
        hilo: Side { script: hilo, outcome },
    }
}

/// hilo does more for its user.
const fn better(id: &'static str, core: [&'static str; 2], hilo: [&'static str; 2]) -> Case {
    unlike(id, Relation::Better, core, hilo)
}

/// hilo does something else, and the document says why.
const fn different(id: &'static str, core: [&'static str; 2], hilo: [&'static str; 2]) -> Case {
    unlike(id, Relation::Different, core, hilo)
}

const fn unlike(
    id: &'static str,
    relation: Relation,
    core: [&'static str; 2],
    hilo: [&'static str; 2],
) -> Case {
    Case {
        id,
        relation,
        core: Side { script: core[0], outcome: core[1] },
        hilo: Side { script: hilo[0], outcome: hilo[1] },
    }
}

const TOPICS: [&[Case]; 9] = [
    options::CASES,
    values::CASES,
    bounds::CASES,
    alter::CASES,
    transactions::CASES,
    objects::CASES,
    places::CASES,
    privileges::CASES,
    moved::CASES,
];

/// Runs a topic's cases on a server of its own, and lists all that are not as said. `HILO_CASE` in the
/// environment picks those whose ids hold it.
fn check(cases: &[Case]) {
    let stage = Stage::set();
    let picked = std::env::var("HILO_CASE").unwrap_or_default();
    let mut wrong = String::new();
    for case in cases.iter().filter(|case| case.id.contains(&picked)) {
        for (who, side) in [("core", &case.core), ("hilo", &case.hilo)] {
            let seen = stage.play(side.script);
            if seen != side.outcome {
                wrong += &format!("{} ({who}): {seen}, not {}\n", case.id, side.outcome);
            }
        }
        let alike = case.core.outcome == case.hilo.outcome;
        assert_eq!(alike, case.relation == Relation::Same, "{} is not what it says", case.id);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    stage.finish();
}

#[test]
fn options_mean_what_cores_mean() {
    check(options::CASES);
}

#[test]
fn values_come_as_cores_come() {
    check(values::CASES);
}

#[test]
fn bounds_end_as_cores_end() {
    check(bounds::CASES);
}

#[test]
fn alterations_change_what_cores_change() {
    check(alter::CASES);
}

#[test]
fn transactions_leave_what_cores_leave() {
    check(transactions::CASES);
}

#[test]
fn names_and_dependencies_hold_as_cores_hold() {
    check(objects::CASES);
}

#[test]
fn statements_take_them_as_they_take_cores() {
    check(places::CASES);
}

#[test]
fn privileges_let_in_whom_cores_let_in() {
    check(privileges::CASES);
}

#[test]
fn columns_that_have_moved_behave_as_before() {
    check(moved::CASES);
}

/// Each case in which hilo differs from core is in a row of the table with its verdict, and each row has cases.
#[test]
fn the_document_says_what_the_cases_show() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/parity.md");
    let text = fs::read_to_string(file).expect("cannot read docs/parity.md");
    let mut said = BTreeMap::new();
    for line in text.lines().filter(|line| line.ends_with("` |")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [verdict, core, hilo, cases] = cells[..] else { panic!("no row of the table: {line}") };
        assert!(!core.is_empty() && !hilo.is_empty(), "{line}");
        for id in cases.split(", ").map(|id| id.trim_matches('`')) {
            let before = said.insert(id.to_owned(), verdict.to_owned());
            assert!(before.is_none(), "{id} has two rows");
        }
    }
    let mut shown = BTreeMap::new();
    for case in TOPICS.iter().copied().flatten() {
        let before = shown.insert(case.id.to_owned(), case.relation.word().to_owned());
        assert!(before.is_none(), "{} is the id of two cases", case.id);
    }
    shown.retain(|_, verdict| verdict != Relation::Same.word());
    let lacks = |from: &BTreeMap<String, String>, of: &BTreeMap<String, String>| -> Vec<String> {
        of.iter()
            .filter(|(id, verdict)| from.get(*id) != Some(verdict))
            .map(|(id, verdict)| format!("{id}: {verdict}"))
            .collect()
    };
    assert_eq!(lacks(&said, &shown), Vec::<String>::new(), "cases that the document lacks");
    assert_eq!(lacks(&shown, &said), Vec::<String>::new(), "rows that no case shows");
}
