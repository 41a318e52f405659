//! Renumbering, renaming and dropping by clients, and the check of the result.

use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::figures::add;
use super::ledger::{Sequence, SequenceKind};
use super::session::{ClientSession, End, Failure, Outcome};

impl ClientSession<'_> {
    pub(super) fn define(&mut self, sequence: &Sequence, rng: &mut Rng) -> Outcome<()> {
        if sequence.kind != SequenceKind::Wide {
            return Ok(());
        }
        let Ok(_definer) = sequence.definer.try_lock() else { return Ok(()) };
        add(&self.ledger().figures.renumbered, 1);
        let name = sequence.name().0;
        match rng.u32(..17) {
            0 => self.rename(sequence, &name),
            1 if sequence.hi_block.is_none() && !sequence.ordered => {
                let block = rng.i64(1..200);
                let slice = match sequence.may_be_ordered() {
                    true => String::new(),
                    false => format!(", slice_size => {}", rng.i64(0..=block)),
                };
                self.run(&format!("SELECT hilo_alter('{name}', block_size => {block}{slice})"))
            }
            2 | 3 if sequence.uneven => {
                let step = sequence.increment.signum() * rng.i64(1..5);
                let done = self.run(&format!("SELECT hilo_alter('{name}', increment => {step})"));
                self.read_life(sequence, &name, None);
                done
            }
            4 if sequence.uneven => self.undraw(sequence, &name, rng),
            14.. if !sequence.uneven && sequence.hi_block.is_none() => {
                self.move_ahead(sequence, &name, rng)
            }
            10.. => {
                let body = self.alter_openly(sequence, &name, rng);
                self.finish(body, End::any(rng))
            }
            _ => self.renumber(sequence, &name, rng),
        }
    }

    /// A transaction with alterations that do not renumber: it draws like every other session. The
    /// caller ends it.
    pub(super) fn alter_openly(
        &mut self,
        sequence: &Sequence,
        name: &str,
        rng: &mut Rng,
    ) -> Outcome<()> {
        self.run("BEGIN")?;
        if rng.bool() {
            self.draw_some(sequence, rng)?;
        }
        self.run(&alteration(sequence, name, rng))?;
        self.draw_some(sequence, rng)?;
        if rng.bool() {
            self.run("SAVEPOINT a")?;
            self.run(&alteration(sequence, name, rng))?;
            self.draw_some(sequence, rng)?;
            self.run(if rng.bool() { "ROLLBACK TO a" } else { "RELEASE a" })?;
            self.draw_some(sequence, rng)?;
        }
        if rng.u32(..4) == 0 {
            thread::sleep(Duration::from_millis(rng.u64(..300)));
            self.draw_some(sequence, rng)?;
        }
        Ok(())
    }

    /// A change of the increment, committed or rolled back: until then this transaction draws nothing.
    fn undraw(&mut self, sequence: &Sequence, name: &str, rng: &mut Rng) -> Outcome<()> {
        let sql = format!("SELECT increment FROM hilo_sequences WHERE name = '{name}'");
        let rows = self.query(&sql)?;
        let Some(before) = rows.first().map(|row| row.get::<_, i64>(0)) else { return Ok(()) };
        let body = self.refuse_until_undone(sequence, name, before, rng);
        let done = self.finish(body, End::any(rng));
        self.read_life(sequence, name, None);
        done
    }

    fn refuse_until_undone(
        &mut self,
        sequence: &Sequence,
        name: &str,
        before: i64,
        rng: &mut Rng,
    ) -> Outcome<()> {
        let step = before + before.signum();
        self.run("BEGIN")?;
        self.draw_some(sequence, rng)?;
        self.run("SAVEPOINT a")?;
        self.run(&format!("SELECT hilo_alter('{name}', increment => {step})"))?;
        self.run("SAVEPOINT b")?;
        self.must_refuse(&format!("SELECT hilo_nextval('{name}')"), "55000")?;
        self.run("ROLLBACK TO b")?;
        if rng.bool() {
            self.run("ROLLBACK TO a")?;
            self.draw_some(sequence, rng)?;
        }
        Ok(())
    }

    fn rename(&mut self, sequence: &Sequence, name: &str) -> Outcome<()> {
        let new =
            name.strip_suffix(" renamed").map_or_else(|| format!("{name} renamed"), str::to_owned);
        let done = self.run(&format!("SELECT hilo_rename('{name}', '{new}')"));
        match &done {
            Ok(()) => sequence.set_name(new, 0),
            Err(Failure::Refused(_)) => {}
            Err(Failure::Gone) => {
                if self.base(&new).is_some() {
                    sequence.set_name(new, 0);
                }
            }
        }
        done
    }

    fn renumber(&mut self, sequence: &Sequence, name: &str, rng: &mut Rng) -> Outcome<()> {
        let life = self.ledger().begin_life(sequence);
        let first = life.first;
        let create = sequence.create(name, &life);
        let end = if rng.f32() < 0.7 { End::Commit } else { End::RollBack };
        let mut expected = Some(life.key);
        // The start value of classic Hi/Lo stays: the client reads it separately from its block.
        let how =
            if sequence.hi_block.is_some() { [0, 1, 4, 5][rng.usize(..4)] } else { rng.u32(..6) };
        self.ledger().note(sequence, format!("life {} by method {how}", life.key));
        let done = match how {
            0 => self.run(&format!("SELECT hilo_setval('{name}', {first}, false)")),
            1 => self.run(&format!("SELECT hilo_alter('{name}', restart_with => {first})")),
            2 => {
                let dropped = self.run(&format!("SELECT hilo_drop('{name}', if_exists => true)"));
                if dropped.is_ok() {
                    self.ledger().note_drop(sequence, &life);
                }
                dropped.and_then(|()| self.run(&create))
            }
            3 => {
                let body = self
                    .run(&format!("BEGIN; SELECT hilo_drop('{name}', if_exists => true); {create}"))
                    .and_then(|()| self.draw_some(sequence, rng));
                expected = (end == End::Commit && body.is_ok()).then_some(life.key);
                self.finish(body, end)
            }
            _ => {
                let body = self.set_twice(sequence, name, first, rng);
                expected = (end == End::Commit && body.is_ok()).then_some(life.key);
                self.finish(body, end)
            }
        };
        let acknowledged = self.ledger().now();
        let expected = expected.filter(|_| done.is_ok());
        let key = self.read_life(sequence, name, expected.map(|key| (key, acknowledged)));
        let dropped = matches!(how, 2 | 3) && key == Some(life.key);
        if dropped {
            self.ledger().forgotten(sequence, life.key);
        }
        done
    }

    /// In one transaction: a renumbering, and perhaps a second one that a savepoint undoes.
    fn set_twice(
        &mut self,
        sequence: &Sequence,
        name: &str,
        first: i64,
        rng: &mut Rng,
    ) -> Outcome<()> {
        self.run(&format!("BEGIN; SELECT hilo_setval('{name}', {first}, false)"))?;
        self.draw_some(sequence, rng)?;
        if rng.bool() {
            let undone = self.ledger().begin_life(sequence);
            self.ledger().note(sequence, format!("life {} to be undone", undone.key));
            self.run(&format!(
                "SAVEPOINT s; SELECT hilo_setval('{name}', {}, false)",
                undone.first
            ))?;
            self.draw_some(sequence, rng)?;
            self.run("ROLLBACK TO s")?;
            self.draw_some(sequence, rng)?;
        }
        Ok(())
    }

    /// Reads which life the server serves, and compares it with the one that a commit confirmed.
    fn read_life(
        &mut self,
        sequence: &Sequence,
        name: &str,
        expected: Option<(i64, u64)>,
    ) -> Option<i64> {
        let key = self.base(name).map(|base| sequence.key(base));
        let since = expected.map_or_else(|| self.ledger().now(), |(_, acknowledged)| acknowledged);
        if let Some((expected, _)) = expected
            && key != Some(expected)
        {
            self.ledger()
                .figures
                .wrong(format!("{name}: life {expected} was confirmed, but it is in {key:?}"));
        }
        self.ledger().close_other_lives(sequence, key, since);
        if key.is_none() {
            // It was dropped and not created again.
            let life = self.ledger().begin_life(sequence);
            let created = self.run(&sequence.create(name, &life));
            let key = self.base(name).map(|base| sequence.key(base));
            if created.is_ok() && key != Some(life.key) {
                self.ledger().figures.wrong(format!("{name}: created, but it is in {key:?}"));
            }
            let since = self.ledger().now();
            self.ledger().close_other_lives(sequence, key, since);
            self.ledger().forgotten(sequence, life.key);
        }
        key
    }

    /// The base of a sequence's numbers, if the sequence exists.
    fn base(&mut self, name: &str) -> Option<i64> {
        let sql = format!(
            "SELECT p.base FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id WHERE s.name = '{name}'"
        );
        for _ in 0..100 {
            match self.query(&sql) {
                Ok(rows) => return rows.first().map(|row| row.get(0)),
                Err(Failure::Refused(state)) if ["42P01", "3F000"].contains(&state.as_str()) => {
                    return None;
                }
                // Perhaps this session gets no memory. Another one does.
                Err(Failure::Refused(_) | Failure::Gone) => self.reconnect(),
            }
        }
        self.ledger().figures.wrong(format!("{name}: cannot read its base"));
        None
    }
}

/// An alteration that does not renumber, and changes nothing by which the ledger tells lives apart.
fn alteration(sequence: &Sequence, name: &str, rng: &mut Rng) -> String {
    let far = i64::MAX - rng.i64(0..1_000_000);
    let what = match rng.u32(..6) {
        0 | 1 if sequence.increment > 0 => format!("max_value => {far}"),
        0 | 1 => format!("min_value => {}", -far),
        2 if sequence.may_be_ordered() => format!("ordered => {}", rng.bool()),
        3 if sequence.hi_block.is_none() => format!("start_value => {}", rng.i64(1..1_000)),
        _ if sequence.hi_block.is_some() => format!("slice_size => {}", rng.i64(1..20)),
        _ if sequence.ordered || sequence.may_be_ordered() => {
            format!("block_size => {}", rng.i64(20..200))
        }
        _ => format!("block_size => {}, slice_size => {}", rng.i64(20..200), rng.i64(1..20)),
    };
    format!("SELECT hilo_alter('{name}', {what})")
}
