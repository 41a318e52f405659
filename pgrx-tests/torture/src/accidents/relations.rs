//! Commands of an operator that give hilo's tables and indexes other files, and other OIDs.

use fastrand::Rng;
use postgres::Client;

use crate::Torture;

/// How it may fail: a lock that is not given, a deadlock, a cancel, the end of the server, or a
/// full disk. Memory may be out, or a table has gone with its extension.
const ALLOWED: [&str; 10] =
    ["55P03", "40P01", "57014", "57P01", "57P03", "42P01", "3F000", "53100", "53200", "42704"];

pub fn rewrite(torture: &Torture, rng: &mut Rng) -> &'static str {
    let database = torture.databases[rng.usize(..torture.databases.len())];
    let Ok(mut client) = torture.cluster.try_connect("postgres", database) else {
        return "no table to rewrite";
    };
    let what = rng.usize(..4);
    for _ in 0..rng.usize(1..8) {
        let Some(command) = command(&mut client, what) else { return "no table to rewrite" };
        let done = client.batch_execute("SET lock_timeout = '3s'");
        if let Err(error) = done.and_then(|()| client.batch_execute(&command))
            && let Some(report) = error.as_db_error()
            && !ALLOWED.contains(&report.code().code())
        {
            torture.ledger.figures.wrong(format!("{command}: {error:?}"));
        }
        remove_rests(&mut client);
    }
    ["REINDEX CONCURRENTLY", "REINDEX", "VACUUM FULL", "CLUSTER"][what]
}

/// A command about one of hilo's tables; `None` if the connection is gone, or the extension.
fn command(client: &mut Client, what: usize) -> Option<String> {
    let found = client.query(
        "SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text FROM pg_index i
           JOIN pg_class c ON c.oid = i.indrelid AND c.relkind = 'r'
           JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = '_hilo' AND i.indisvalid AND i.indpred IS NULL
          ORDER BY random() LIMIT 1",
        &[],
    );
    let row = found.ok()?.into_iter().next()?;
    let (table, index): (String, String) = (row.get(0), row.get(1));
    Some(match what {
        0 => format!("REINDEX TABLE CONCURRENTLY {table}"),
        1 => format!("REINDEX TABLE {table}"),
        2 => format!("VACUUM FULL {table}"),
        _ => format!("CLUSTER {table} USING {}", index.rsplit('.').next()?),
    })
}

/// The index that a failed REINDEX CONCURRENTLY leaves behind.
fn remove_rests(client: &mut Client) {
    let invalid = "SELECT i.indexrelid::regclass::text FROM pg_index i
        WHERE NOT i.indisvalid AND i.indexrelid::regclass::text LIKE '\\_hilo.%\\_cc%'";
    let Ok(rows) = client.query(invalid, &[]) else { return };
    for row in rows {
        // Otherwise the next command removes it.
        let _ = client.batch_execute(&format!("DROP INDEX {}", row.get::<_, String>(0)));
    }
}
