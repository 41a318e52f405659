//! Tests of the state file, without a server.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::*;
use crate::engine::{Id, NEVER, Purpose};

/// A file of a test, which goes with it.
pub struct Temporary(PathBuf);

impl Temporary {
    pub fn new(name: &str) -> Temporary {
        let path = std::env::temp_dir().join(format!("hilo-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        Temporary(path)
    }

    pub fn open(&self) -> (Store, Vec<Left>) {
        self.open_every(None)
    }

    fn open_every(&self, sync_every: Option<u32>) -> (Store, Vec<Left>) {
        Store::open(&self.0, "test", sync_every).expect("it opens")
    }

    /// Changes a part of the header that says where and when the file was used.
    fn change_header(&self, change: impl FnOnce(&mut Header)) {
        let slots = Slots::map(Slots::open(&self.0).expect("it is there")).expect("it is mapped");
        let mut header = slots.header().expect("it is sound").expect("it is there");
        change(&mut header);
        slots.set_header(&header).expect("it is written");
    }

    fn crash_the_machine(&self) {
        self.change_header(|header| header.place.boot[0] ^= 1);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub fn ask(store: &Store, size: i64) -> Uuid {
    let ask = Ask::new(Id(0), size, Purpose::Stock);
    store.write_ask(&ask, "orders").expect("there is room");
    ask.token
}

/// Takes a lease of the values from 1 to `count`, into a lane.
pub fn serve(store: &Arc<Store>, count: i64) -> (Uuid, NonNull<Lane>) {
    let token = ask(store, count);
    assert_eq!(store.hold(&token, (count, 1, count), None), (count, false));
    let lane = store.take_lane().expect("there is room");
    let lease = Lease { token, last: count, increment: 1, count, expires: NEVER };
    store.fill(lane_at(&lane), &lease).expect("it is there");
    (token, lane)
}

fn lane_at(lane: &NonNull<Lane>) -> &Lane {
    // SAFETY: the stores of these tests live as long as what they test.
    unsafe { lane.as_ref() }
}

pub fn take(lane: &NonNull<Lane>, count: usize) -> Vec<i64> {
    let one = || lane_at(lane).take(1).map(|took| took.first);
    std::iter::from_fn(one).take(count).collect()
}

/// As a process ends that is killed: it writes nothing more.
pub fn kill(store: Arc<Store>) {
    let store = Arc::into_inner(store).expect("nobody else has it");
    drop(store);
}

#[test]
fn a_lease_goes_on_where_it_was() {
    let file = Temporary::new("goes-on");
    let store = Arc::new(file.open().0);
    let holder = store.holder().to_owned();
    let (token, lane) = serve(&store, 100);
    let asked = ask(&store, 50);
    assert_eq!(take(&lane, 40), (1..=40).collect::<Vec<_>>());
    kill(store);
    let (store, mut left) = file.open();
    assert_eq!(store.holder(), holder);
    left.sort_by_key(|one| one.size);
    let one = |token, size| Left { token, name: "orders".into(), size, returns: None };
    assert_eq!(left, [one(asked, 50), one(token, 100)]);
    assert_eq!(store.hold(&token, (100, 1, 100), None), (60, true));
    // The server has given another one under this name: all of it is new.
    assert_eq!(store.hold(&token, (300, 1, 100), None), (100, false));
    assert_eq!(store.hold(&asked, (150, 1, 50), None), (50, false));
}

/// Its next value is the next one of all.
#[test]
fn the_lease_that_was_in_use_comes_first() {
    let file = Temporary::new("first");
    let store = Arc::new(file.open().0);
    let unused = ask(&store, 100);
    store.hold(&unused, (200, 1, 100), None);
    let (begun, lane) = serve(&store, 100);
    let asked = ask(&store, 100);
    assert_eq!(take(&lane, 1), [1]);
    kill(store);
    let tokens: Vec<Uuid> = file.open().1.iter().map(|left| left.token).collect();
    assert_eq!(tokens, [begun, unused, asked]);
}

#[test]
fn a_lease_that_was_closed_or_used_up_or_returned_is_not_served() {
    let file = Temporary::new("closed");
    let store = Arc::new(file.open().0);
    let (closed, lane) = serve(&store, 10);
    take(&lane, 3);
    assert_eq!(store.close(lane_at(&lane)), 7);
    // The lane goes on with another lease.
    let used_up = ask(&store, 5);
    store.hold(&used_up, (25, 1, 5), None);
    let lease = Lease { token: used_up, last: 25, increment: 1, count: 5, expires: NEVER };
    store.fill(lane_at(&lane), &lease).expect("it is there");
    take(&lane, 5);
    let (returned, _) = serve(&store, 20);
    let back = Return { token: returned, next: 12, tried: false };
    store.write_returns(&[back]).expect("the disk works");
    kill(store);
    let (store, left) = file.open();
    let returns = |token| left.iter().find(|one| one.token == token).map(|one| one.returns);
    assert_eq!(returns(closed), Some(None));
    assert_eq!(store.hold(&closed, (10, 1, 10), None), (7, true));
    assert_eq!(returns(used_up), Some(Some(26)));
    assert_eq!(returns(returned), Some(Some(12)));
    store.free(&used_up);
    drop(store);
    assert_eq!(file.open().1.len(), 2);
}

#[test]
fn one_process_has_it_at_a_time() {
    let file = Temporary::new("locked");
    let (store, _) = file.open();
    let error = Store::open(&file.0, "test", None).expect_err("it is locked").to_string();
    assert!(error.contains(&format!("another process, {}", std::process::id())), "{error}");
    let store = Arc::new(store);
    let (_, lane) = serve(&store, 10);
    store.release(false);
    // Who still has a lane finds nothing in it, and writes nothing into what others have now.
    assert!(take(&lane, 1).is_empty());
    let (next, left) = file.open();
    assert_eq!(left.len(), 1);
    assert_eq!(next.hold(&left[0].token, (10, 1, 10), None), (10, true));
}

#[test]
fn a_copy_has_nothing_and_another_name() {
    let (file, copy) = (Temporary::new("original"), Temporary::new("copy"));
    let store = Arc::new(file.open().0);
    serve(&store, 10);
    fs::copy(&file.0, &copy.0).expect("it can be copied");
    let (of_copy, left) = copy.open();
    assert_eq!(left, []);
    assert_ne!(of_copy.holder(), store.holder());
    let revoked = of_copy.meet(1, 1).expect("it is nobody's");
    assert_eq!(revoked, None, "the leases of the original stay");
    kill(store);
    file.change_header(|header| header.place.machine[0] ^= 1);
    assert_eq!(file.open().1, [], "another machine");
}

#[test]
fn a_crash_of_the_machine_costs_what_was_not_on_the_disk() {
    let file = Temporary::new("crashed");
    for (sync_every, expected) in [(None, None), (Some(10), Some(50)), (Some(200), None)] {
        let store = Arc::new(file.open_every(sync_every).0);
        let holder = store.holder().to_owned();
        let (token, lane) = serve(&store, 100);
        while take(&lane, 1) != [45] {
            if lane_at(&lane).is_held_back() {
                store.release_more(lane_at(&lane)).expect("the disk works");
            }
        }
        kill(store);
        file.crash_the_machine();
        let (store, left) = file.open_every(sync_every);
        // Nobody knows how far the others were used.
        let revoked = expected.is_none().then(|| holder.clone());
        assert_eq!(store.holder() != holder, revoked.is_some());
        assert_eq!(store.meet(1, 1).expect("no server yet"), revoked);
        assert_eq!((!left.is_empty()).then(|| store.hold(&token, (100, 1, 100), None).0), expected);
        store.note_revoked().expect("it is written");
        store.release(true);
    }
}

/// A lease that has come is not given up because nothing of it was served yet.
#[test]
fn a_crash_of_the_machine_costs_no_lease_that_is_unused() {
    let file = Temporary::new("unused");
    let mut store = file.open_every(Some(10)).0;
    let token = ask(&store, 100);
    store.hold(&token, (100, 1, 100), None);
    store.sync().expect("the disk works");
    // Before the second one, a process has only gone on with it.
    for _ in 0..2 {
        drop(store);
        file.crash_the_machine();
        store = file.open_every(Some(10)).0;
        assert_eq!(store.hold(&token, (100, 1, 100), None), (100, true));
        store.sync().expect("the disk works");
    }
    drop(store);
    // A process without `sync_every` serves some of it.
    let store = Arc::new(file.open().0);
    assert_eq!(store.hold(&token, (100, 1, 100), None), (100, true));
    let lane = store.take_lane().expect("there is room");
    let lease = Lease { token, last: 100, increment: 1, count: 100, expires: NEVER };
    store.fill(lane_at(&lane), &lease).expect("it is there");
    take(&lane, 5);
    kill(store);
    let (store, _) = file.open_every(Some(10));
    assert_eq!(store.hold(&token, (100, 1, 100), None), (95, true));
    drop(store);
    file.crash_the_machine();
    assert_eq!(file.open_every(Some(10)).0.hold(&token, (100, 1, 100), None), (95, true));
}

/// The name of a holder is longer by one every second time.
#[test]
fn the_longest_name_is_not_too_long_after_a_crash_of_the_machine() {
    let file = Temporary::new("longest");
    let open = |length| Store::open(&file.0, &"n".repeat(length), None);
    let error = open(222).expect_err("it is too long").to_string();
    assert!(error.contains("the name of the client is too long"), "{error}");
    let mut store = open(221).expect("it fits").0;
    for length in [255, 254, 255] {
        ask(&store, 10);
        drop(store);
        file.crash_the_machine();
        store = open(221).expect("it fits").0;
        assert_eq!(store.holder().len(), length);
        store.note_revoked().expect("it is written");
    }
}

/// A process without `sync_every` serves what one before it was sure to have.
#[test]
fn a_floor_ends_where_nobody_keeps_it() {
    let file = Temporary::new("floor");
    let store = Arc::new(file.open_every(Some(10)).0);
    let (token, lane) = serve(&store, 100);
    take(&lane, 5);
    kill(store);
    let store = Arc::new(file.open().0);
    assert_eq!(store.hold(&token, (100, 1, 100), None), (95, true));
    let lane = store.take_lane().expect("there is room");
    let lease = Lease { token, last: 100, increment: 1, count: 95, expires: NEVER };
    store.fill(lane_at(&lane), &lease).expect("it is there");
    assert_eq!(take(&lane, 95).last(), Some(&100));
    kill(store);
    file.crash_the_machine();
    assert_eq!(file.open_every(Some(10)).1, []);
}

/// The file system may give a new file the inode of one that was removed.
#[test]
fn a_file_of_another_birth_is_a_copy() {
    let file = Temporary::new("birth");
    for birth in [1, 0] {
        let store = Arc::new(file.open().0);
        let (_, holder) = (serve(&store, 10), store.holder().to_owned());
        kill(store);
        file.change_header(|header| header.place.birth = birth);
        let (store, left) = file.open();
        assert_eq!(left, []);
        assert_ne!(store.holder(), holder);
    }
    let place = Place::default();
    assert!(!place.is_same_file(&place), "nobody knows when it was made");
}

#[test]
fn no_more_is_left_than_the_lease_has() {
    let file = Temporary::new("too-many");
    let store = Arc::new(file.open().0);
    let (token, lane) = serve(&store, 10);
    store.close(lane_at(&lane));
    store.lock().record(&token).expect("it is there").set_left(11);
    kill(store);
    assert_eq!(file.open().0.hold(&token, (10, 1, 10), None), (10, true));
}

#[test]
fn a_file_that_others_can_write_or_put_there_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (file, link) = (Temporary::new("open"), Temporary::new("link"));
    drop(file.open());
    symlink(&file.0, &link.0).expect("a link");
    assert!(Store::open(&link.0, "test", None).is_err());
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o620)).expect("it is ours");
    let error = Store::open(&file.0, "test", None).expect_err("a group writes it").to_string();
    assert!(error.contains("no other user can write"), "{error}");
}

#[test]
fn leases_of_another_server_are_refused() {
    let file = Temporary::new("server");
    let (store, _) = file.open();
    assert_eq!(store.meet(7, 5).expect("it is new"), None);
    let token = ask(&store, 10);
    drop(store);
    let (store, _) = file.open();
    assert!(store.meet(7, 6).is_err() && store.meet(8, 5).is_err());
    store.meet(7, 5).expect("it is the same");
    store.free(&token);
    store.meet(8, 5).expect("nothing is left of the other one");
}

#[test]
fn what_is_no_state_file_is_left_as_it_is() {
    let file = Temporary::new("foreign");
    for size in [1, 512, SLOT_BYTES] {
        fs::write(&file.0, vec![b'x'; size]).expect("a file");
        let error = Store::open(&file.0, "test", None).expect_err("it is none").to_string();
        assert!(error.contains("no state file of hilo"), "{error}");
        assert_eq!(fs::read(&file.0).expect("a file"), vec![b'x'; size]);
    }
    let nowhere = Store::open(&file.0.join("none"), "test", None).expect_err("a file is no folder");
    assert!(nowhere.to_string().contains("Not a directory"), "{nowhere}");
}

const SLOT_BYTES: usize = slots::SLOT * slots::CHUNK as usize;

#[test]
fn a_file_with_holes_gets_its_room_when_it_is_opened() {
    use std::os::unix::fs::MetadataExt;
    let file = Temporary::new("holes");
    drop(file.open());
    let header = fs::read(&file.0).expect("a file")[..slots::SLOT].to_vec();
    let holes = Slots::open(&file.0).expect("a file");
    holes.set_len(0).expect("it is cut");
    holes.write_all_at(&header, 0).expect("it is written");
    holes.set_len(2 * SLOT_BYTES as u64).expect("it is longer");
    let (store, _) = file.open();
    let blocks = holes.metadata().expect("a file").blocks();
    assert!(blocks * 512 >= 2 * SLOT_BYTES as u64, "{blocks} blocks");
    drop(store);
}

#[test]
fn a_place_where_nothing_can_be_written_is_an_error() {
    let error =
        Store::open(Path::new("/proc/hilo-state"), "test", None).expect_err("of the system");
    assert!(error.to_string().contains("\"/proc/hilo-state\": "), "{error}");
}

/// Where it is torn, a record is not used after a crash of the machine.
#[test]
fn a_torn_record_is_given_up() {
    let file = Temporary::new("torn");
    let store = Arc::new(file.open_every(Some(10)).0);
    serve(&store, 100);
    kill(store);
    file.crash_the_machine();
    let bytes = fs::read(&file.0).expect("a file");
    let at = bytes.windows(6).position(|part| part == b"orders").expect("the name");
    Slots::open(&file.0).expect("a file").write_all_at(b"O", at as u64).expect("it is written");
    assert_eq!(file.open_every(Some(10)).1, []);
}

#[test]
fn it_grows() {
    let file = Temporary::new("grows");
    let store = Arc::new(file.open().0);
    let served: Vec<_> = (0..300).map(|_| serve(&store, 10)).collect();
    served.iter().for_each(|(_, lane)| assert_eq!(take(lane, 2), [1, 2]));
    kill(store);
    let (store, left) = file.open();
    assert_eq!(left.len(), 300);
    assert!(left.iter().all(|one| store.hold(&one.token, (10, 1, 10), None) == (8, true)));
}
