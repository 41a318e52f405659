//! The values that clients have seen, kept outside the server, and checks of what no server may do.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The direction of a sequence's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Rising,
    Falling,
}

impl Way {
    /// Whether `later` may follow `earlier`.
    fn allows(self, earlier: i64, later: i64) -> bool {
        match self {
            Way::Rising => earlier < later,
            Way::Falling => earlier > later,
        }
    }
}

/// Every value of one sequence that any client ever saw, committed or not.
pub struct Seen {
    way: Way,
    count: AtomicUsize,
    sessions: Mutex<Vec<Vec<i64>>>,
}

impl Seen {
    pub fn new(way: Way) -> Seen {
        Seen { way, count: AtomicUsize::new(0), sessions: Mutex::default() }
    }

    /// Records what one connection sees. A new connection is a new session.
    pub fn session(&self) -> Session<'_> {
        Session { seen: self, values: Vec::new() }
    }

    /// How many values were seen so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All the values of the sessions that have ended, in order.
    pub fn in_order(&self) -> Vec<i64> {
        let mut values = self.sessions.lock().unwrap().concat();
        values.sort_unstable();
        values
    }

    /// Fails the test if a value was seen twice.
    #[track_caller]
    pub fn assert_unique(&self) {
        let values = self.in_order();
        let twice: Vec<i64> =
            values.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert!(
            twice.is_empty(),
            "{} values twice: {:?} …",
            twice.len(),
            &twice[..twice.len().min(20)]
        );
    }
}

/// The values that one connection sees; each must lie beyond the one before.
pub struct Session<'a> {
    seen: &'a Seen,
    values: Vec<i64>,
}

impl Session<'_> {
    /// Records `values` in the order in which the connection received them.
    #[track_caller]
    pub fn saw(&mut self, values: &[i64]) {
        for &value in values {
            if let Some(&last) = self.values.last() {
                assert!(self.seen.way.allows(last, value), "{value} after {last} in one session");
            }
            self.values.push(value);
        }
        self.seen.count.fetch_add(values.len(), Ordering::Relaxed);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Ok(mut sessions) = self.seen.sessions.lock() {
            sessions.push(std::mem::take(&mut self.values));
        }
    }
}

/// The calls of an ordered sequence: a call that returned before another one began has the smaller value.
#[derive(Default)]
pub struct Order {
    calls: Mutex<Vec<Call>>,
}

#[derive(Clone, Copy)]
struct Call {
    began: Instant,
    ended: Instant,
    lowest: i64,
    highest: i64,
}

impl Order {
    /// Records a statement that began at `began`, has just returned, and served `values`.
    pub fn note_return(&self, began: Instant, values: &[i64]) {
        let ended = Instant::now();
        if let (Some(&lowest), Some(&highest)) = (values.iter().min(), values.iter().max()) {
            self.calls.lock().unwrap().push(Call { began, ended, lowest, highest });
        }
    }

    /// Fails the test if a call has a smaller value than one that had returned before it began.
    #[track_caller]
    pub fn assert_kept(&self) {
        let mut begun = self.calls.lock().unwrap().clone();
        let mut ended = begun.clone();
        begun.sort_unstable_by_key(|call| call.began);
        ended.sort_unstable_by_key(|call| call.ended);
        let mut returned = ended.iter().peekable();
        let mut highest = i64::MIN;
        for call in begun {
            while let Some(earlier) = returned.next_if(|earlier| earlier.ended < call.began) {
                highest = highest.max(earlier.highest);
            }
            assert!(
                call.lowest > highest,
                "a call got {} when {highest} had already been returned",
                call.lowest
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "1 values twice: [3]")]
    fn finds_a_value_that_two_sessions_saw() {
        let seen = Seen::new(Way::Rising);
        seen.session().saw(&[1, 3, 5]);
        seen.session().saw(&[2, 3, 4]);
        assert_eq!(seen.count(), 6);
        seen.assert_unique();
    }

    #[test]
    #[should_panic(expected = "-4 after -7 in one session")]
    fn finds_a_session_that_goes_back() {
        Seen::new(Way::Falling).session().saw(&[-1, -7, -4]);
    }

    #[test]
    fn lets_calls_that_overlap_share_the_order() {
        let order = Order::default();
        let (first, second) = (Instant::now(), Instant::now());
        order.note_return(first, &[2, 3]);
        order.note_return(second, &[1]);
        order.assert_kept();
    }

    #[test]
    #[should_panic(expected = "a call got 2 when 3 had already been returned")]
    fn finds_a_call_that_came_too_late_for_its_value() {
        let order = Order::default();
        order.note_return(Instant::now(), &[1, 3]);
        order.note_return(Instant::now(), &[2]);
        order.assert_kept();
    }
}
