//! The cursor with real threads, and step by step against a plain counter. Every interleaving of few
//! steps is in cursor_loom.rs.
#![cfg(not(loom))]

use hilo_core::cursor::{Cursor, MAX_SEGMENT, Taken};
use hilo_core::range::Range;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

#[derive(Clone, Debug)]
enum Step {
    Take {
        want: i64,
        epoch: i64,
    },
    TakeExactly {
        count: i64,
        epoch: i64,
    },
    /// gives back the part from `keep` on of what was taken last
    Untake {
        keep: i64,
        epoch: i64,
    },
    Install {
        len: i64,
        epoch: i64,
    },
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let epoch = 1i64..3;
    prop_oneof![
        4 => (1i64..20, epoch.clone()).prop_map(|(want, epoch)| Step::Take { want, epoch }),
        2 => (1i64..20, epoch.clone()).prop_map(|(count, epoch)| Step::TakeExactly { count, epoch }),
        2 => (0i64..20, epoch.clone()).prop_map(|(keep, epoch)| Step::Untake { keep, epoch }),
        2 => (0i64..50, epoch).prop_map(|(len, epoch)| Step::Install { len, epoch }),
        1 => Just(Step::Close),
    ]
}

proptest! {
    /// One thread: the cursor is a range that is cut from the front.
    #[test]
    fn it_is_a_range_cut_from_the_front(steps in prop::collection::vec(step(), 1..60)) {
        let cursor = Cursor::new();
        let (mut rest, mut current, mut start) = (Range::EMPTY, 0, 0);
        let mut segment = 0;
        let mut last: Option<Range> = None;
        for step in steps {
            match step {
                Step::Take { want: count, epoch } | Step::TakeExactly { count, epoch } => {
                    let exactly = matches!(step, Step::TakeExactly { .. });
                    let taken =
                        if exactly { cursor.take_exactly(count, epoch) } else { cursor.take(count, epoch) };
                    let least = if exactly { count } else { 1 };
                    let expected = if epoch != current {
                        Taken::OtherEpoch(current)
                    } else if rest.len() < least {
                        Taken::Empty
                    } else {
                        let range = rest.take(count);
                        last = Some(range);
                        Taken::Range { range, left: rest.len() }
                    };
                    prop_assert_eq!(taken, expected);
                }
                Step::Untake { keep, epoch } => {
                    let Some(mut range) = last.take() else { continue };
                    range.take(keep.min(range.len() - 1));
                    let fits = epoch == current && range.end == rest.start && range.start >= segment;
                    prop_assert_eq!(cursor.untake(range, epoch), fits);
                    if fits {
                        rest.start = range.start;
                    }
                }
                Step::Install { len, epoch } => {
                    // Never what was installed before: a place of its own for each.
                    start += 1000;
                    let next = Range::new(start, start + len);
                    prop_assert_eq!(cursor.install(next, epoch).len(), rest.len());
                    (rest, current, segment) = (next, epoch, start);
                }
                Step::Close => {
                    let left = cursor.close();
                    prop_assert_eq!(left.len(), rest.len());
                    prop_assert!(left.is_empty() || left == rest);
                    (rest, segment) = (Range::EMPTY, 0);
                }
            }
            let (seen, epoch) = cursor.peek();
            prop_assert_eq!((seen.len(), epoch), (rest.len(), current));
        }
    }
}

#[test]
fn the_largest_segment_is_taken_to_its_end() {
    let cursor = Cursor::new();
    let whole = Range::new(i64::MAX - MAX_SEGMENT, i64::MAX);
    cursor.install(whole, 7);
    assert_eq!(cursor.take(i64::MAX, 7), Taken::Range { range: whole, left: 0 });
    assert_eq!(cursor.take(1, 7), Taken::Empty);
    assert!(cursor.untake(whole, 7));
    assert_eq!(cursor.close(), whole);
}

/// Threads take, give back and install until `end` was dealt; the epoch changes now and then, and
/// then the indexes start over. Nobody gets what another got, and nothing is missing.
#[test]
fn threads_share_everything_and_nothing_twice() {
    const EPOCHS: i64 = 40;
    const END: i64 = 20_000;
    let cursor = Cursor::new();
    // What the writers' lock protects: the epoch, and from where on it is not yet installed.
    let position = Mutex::new((1i64, 0i64));
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..4i64 {
            let (cursor, position, all) = (&cursor, &position, &all);
            scope.spawn(move || {
                let mut own = Vec::new();
                let (mut epoch, mut draws) = (1, 0);
                loop {
                    draws += 1;
                    let want = 1 + (draws * 7 + number) % 64;
                    match cursor.take(want, epoch) {
                        Taken::Range { mut range, .. } => {
                            own.push((epoch, range.take(1 + draws % 8)));
                            if !range.is_empty() && !cursor.untake(range, epoch) {
                                own.push((epoch, range));
                            }
                        }
                        Taken::OtherEpoch(other) => {
                            if other == 0 {
                                refill(cursor, position, &mut own, END);
                            } else {
                                assert!(other > epoch, "{other} after {epoch}");
                                epoch = other;
                            }
                        }
                        Taken::Empty => {
                            if refill(cursor, position, &mut own, END) > EPOCHS {
                                break;
                            }
                        }
                    }
                }
                all.lock().unwrap().extend(own);
            });
        }
    });
    let mut seen = HashSet::new();
    for (epoch, range) in all.into_inner().unwrap() {
        if epoch > EPOCHS {
            continue;
        }
        for index in range.start..range.end {
            assert!(seen.insert((epoch, index)), "{index} of epoch {epoch} twice");
        }
    }
    let complete = (1..=EPOCHS).flat_map(|epoch| (0..END).map(move |index| (epoch, index)));
    assert_eq!(seen.len() as i64, EPOCHS * END);
    assert!(complete.into_iter().all(|index| seen.contains(&index)));
}

/// Installs the next segment if the one before is used up; returns the epoch.
fn refill(
    cursor: &Cursor,
    position: &Mutex<(i64, i64)>,
    own: &mut Vec<(i64, Range)>,
    end: i64,
) -> i64 {
    let mut position = position.lock().unwrap();
    if !cursor.peek().0.is_empty() {
        return position.0;
    }
    let before = *position;
    if position.1 == end {
        *position = (position.0 + 1, 0);
    }
    let (epoch, start) = *position;
    let next = Range::new(start, end.min(start + 1 + (start * 31 + epoch) % 500));
    position.1 = next.end;
    // A taker may have given back since the look at it.
    let left = cursor.install(next, epoch);
    if !left.is_empty() {
        own.push((before.0, left));
    }
    epoch
}
