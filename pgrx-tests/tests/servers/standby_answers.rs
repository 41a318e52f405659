//! The answers of each function and view of hilo on a hot standby, as docs/operations.md says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hilo_tests::{Client, ClientExt, Cluster};

/// The end of a call on a standby.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// The same as on the primary.
    Same,
    /// The memory of the standby holds: nothing.
    Nothing,
    /// An error with this SQLSTATE.
    Refused(&'static str),
}
use Answer::*;

const READ_ONLY: Answer = Refused("25006");
/// The session has drawn nothing.
const UNDRAWN: Answer = Refused("55000");

const FUNCTIONS: [(&str, &str, Answer); 52] = [
    ("hilo_nextval", "'orders'", READ_ONLY),
    ("hilo_nextval_always", "'orders'", READ_ONLY),
    ("hilo_nextvals", "'orders', 2", READ_ONLY),
    ("hilo_nextrange", "'orders', 2", READ_ONLY),
    ("hilo_next_hi", "'blocks'", READ_ONLY),
    ("hilo_nextkey", "'orders'", READ_ONLY),
    ("hilo_lease", "'orders', 2", READ_ONLY),
    ("hilo_lease_return", "lease", READ_ONLY),
    ("hilo_lease_renew", "lease, '1 day'", READ_ONLY),
    ("hilo_lease_revoke", "holder => 'sorter-7'", READ_ONLY),
    ("hilo_refill", "names => '{orders}', sizes => '{2}'", READ_ONLY),
    ("hilo_transfer", "'orders', 2, 'branch', gen_random_uuid()", READ_ONLY),
    ("hilo_attach_server", "'orders', 'centre'", UNDRAWN),
    ("hilo_detach", "'orders', 10", READ_ONLY),
    ("hilo_create", "'new'", READ_ONLY),
    ("hilo_alter", "'orders', block_size => 10", READ_ONLY),
    ("hilo_rename", "'orders', 'sales'", READ_ONLY),
    ("hilo_drop", "'blocks'", READ_ONLY),
    ("hilo_set_owner", "'orders', 'clerk'", READ_ONLY),
    ("hilo_grant", "'orders', 'clerk', 'ALL'", READ_ONLY),
    ("hilo_revoke", "'orders', 'clerk', 'USAGE'", READ_ONLY),
    ("hilo_grant_all", "'clerk', 'ALL'", READ_ONLY),
    ("hilo_revoke_all", "'clerk', 'ALL'", READ_ONLY),
    ("hilo_default_grant", "'clerk', 'ALL'", READ_ONLY),
    ("hilo_default_revoke", "'clerk', 'USAGE'", READ_ONLY),
    ("hilo_setval", "'orders', 1000", READ_ONLY),
    ("hilo_advance", "'orders', 1000", READ_ONLY),
    ("hilo_sync", "'orders', 'orders', 'id'", READ_ONLY),
    ("hilo_adopt", "'serials', 'id'", READ_ONLY),
    ("hilo_adopt_sequence", "'serials_id_seq'", READ_ONLY),
    ("hilo_adopt_all", "'public'", READ_ONLY),
    ("hilo_adopt_all", "'public', true", READ_ONLY),
    ("hilo_release", "'orders', 'id'", READ_ONLY),
    ("hilo_facade", "'public', 'efcore'", READ_ONLY),
    ("hilo_attach", "'orders', 'serials_id_seq'", READ_ONLY),
    ("hilo_apply", "'{\"hilo\": 1, \"sequences\": [{\"name\": \"new\"}]}'", READ_ONLY),
    ("hilo_create_missing", "", READ_ONLY),
    ("hilo_create_on_all_nodes", "'new'", READ_ONLY),
    ("hilo_adopt_on_all_nodes", "'serials', 'id'", READ_ONLY),
    ("hilo_currval", "'orders'", UNDRAWN),
    ("hilo_lastval", "", UNDRAWN),
    ("hilo_key", "'orders', 7", Same),
    ("hilo_key_value", "'orders', 'orders/7'", Same),
    ("hilo_export", "", Same),
    ("hilo_export", "'orders'", Same),
    ("hilo_check", "", Same),
    ("hilo_find_gaps", "'orders', 'orders', 'id'", Same),
    ("hilo_node_summary", "", Same),
    ("hilo_compare", "hilo_node_summary()", Same),
    ("hilo_report", "", Same),
    ("hilo_stat_reset", "", Same),
    ("hilo_stat_reset", "'orders'", Same),
];

const VIEWS: [(&str, Answer); 9] = [
    ("hilo_sequences", Same),
    ("hilo_gaps", Same),
    ("hilo_leases", Same),
    ("hilo_privileges", Same),
    ("hilo_default_privileges", Same),
    ("hilo_stat_sequences", Nothing),
    ("hilo_stat_rates", Nothing),
    ("hilo_stat_backends", Nothing),
    ("hilo_blocks", Nothing),
];

const SHOP: &str = "
    CREATE ROLE clerk; CREATE TABLE serials (id bigserial PRIMARY KEY);
    SELECT hilo_create('orders'), hilo_create('blocks', block_size => 10);
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
    INSERT INTO orders SELECT FROM generate_series(1, 100);
    CREATE TABLE lacking (id bigint DEFAULT hilo_nextval('nothing'));
    SELECT hilo_grant('orders', 'clerk', 'USAGE'); SELECT hilo_default_grant('clerk', 'USAGE');
    SET check_function_bodies = off;
    INSERT INTO _hilo.hilo_gap SELECT id, 0, 1, -9, -5, 5, 1, 'crash', now() FROM _hilo.hilo_definition WHERE name = 'orders';
    RESET check_function_bodies;
    SELECT hilo_nextval('blocks');";

/// The rows of a query, in order, as text.
fn rows(client: &mut Client, from: &str) -> Vec<String> {
    client.all(&format!("SELECT r::text FROM {from} r ORDER BY 1"))
}

/// Each function and view is refused, or answers as on the primary, or has nothing to show; and none does anything else
/// to the standby.
#[test]
fn each_function_and_view_answers_as_documented() {
    let primary = Cluster::builder().config("wal_level", "replica").start_with_hilo();
    let mut there = primary.connect("postgres");
    there.run(SHOP);
    let lease: String = there.one("SELECT lease::text FROM hilo_lease('orders', 5, 'sorter-7')");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let mut here = standby.connect("postgres");

    for (name, arguments, answer) in FUNCTIONS {
        let arguments = arguments.replace("lease", &format!("'{lease}'"));
        let call = format!("{name}({arguments})");
        match answer {
            Refused(sqlstate) => {
                here.refusal(&format!("SELECT * FROM {call}")).is(sqlstate);
            }
            // The primary has more of the sequence in memory, which is served, and less that is not.
            Same if name == "hilo_find_gaps" => assert!(!rows(&mut here, &call).is_empty()),
            // It shows what the views show here.
            Same if name == "hilo_report" => assert!(rows(&mut here, &call)[0].contains("standby")),
            // It names the server that answers.
            Same if name == "hilo_node_summary" => {
                let numbered = "(SELECT hilo_node_summary() #- '{node,server}')";
                assert_eq!(rows(&mut here, numbered), rows(&mut there, numbered));
                assert_ne!(rows(&mut here, &call), rows(&mut there, &call));
            }
            Same => assert_eq!(rows(&mut here, &call), rows(&mut there, &call), "{call}"),
            Nothing => unreachable!("no function of ours does"),
        }
    }
    for (view, answer) in VIEWS {
        let (found, known) = (rows(&mut here, view), rows(&mut there, view));
        assert!(
            !known.is_empty() || ["hilo_stat_backends", "hilo_stat_rates"].contains(&view),
            "{view} shows nothing on the primary"
        );
        match answer {
            Same => assert_eq!(found, known, "{view}"),
            _ => assert_eq!(found, [""; 0], "{view}"),
        }
    }
    here.refusal("INSERT INTO orders DEFAULT VALUES").is("25006");
    here.refusal("SELECT hilo_nextval('orders')").hints("primary");

    let all = "SELECT DISTINCT p.proname::text FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_extension e ON e.oid = d.refobjid
                WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND e.extname = 'hilo'
                  AND p.pronamespace = e.extnamespace";
    let known: BTreeSet<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
    for name in here.all::<String>(all) {
        assert!(known.contains(name.as_str()), "what does {name} answer on a standby?");
    }
    standby.finish();
    primary.finish();
}

/// A row of the page's table names each function and view that is not just refused, beside what a standby answers.
#[test]
fn the_page_says_so() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let page = fs::read_to_string(page).expect("cannot read the page");
    let row = |answer: Answer| {
        let begin = match answer {
            READ_ONLY => return None,
            Refused(_) => "| refused with 55000",
            Same => "| as on the primary",
            Nothing => "| nothing",
        };
        Some(page.lines().find(|line| line.starts_with(begin)).expect("there is a row"))
    };
    let views = VIEWS.iter().map(|(name, answer)| (*name, *answer));
    for (name, answer) in FUNCTIONS.iter().map(|(name, _, answer)| (*name, *answer)).chain(views) {
        let named = row(answer).is_none_or(|row| row.contains(&format!("`{name}`")));
        assert!(named, "the page lacks {name}: {answer:?}");
    }
}
