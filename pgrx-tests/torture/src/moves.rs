//! hilo_advance and hilo_sync by clients, in transactions that commit and roll back. Nothing comes
//! twice because of them, and what they leave out is in a gap.

use fastrand::Rng;

use super::figures::add;
use super::ledger::{Last, Life, Sequence};
use super::session::{ClientSession, End, Outcome};

impl ClientSession<'_> {
    /// Moves a sequence, which this session alone defines, ahead of what clients have seen, or not
    /// even that far.
    pub(super) fn move_ahead(
        &mut self,
        sequence: &Sequence,
        name: &str,
        rng: &mut Rng,
    ) -> Outcome<()> {
        let Some(life) = sequence.current() else { return Ok(()) };
        let place = life.place_ahead(rng.i64(-200..3_000)).max(0);
        let value = life.value(place);
        add(&self.ledger().figures.moves, 1);
        let advances = rng.bool();
        let sql = match advances {
            true => format!("SELECT hilo_advance('{name}', {value})"),
            // In a transaction of its own.
            false => format!(
                "CREATE TEMP TABLE synced (id bigint) ON COMMIT DROP;
                 INSERT INTO synced VALUES ({value});
                 SELECT hilo_sync('{name}', 'synced', 'id'); DROP TABLE synced"
            ),
        };
        self.ledger().note(sequence, sql.clone());
        let done = match rng.u32(..3) {
            0 => self.run(&sql).map(|()| End::Commit),
            _ => {
                let end = End::any(rng);
                let body = self.move_openly(sequence, &life, (&sql, place), rng);
                self.finish(body.map(drop), end).map(|()| end)
            }
        };
        // A rollback to a savepoint may have undone it: then nothing is known of what comes.
        let Ok(End::Commit) = done else { return done.map(drop) };
        if advances && self.run(&sql).is_ok() {
            life.advance(place);
        }
        Ok(())
    }

    /// Draws before and after, and after a savepoint has undone it.
    fn move_openly(
        &mut self,
        sequence: &Sequence,
        life: &Life,
        (sql, place): (&str, i64),
        rng: &mut Rng,
    ) -> Outcome<()> {
        self.run("BEGIN")?;
        self.draw_some(sequence, rng)?;
        self.run("SAVEPOINT m")?;
        self.run(sql)?;
        self.draw_beyond(sequence, life, place, sql.contains("advance"))?;
        if rng.bool() {
            self.run("ROLLBACK TO m")?;
            self.draw_some(sequence, rng)?;
        }
        Ok(())
    }

    /// If there was something to move, the transaction draws nothing until it commits.
    fn draw_beyond(
        &mut self,
        sequence: &Sequence,
        life: &Life,
        place: i64,
        all_beyond: bool,
    ) -> Outcome<()> {
        let ticket = self.ledger().ticket(sequence);
        self.run("SAVEPOINT d")?;
        match self.value_or_refusal(&format!("SELECT hilo_nextval('{}')", ticket.name), "55000") {
            Ok(Some(value)) => {
                self.ledger().saw(sequence, &ticket, &mut Last::default(), &[value], true);
                if all_beyond && life.place(value).is_some_and(|served| served <= place) {
                    let figures = &self.ledger().figures;
                    figures.wrong(format!("{value} after an advance to {}", life.value(place)));
                }
                Ok(())
            }
            Ok(None) => self.run("ROLLBACK TO d"),
            Err(failure) => {
                self.ledger().note_lost(sequence, 1);
                Err(failure)
            }
        }
    }
}
