//! Finds the current version of a row without its index, which leads to all versions that an old
//! snapshot keeps. It starts at the place where the version was last seen, or at the root of its
//! HOT chain. That root stays the same while updates find room in the page.

use pgrx::pg_sys;

use crate::catalog::rows::table::{Row, Table, block_of};

/// The most line pointers that a heap page has, with room to spare.
const LINE_POINTERS: usize = pg_sys::BLCKSZ as usize / 24;

/// Removes versions from a page that nobody may see any more, if there is little room in it.
///
/// # Safety
/// The relation must be open, and the buffer be pinned and hold a page of it.
unsafe fn prune(relation: pg_sys::Relation, buffer: pg_sys::Buffer) {
    // SAFETY: as the caller guarantees. The page of the visibility map is pinned only if it is
    // asked for, and is released.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
        pg_sys::heap_page_prune_opt(relation, buffer);
        #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
        {
            let mut map = pg_sys::InvalidBuffer as pg_sys::Buffer;
            pg_sys::heap_page_prune_opt(relation, buffer, &mut map, false);
            if map != pg_sys::InvalidBuffer as pg_sys::Buffer {
                pg_sys::ReleaseBuffer(map);
            }
        }
    }
}

impl Table {
    /// The version at this place, if it is current: see [`Table::at`]. Like an index scan, it first
    /// removes old versions from the page if there is little room left.
    pub fn in_force(&self, place: pg_sys::ItemPointerData) -> Option<Row> {
        let (relation, block) = (self.relation(), block_of(&place));
        if !self.has_block_of(&place) {
            return None;
        }
        // SAFETY: the relation is open, and has the block. No place of a version that somebody may
        // see changes.
        unsafe {
            let buffer = pg_sys::ReadBuffer(relation, block);
            prune(relation, buffer);
            pg_sys::ReleaseBuffer(buffer);
        }
        self.at(place)
    }

    /// The version in force of the row whose versions begin at `root`, if it is still there. It may
    /// be another row by now: the caller compares the key. It takes no predicate lock.
    ///
    /// A scan of the index removes old versions from each page that is half full. This does so only
    /// if there is hardly room for another version, so that not every update pays for it.
    pub fn in_chain(&self, root: pg_sys::ItemPointerData) -> Option<Row> {
        const ROOM: usize = pg_sys::BLCKSZ as usize / 10;
        let (relation, block) = (self.relation(), block_of(&root));
        let mut place = root;
        let mut tuple = pg_sys::HeapTupleData::default();
        if !self.has_block_of(&root) {
            return None;
        }
        // SAFETY: the relation is open, and has the block. The search accepts whatever lies at the
        // place, and runs under the lock that it requires. The row is copied while its page is
        // pinned.
        unsafe {
            let buffer = pg_sys::ReadBuffer(relation, block);
            if pg_sys::PageGetHeapFreeSpace(pg_sys::BufferGetPage(buffer)) < ROOM {
                prune(relation, buffer);
            }
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as _);
            let found = pg_sys::heap_hot_search_buffer(
                &mut place,
                relation,
                buffer,
                &raw mut pg_sys::SnapshotSelfData,
                &mut tuple,
                std::ptr::null_mut(),
                true,
            );
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as _);
            let row = found.then(|| self.row(&mut tuple));
            pg_sys::ReleaseBuffer(buffer);
            row
        }
    }

    /// Where the versions of a row begin that has just been found.
    pub fn root_of(&self, row: &Row) -> Option<pg_sys::ItemPointerData> {
        let mut place = row.place();
        let mut roots = [0; LINE_POINTERS];
        // SAFETY: the row lies in this page, and a page has no more line pointers than the array
        // has room for.
        unsafe {
            let buffer = pg_sys::ReadBuffer(self.relation(), block_of(&place));
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as _);
            pg_sys::heap_get_root_tuples(pg_sys::BufferGetPage(buffer), roots.as_mut_ptr());
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as _);
            pg_sys::ReleaseBuffer(buffer);
        }
        let root = *roots.get((place.ip_posid as usize).checked_sub(1)?)?;
        place.ip_posid = root;
        (root != 0).then_some(place)
    }
}
