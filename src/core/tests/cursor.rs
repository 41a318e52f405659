//! The cursor with real threads, and step by step against a plain counter. cursor_loom.rs tries
//! every interleaving of a few steps.
#![cfg(not(loom))]

use hilo_core::cursor::{Cursor, MAX_SEGMENT, Taken};
use hilo_core::numbers::{Index, Serial};
use hilo_core::range::Range;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

#[derive(Clone, Debug)]
enum Step {
    /// the caller serves `most` indexes of each segment
    Take {
        want: i64,
        serial: i64,
        most: i64,
    },
    TakeExactly {
        count: i64,
        serial: i64,
        most: i64,
    },
    /// returns the part from `keep` on of what was taken last
    Untake {
        keep: i64,
        serial: i64,
    },
    Install {
        len: i64,
        serial: i64,
    },
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let serial = 1i64..3;
    let most = prop_oneof![3 => Just(100i64), 1 => 0i64..50];
    prop_oneof![
        4 => (1i64..20, serial.clone(), most.clone())
            .prop_map(|(want, serial, most)| Step::Take { want, serial, most }),
        2 => (1i64..20, serial.clone(), most)
            .prop_map(|(count, serial, most)| Step::TakeExactly { count, serial, most }),
        2 => (0i64..20, serial.clone()).prop_map(|(keep, serial)| Step::Untake { keep, serial }),
        2 => (0i64..50, serial).prop_map(|(len, serial)| Step::Install { len, serial }),
        1 => Just(Step::Close),
    ]
}

proptest! {
    /// One thread: the cursor is a range that is cut from the front.
    #[test]
    fn it_is_a_range_cut_from_the_front(steps in prop::collection::vec(step(), 1..60)) {
        let cursor = Cursor::new();
        let (mut rest, mut current, mut start) = (Range::EMPTY, 0, Index::ZERO);
        let mut segment = Index::ZERO;
        let mut last: Option<Range> = None;
        for step in steps {
            match step {
                Step::Take { want: count, serial, most }
                | Step::TakeExactly { count, serial, most } => {
                    let exactly = matches!(step, Step::TakeExactly { .. });
                    let end = segment + most;
                    let fits = |range: Range| range.end <= end;
                    let taken =
                        match exactly {
                            true => cursor.take_exactly(count, Serial(serial), fits),
                            false => cursor.take(count, Serial(serial), fits),
                        };
                    let least = if exactly { count } else { 1 };
                    let expected = if serial != current {
                        Taken::OtherSerial(Serial(current))
                    } else if rest.len() < least {
                        Taken::Empty
                    } else if rest.start + count.min(rest.len()) > end {
                        Taken::Unfit
                    } else {
                        let range = rest.take(count);
                        last = Some(range);
                        Taken::Range { range, left: rest.len() }
                    };
                    prop_assert_eq!(taken, expected);
                }
                Step::Untake { keep, serial } => {
                    let Some(mut range) = last.take() else { continue };
                    range.take(keep.min(range.len() - 1));
                    let fits = serial == current
                        && range.end == rest.start
                        && range.start >= segment;
                    prop_assert_eq!(cursor.untake(range, Serial(serial)), fits);
                    if fits {
                        rest.start = range.start;
                    }
                }
                Step::Install { len, serial } => {
                    // Each segment has indexes that no earlier one had.
                    start += 1000;
                    let next = Range::with_len(start, len);
                    prop_assert_eq!(cursor.install(next, Serial(serial)).len(), rest.len());
                    (rest, current, segment) = (next, serial, start);
                }
                Step::Close => {
                    let left = cursor.close();
                    prop_assert_eq!(left.len(), rest.len());
                    prop_assert!(left.is_empty() || left == rest);
                    (rest, segment) = (Range::EMPTY, Index::ZERO);
                }
            }
            let (seen, serial) = cursor.peek();
            prop_assert_eq!((seen.len(), serial), (rest.len(), Serial(current)));
        }
    }
}

#[test]
fn the_largest_segment_is_taken_to_its_end() {
    let cursor = Cursor::new();
    let whole = Range::new(Index::MAX - MAX_SEGMENT, Index::MAX);
    cursor.install(whole, Serial(7));
    let take = |want| cursor.take(want, Serial(7), |_| true);
    assert_eq!(take(i64::MAX), Taken::Range { range: whole, left: 0 });
    assert_eq!(take(1), Taken::Empty);
    assert!(cursor.untake(whole, Serial(7)));
    assert_eq!(cursor.close(), whole);
}

/// Threads take, return and install until `end` has been taken. The serial changes now and then,
/// and then the indexes start over. No thread gets what another got, and nothing is missing.
#[test]
fn threads_share_everything_and_nothing_twice() {
    const SERIALS: i64 = 40;
    const END: i64 = 20_000;
    let cursor = Cursor::new();
    // The state that the writers' lock protects: the serial, and the first index that is not yet
    // installed.
    let position = Mutex::new((1i64, 0i64));
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..4i64 {
            let (cursor, position, all) = (&cursor, &position, &all);
            scope.spawn(move || {
                let mut own = Vec::new();
                let (mut serial, mut draws) = (1, 0);
                loop {
                    draws += 1;
                    let want = 1 + (draws * 7 + number) % 64;
                    match cursor.take(want, Serial(serial), |_| true) {
                        Taken::Range { mut range, .. } => {
                            own.push((serial, range.take(1 + draws % 8)));
                            if !range.is_empty() && !cursor.untake(range, Serial(serial)) {
                                own.push((serial, range));
                            }
                        }
                        Taken::OtherSerial(Serial(other)) => {
                            if other == 0 {
                                refill(cursor, position, &mut own, END);
                            } else {
                                assert!(other > serial, "{other} after {serial}");
                                serial = other;
                            }
                        }
                        Taken::Unfit => panic!("all indexes fit"),
                        Taken::Empty => {
                            if refill(cursor, position, &mut own, END) > SERIALS {
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
    for (serial, range) in all.into_inner().unwrap() {
        if serial > SERIALS {
            continue;
        }
        for index in range.start.0..range.end.0 {
            assert!(seen.insert((serial, index)), "{index} of serial {serial} twice");
        }
    }
    let complete = (1..=SERIALS).flat_map(|serial| (0..END).map(move |index| (serial, index)));
    assert_eq!(seen.len() as i64, SERIALS * END);
    assert!(complete.into_iter().all(|index| seen.contains(&index)));
}

/// Installs the next segment if the current one is used up; returns the serial.
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
    let (serial, start) = *position;
    let next = Range::with_len(Index(start), 1 + (start * 31 + serial) % 500).until(Index(end));
    position.1 = next.end.0;
    // A taker may have returned a part since the segment was seen to be empty.
    let left = cursor.install(next, Serial(serial));
    if !left.is_empty() {
        own.push((before.0, left));
    }
    serial
}
