//! The cursor under a model checker: every interleaving of takers and one writer, up to a bound of
//! preemptions. Every stale read that the memory orders allow is tried.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p hilo-core --release --no-default-features
//! --test cursor_loom --target-dir target/loom`
//!
//! Weak compare-and-swap does not fail by itself here; a failure only repeats the loop.
#![cfg(loom)]

use hilo_core::cursor::{Cursor, Taken};
use hilo_core::numbers::{Index, Serial};
use hilo_core::range::Range;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

/// (serial, index), each at most once in a list of all that was taken.
type Owned = Vec<(i64, i64)>;

fn range(start: i64, end: i64) -> Range {
    Range::new(Index(start), Index(end))
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(model);
}

fn own(range: Range, serial: i64) -> Owned {
    (range.start.0..range.end.0).map(|index| (serial, index)).collect()
}

fn cursor(range: Range, serial: i64) -> Arc<Cursor> {
    let cursor = Cursor::new();
    cursor.install(range, Serial(serial));
    Arc::new(cursor)
}

/// Takes up to `want` indexes of serial 1, `times` times.
fn taker(cursor: &Arc<Cursor>, times: usize, want: i64) -> JoinHandle<Owned> {
    let cursor = cursor.clone();
    thread::spawn(move || {
        let mut all = Owned::new();
        for _ in 0..times {
            match cursor.take(want, Serial(1), |_| true) {
                Taken::Range { range, .. } => all.extend(own(range, 1)),
                Taken::Empty => {}
                other => panic!("{other:?}, where all fits and no other serial is installed"),
            }
        }
        all
    })
}

/// All that was taken and all that was left are what was installed, each index once.
fn assert_all(mut given: Owned, installed: &[(Range, i64)]) {
    given.sort();
    let mut expected: Owned = installed.iter().flat_map(|(r, serial)| own(*r, *serial)).collect();
    expected.sort();
    assert_eq!(given, expected);
}

#[test]
fn two_takers_and_the_next_segment() {
    check(5, || {
        let (first, next) = (range(0, 3), range(10, 12));
        let cursor = cursor(first, 1);
        let takers = [taker(&cursor, 2, 2), taker(&cursor, 2, 1)];
        let mut given = own(cursor.install(next, Serial(1)), 1);
        for taker in takers {
            given.extend(taker.join().unwrap());
        }
        given.extend(own(cursor.close(), 1));
        assert_all(given, &[(first, 1), (next, 1)]);
    });
}

#[test]
fn a_taker_and_a_place_that_is_used_again() {
    check(8, || {
        let segments = [range(0, 2), range(10, 12), range(20, 22)];
        let cursor = cursor(segments[0], 1);
        let taker = taker(&cursor, 3, 1);
        let mut given = own(cursor.install(segments[1], Serial(1)), 1);
        given.extend(own(cursor.install(segments[2], Serial(1)), 1));
        given.extend(taker.join().unwrap());
        given.extend(own(cursor.close(), 1));
        assert_all(given, &segments.map(|segment| (segment, 1)));
    });
}

/// A taker gets nothing that it cannot serve, and is told so only where nothing else is left.
#[test]
fn a_taker_that_serves_only_the_first_segments() {
    check(5, || {
        let segments = [range(0, 2), range(10, 12), range(20, 22)];
        let cursor = cursor(segments[0], 1);
        let picky = {
            let cursor = cursor.clone();
            thread::spawn(move || {
                let (mut all, mut refused) = (Owned::new(), false);
                for _ in 0..3 {
                    match cursor.take(1, Serial(1), |range| range.end.0 <= 20) {
                        Taken::Range { range, .. } => {
                            assert!(range.end.0 <= 20 && !refused, "{range:?}");
                            all.extend(own(range, 1));
                        }
                        Taken::Unfit => refused = true,
                        Taken::Empty => {}
                        Taken::OtherSerial(serial) => panic!("serial {serial}"),
                    }
                }
                all
            })
        };
        let mut given = own(cursor.install(segments[1], Serial(1)), 1);
        given.extend(own(cursor.install(segments[2], Serial(1)), 1));
        given.extend(picky.join().unwrap());
        given.extend(own(cursor.close(), 1));
        assert_all(given, &segments.map(|segment| (segment, 1)));
    });
}

#[test]
fn take_untake_and_install() {
    check(5, || {
        let (first, next) = (range(0, 3), range(3, 5));
        let cursor = cursor(first, 1);
        let giver = {
            let cursor = cursor.clone();
            thread::spawn(move || match cursor.take(2, Serial(1), |_| true) {
                Taken::Range { range, .. } if !cursor.untake(range, Serial(1)) => own(range, 1),
                _ => Owned::new(),
            })
        };
        let taker = taker(&cursor, 2, 1);
        let mut given = own(cursor.install(next, Serial(1)), 1);
        given.extend(giver.join().unwrap());
        given.extend(taker.join().unwrap());
        given.extend(own(cursor.close(), 1));
        assert_all(given, &[(first, 1), (next, 1)]);
    });
}

/// Two takers at once use a part of what they took and return the rest.
#[test]
fn two_who_untake() {
    check(8, || {
        let all = range(0, 4);
        let cursor = cursor(all, 1);
        let givers = [(); 2].map(|()| {
            let cursor = cursor.clone();
            thread::spawn(move || {
                let Taken::Range { mut range, .. } = cursor.take(2, Serial(1), |_| true) else {
                    return Owned::new();
                };
                let mut kept = own(range.take(1), 1);
                if !cursor.untake(range, Serial(1)) {
                    kept.extend(own(range, 1));
                }
                kept
            })
        });
        let mut given: Owned = givers.into_iter().flat_map(|g| g.join().unwrap()).collect();
        given.extend(own(cursor.close(), 1));
        assert_all(given, &[(all, 1)]);
    });
}

/// Indexes start over with the serial: what was taken under one serial must not count for the
/// other.
#[test]
fn a_new_serial_and_takers_of_both() {
    check(2, || {
        let (old, new) = (range(0, 2), range(0, 2));
        let cursor = cursor(old, 1);
        let takers = [(); 2].map(|()| {
            let cursor = cursor.clone();
            thread::spawn(move || {
                let mut all = Owned::new();
                let mut serial = 1;
                for _ in 0..2 {
                    match cursor.take(1, Serial(serial), |_| true) {
                        Taken::Range { range, .. } => all.extend(own(range, serial)),
                        Taken::Empty => {}
                        Taken::OtherSerial(Serial(other)) => {
                            assert_eq!((serial, other), (1, 2));
                            serial = other;
                        }
                        Taken::Unfit => panic!("all indexes fit"),
                    }
                }
                all
            })
        });
        let mut given = own(cursor.close(), 1);
        assert_eq!(cursor.install(new, Serial(2)).len(), 0);
        for taker in takers {
            given.extend(taker.join().unwrap());
        }
        given.extend(own(cursor.close(), 2));
        assert_all(given, &[(old, 1), (new, 2)]);
    });
}

/// A taker of the old serial returns its indexes when the new serial serves the same ones.
#[test]
fn what_was_taken_under_the_old_serial_is_not_returned_to_the_new() {
    check(6, || {
        let (old, new) = (range(0, 2), range(0, 2));
        let cursor = cursor(old, 1);
        let giver = {
            let cursor = cursor.clone();
            thread::spawn(move || match cursor.take(1, Serial(1), |_| true) {
                Taken::Range { range, .. } if !cursor.untake(range, Serial(1)) => own(range, 1),
                _ => Owned::new(),
            })
        };
        let taker = {
            let cursor = cursor.clone();
            thread::spawn(move || match cursor.take(1, Serial(2), |_| true) {
                Taken::Range { range, .. } => own(range, 2),
                other => {
                    assert!(matches!(other, Taken::OtherSerial(Serial(1)) | Taken::Empty));
                    Owned::new()
                }
            })
        };
        let mut given = own(cursor.install(new, Serial(2)), 1);
        given.extend(giver.join().unwrap());
        given.extend(taker.join().unwrap());
        given.extend(own(cursor.close(), 2));
        assert_all(given, &[(old, 1), (new, 2)]);
    });
}

/// A taker gets all or nothing, and a view that reads meanwhile sees only what there was.
#[test]
fn exactly_and_peek() {
    check(3, || {
        let (first, next, last) = (range(0, 3), range(10, 12), range(20, 21));
        let cursor = cursor(first, 1);
        let exact = {
            let cursor = cursor.clone();
            thread::spawn(move || match cursor.take_exactly(2, Serial(1), |_| true) {
                Taken::Range { range, .. } => {
                    assert_eq!(range.len(), 2);
                    own(range, 1)
                }
                other => {
                    assert!(matches!(other, Taken::Empty | Taken::OtherSerial(Serial(2))));
                    Owned::new()
                }
            })
        };
        let viewer = {
            let cursor = cursor.clone();
            thread::spawn(move || {
                let (range, serial) = cursor.peek();
                match serial {
                    Serial(1) => {
                        assert!([3, 12].contains(&range.end.0) && range.len() <= 3, "{range:?}")
                    }
                    Serial(2) => assert_eq!(range, last),
                    _ => panic!("serial {serial} was never installed"),
                }
            })
        };
        let mut given = own(cursor.install(next, Serial(1)), 1);
        given.extend(own(cursor.install(last, Serial(2)), 1));
        given.extend(exact.join().unwrap());
        viewer.join().unwrap();
        given.extend(own(cursor.close(), 2));
        assert_all(given, &[(first, 1), (next, 1), (last, 2)]);
    });
}
