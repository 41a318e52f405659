//! Gapless sequences beside the others. Sessions insert what they draw into a table, in
//! transactions that commit, roll back, fail, deadlock, or end with their server. At each audit,
//! the committed values of each are exactly 1 … n, and the position is n + 1.

use fastrand::Rng;
use postgres::Client;

use super::Torture;
use super::figures::add;
use super::session::{ClientSession, End, Outcome, repeat};

const NAMES: [&str; 3] = ["gapless a", "gapless b", "gapless c"];

/// Creates the sequences of a database whose other sequences have just been created, and their table.
pub fn create(torture: &Torture, client: &mut Client) {
    repeat(
        torture,
        client,
        "DROP TABLE IF EXISTS gapless;
         CREATE TABLE gapless (name text, id bigint, PRIMARY KEY (name, id))",
    );
    for name in NAMES {
        let sql = format!("SELECT hilo_create('{name}', gapless => true, if_not_exists => true)");
        repeat(torture, client, &sql);
    }
}

impl Torture {
    /// Whether there are gapless sequences: several nodes cannot share one.
    fn has_gapless(&self) -> bool {
        !self.ledger.sequences.iter().any(|sequence| sequence.multi_node)
    }
}

impl ClientSession<'_> {
    /// A transaction that draws from some of them, with savepoints, and seldom in an order that deadlocks.
    pub(super) fn gapless(&mut self, rng: &mut Rng) -> Outcome<()> {
        if !self.torture().has_gapless() {
            return Ok(());
        }
        let levels = ["", " ISOLATION LEVEL REPEATABLE READ", " ISOLATION LEVEL SERIALIZABLE"];
        self.run(&format!("BEGIN{}", levels[rng.usize(..levels.len())]))?;
        let body = self.gapless_draws(rng);
        self.finish(body, End::any(rng))
    }

    fn gapless_draws(&mut self, rng: &mut Rng) -> Outcome<()> {
        let mut names: Vec<&str> =
            (0..rng.usize(1..4)).map(|_| NAMES[rng.usize(..NAMES.len())]).collect();
        if rng.f32() < 0.95 {
            names.sort_unstable();
        }
        for name in names {
            let savepoint = rng.f32() < 0.4;
            if savepoint {
                self.run("SAVEPOINT g")?;
            }
            self.gapless_draw(name, rng)?;
            let alters = rng.f32() < 0.05;
            if alters {
                let most = rng.i64(1 << 40..1 << 41);
                self.run(&format!("SELECT hilo_alter('{name}', max_value => {most})"))?;
                self.gapless_draw(name, rng)?;
            }
            if savepoint && rng.bool() {
                if rng.f32() < 0.1 {
                    self.run(&format!("SELECT hilo_setval('{name}', 1000000000)"))?;
                    self.gapless_draw(name, rng)?;
                }
                self.run("ROLLBACK TO g")?;
            } else if savepoint {
                self.run("RELEASE g")?;
            }
        }
        Ok(())
    }

    fn gapless_draw(&mut self, name: &str, rng: &mut Rng) -> Outcome<()> {
        let count = if rng.bool() { 1 } else { rng.i64(1..60) };
        let values = match rng.u32(..3) {
            0 => format!("SELECT '{name}', hilo_nextvals('{name}', {count})"),
            1 => format!(
                "SELECT '{name}', n FROM hilo_nextrange('{name}', {count}) r, generate_series(r.first, r.last) n"
            ),
            _ => {
                format!("SELECT '{name}', hilo_nextval('{name}') FROM generate_series(1, {count})")
            }
        };
        self.run(&format!("INSERT INTO gapless {values}"))?;
        add(&self.ledger().figures.values, count as u64);
        Ok(())
    }
}

/// Compares what is committed with the positions.
pub fn audit(torture: &Torture, client: &mut Client, database: &str) {
    if !torture.has_gapless() {
        return;
    }
    let rows = client.query(
        "SELECT s.name, count(g.id), coalesce(min(g.id), 1), coalesce(max(g.id), 0), p.base + p.next_index
           FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id
           LEFT JOIN gapless g ON g.name = s.name
          WHERE s.gapless GROUP BY s.name, p.base, p.next_index",
        &[],
    );
    let figures = &torture.ledger.figures;
    let rows = rows.expect("the catalog can be read");
    if rows.len() != NAMES.len() {
        figures.wrong(format!("{database}: {} gapless sequences", rows.len()));
    }
    for row in rows {
        let name: String = row.get(0);
        let [count, min, max, next] = [1, 2, 3, 4].map(|column| row.get::<_, i64>(column));
        add(&figures.gapless, count as u64);
        if (min, max, next) != (1, count, count + 1) {
            figures.wrong(format!(
                "{database}, {name}: {count} values from {min} to {max}, and the next one is {next}"
            ));
        }
    }
}
