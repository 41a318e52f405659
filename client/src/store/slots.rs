//! The state file: a header, and slots that can be added to it while it is in use.
//!
//! clients/state-file.md has its format. All numbers have the machine's byte order. A slot has a
//! lane and, independently of it, the record of a lease. Words are 8 bytes, written at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::*};

use fs4::FileExt;
use memmap2::{MmapOptions, MmapRaw};

use super::machine::Place;
use crate::fork;
use crate::lane::Lane;

/// The size of a slot, and of the header, which is slot 0.
pub const SLOT: usize = 512;
/// How many slots the file grows by.
pub const CHUNK: u32 = 128;
const CHUNK_BYTES: usize = SLOT * CHUNK as usize;

const MAGIC: &[u8; 8] = b"hilo\x1astr";
const VERSION: u32 = 1;
/// The longest name of a sequence, and of a holder.
pub const MAX_NAME: usize = 255;

/// The header of the file: who may use its leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub place: Place,
    /// The server's system identifier, and the database; 0: none yet.
    pub server: u64,
    pub database: u32,
    /// Whether the holder's leases are to be revoked, because nobody knows how far they were used.
    pub revoke: bool,
    /// The process that has the file open, or had it last.
    pub process: u32,
    pub holder: String,
}

/// The error of a header that is damaged, or of another version.
#[derive(Debug, thiserror::Error)]
#[error("it is no state file of hilo, one of another version, or damaged")]
pub struct Foreign;

impl Header {
    fn to_bytes(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, MAGIC);
        put(8, &VERSION.to_ne_bytes());
        put(16, &self.place.boot);
        put(32, &self.place.machine);
        put(48, &self.place.device.to_ne_bytes());
        put(56, &self.place.inode.to_ne_bytes());
        put(64, &self.place.birth.to_ne_bytes());
        put(72, &self.server.to_ne_bytes());
        put(80, &self.database.to_ne_bytes());
        put(84, &u32::from(self.revoke).to_ne_bytes());
        put(88, &self.process.to_ne_bytes());
        put(92, &(self.holder.len() as u32).to_ne_bytes());
        put(96, self.holder.as_bytes());
        let checksum = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_ne_bytes());
        bytes
    }

    /// `None`: the file is new and has none.
    fn from_bytes(bytes: &[u8; SLOT]) -> Result<Option<Header>, Foreign> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let long = |at: usize| u64::from_ne_bytes(part(bytes, at));
        let short = |at: usize| u32::from_ne_bytes(part(bytes, at));
        let length = short(92) as usize;
        let is_sound = bytes[..8] == *MAGIC
            && short(8) == VERSION
            && short(12) == crc32fast::hash(&bytes[16..])
            && length <= MAX_NAME;
        if !is_sound {
            return Err(Foreign);
        }
        let holder = String::from_utf8(bytes[96..96 + length].to_vec()).map_err(|_| Foreign)?;
        let (boot, machine) = (part(bytes, 16), part(bytes, 32));
        let (device, inode, birth) = (long(48), long(56), long(64));
        let place = Place { boot, machine, device, inode, birth };
        let (server, database, revoke) = (long(72), short(80), short(84) != 0);
        Ok(Some(Header { place, server, database, revoke, process: short(88), holder }))
    }
}

/// `N` bytes from `at` on.
pub fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// The process that a file says it belongs to.
pub fn process_of(mut file: &File) -> Option<u32> {
    let mut bytes = [0; SLOT];
    file.read_exact(&mut bytes).ok()?;
    Header::from_bytes(&bytes).ok()?.map(|header| header.process)
}

/// A file that a child of the process does not inherit: its lock would outlive the process.
struct OwnFile {
    file: ManuallyDrop<File>,
    generation: u32,
}

impl OwnFile {
    fn new(file: File) -> OwnFile {
        fork::close_in_child(&file);
        OwnFile { file: ManuallyDrop::new(file), generation: fork::generation() }
    }
}

impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // A child closes its copy.
        if fork::generation() == self.generation {
            fork::keep_in_child(&self.file);
            // SAFETY: nobody uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.file) }
        }
    }
}

/// The mapped file, in parts that stay where they are.
pub struct Slots {
    file: OwnFile,
    chunks: Vec<MmapRaw>,
}

impl Slots {
    /// Opens a file, or makes one that only its owner can read. Nobody else may write it.
    pub fn open(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
            let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
            let status = file.metadata()?;
            // SAFETY: it only reads who the process is.
            let is_own = status.uid() == unsafe { libc::geteuid() };
            match status.is_file() && is_own && status.mode() & 0o022 == 0 {
                true => Ok(file),
                false => Err(io::Error::other(
                    "it has to be a regular file of this user that no other user can write",
                )),
            }
        }
        #[cfg(not(unix))]
        options.open(path)
    }

    /// Maps a file that this process has locked. A new file gets its first slots.
    pub fn map(file: File) -> io::Result<Slots> {
        let mut slots = Slots { file: OwnFile::new(file), chunks: Vec::new() };
        let bytes = slots.file.metadata()?.len();
        let mut begun = Vec::new();
        (&*slots.file).take(SLOT as u64).read_to_end(&mut begun)?;
        let is_foreign = match <[u8; SLOT]>::try_from(&begun[..]) {
            Ok(header) if bytes >= CHUNK_BYTES as u64 => Header::from_bytes(&header).is_err(),
            // A process that was killed while it made the file may have written less.
            _ => begun.iter().any(|byte| *byte != 0),
        };
        if is_foreign {
            return Err(io::Error::other(Foreign));
        }
        for number in 0..bytes / CHUNK_BYTES as u64 {
            let mut content = vec![0; CHUNK_BYTES];
            (&*slots.file).seek(SeekFrom::Start(number * CHUNK_BYTES as u64))?;
            (&*slots.file).read_exact(&mut content)?;
            slots.map_next(&content)?;
        }
        if slots.chunks.is_empty() {
            slots.grow()?;
        }
        Ok(slots)
    }

    /// Adds slots to the file.
    pub fn grow(&mut self) -> io::Result<()> {
        self.map_next(&[0; CHUNK_BYTES])
    }

    /// Maps the next slots. They are written before that, so that a full disk is an error here, and
    /// not a signal later. Slots that were there may be a hole.
    fn map_next(&mut self, content: &[u8]) -> io::Result<()> {
        let from = self.chunks.len() as u64 * CHUNK_BYTES as u64;
        let mut file: &File = &self.file;
        file.seek(SeekFrom::Start(from))?;
        file.write_all(content)?;
        file.sync_all()?;
        let chunk = MmapOptions::new().offset(from).len(CHUNK_BYTES).map_raw(&*self.file)?;
        self.chunks.push(chunk);
        Ok(())
    }

    pub fn count(&self) -> u32 {
        self.chunks.len() as u32 * CHUNK
    }

    /// Replaces the mapping by empty memory, and lets others lock the file. Whoever still uses a
    /// slot does not see what others write.
    pub fn let_go(&self) -> io::Result<()> {
        for chunk in &self.chunks {
            #[cfg(unix)]
            {
                let kind = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let at = chunk.as_mut_ptr().cast();
                // SAFETY: it replaces memory that is ours, by memory of the same size, in one step.
                // Others have pointers to lanes alone, which are atomic, and valid if they are 0.
                let at = unsafe { libc::mmap(at, CHUNK_BYTES, access, kind, -1, 0) };
                if at == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
            }
            #[cfg(not(unix))]
            return Err(io::Error::other(format!("{:?} stays mapped", chunk.as_ptr())));
        }
        FileExt::unlock(&*self.file)
    }

    pub fn lane(&self, number: u32) -> &Lane {
        // SAFETY: it lies in the slot, which is mapped and aligned. It consists of atomic words.
        unsafe { self.slot(number).0.cast::<Lane>().as_ref() }
    }

    pub fn slot(&self, number: u32) -> Slot {
        let chunk = self.chunks[(number / CHUNK) as usize].as_mut_ptr();
        // SAFETY: the slot lies within its chunk.
        Slot(unsafe { NonNull::new_unchecked(chunk.add((number % CHUNK) as usize * SLOT)) })
    }

    /// The slot that has this lane.
    pub fn number_of(&self, lane: NonNull<Lane>) -> Option<u32> {
        let at = lane.as_ptr() as usize;
        let is_in = |chunk: &MmapRaw| {
            let from = chunk.as_ptr() as usize;
            (from..from + CHUNK_BYTES).contains(&at).then(|| ((at - from) / SLOT) as u32)
        };
        let mut chunks = self.chunks.iter().enumerate();
        chunks.find_map(|(number, chunk)| Some(number as u32 * CHUNK + is_in(chunk)?))
    }

    /// Writes a slot to the disk.
    pub fn sync(&self, number: u32) -> io::Result<()> {
        self.sync_all(&mut [number])
    }

    /// Writes slots to the disk: those of a chunk, and what lies between them, in one step.
    pub fn sync_all(&self, numbers: &mut [u32]) -> io::Result<()> {
        numbers.sort_unstable();
        for part in numbers.chunk_by(|one, next| one / CHUNK == next / CHUNK) {
            let (first, last) = (part[0], part[part.len() - 1]);
            let (at, count) = ((first % CHUNK) as usize, (last - first) as usize + 1);
            self.chunks[(first / CHUNK) as usize].flush_range(at * SLOT, count * SLOT)?;
        }
        Ok(())
    }

    pub fn header(&self) -> Result<Option<Header>, Foreign> {
        Header::from_bytes(&part(&self.slot(0).read(0, SLOT), 0))
    }

    /// Writes the header, also to the disk.
    pub fn set_header(&self, header: &Header) -> io::Result<()> {
        self.slot(0).write(0, &header.to_bytes());
        self.sync(0)
    }
}

/// A slot of the mapped file, usable as long as the mapping.
#[derive(Clone, Copy)]
pub struct Slot(NonNull<u8>);

impl Slot {
    /// The word at this place, a multiple of 8.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at + 8 <= SLOT);
        // SAFETY: it lies in the slot, which is mapped and aligned. All access to it is atomic, but
        // for that of its one process under the lock of the store.
        unsafe { self.0.add(at).cast::<AtomicU64>().as_ref() }
    }

    pub fn get(&self, at: usize) -> u64 {
        self.word(at).load(Acquire)
    }

    /// Release: a thread that reads this value also sees everything that was written before.
    pub fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Release);
    }

    /// Reads bytes that no other thread writes.
    pub fn read(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= SLOT);
        // SAFETY: they lie in the slot, which is mapped.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), length) }.to_vec()
    }

    /// Writes bytes that no other thread reads.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= SLOT);
        // SAFETY: they lie in the slot, which is mapped.
        unsafe { self.0.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

// SAFETY: it is a place in memory that all threads share, which is atomic, or under a lock.
unsafe impl Send for Slot {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let (boot, machine) = ([1; 16], [2; 16]);
        let place = Place { boot, machine, device: 3, inode: 1 << 60, birth: 4 };
        let (server, database, process) = (u64::MAX, 5, 7);
        let holder = "sorter-7/äöü".to_owned();
        let header = Header { place, server, database, revoke: true, process, holder };
        let mut bytes = header.to_bytes();
        assert_eq!(Header::from_bytes(&bytes).expect("it is sound"), Some(header));
        assert_eq!(Header::from_bytes(&[0; SLOT]).expect("it is new"), None);
        bytes[100] ^= 1;
        assert!(Header::from_bytes(&bytes).is_err());
    }
}
