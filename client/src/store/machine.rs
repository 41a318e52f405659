//! Tells whether a state file is the same file on the same machine, or a copy.

use std::fs::{self, Metadata};
use std::io;
use std::time::UNIX_EPOCH;

use uuid::Uuid;

/// Where and when a state file was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The boot of the machine: a different number each time.
    pub boot: [u8; 16],
    /// The machine; 0 where it has no id.
    pub machine: [u8; 16],
    pub device: u64,
    pub inode: u64,
    /// When the file was made, in nanoseconds; 0: the file system does not tell it. The number of
    /// an inode is used again when its file is removed.
    pub birth: u64,
}

impl Place {
    /// The place of an open file.
    ///
    /// # Errors
    /// If the system does not tell when it has started: only Linux does.
    pub fn for_file(file: &Metadata) -> io::Result<Place> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let boot = Uuid::parse_str(boot.trim()).map_err(io::Error::other)?;
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let machine = Uuid::parse_str(machine.trim()).unwrap_or_default();
        let (device, inode) = device_and_inode(file);
        let birth = file.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let birth = birth.map_or(0, |since| since.as_nanos() as u64);
        let (boot, machine) = (boot.into_bytes(), machine.into_bytes());
        Ok(Place { boot, machine, device, inode, birth })
    }

    /// Whether both are the same file on the same machine, at any time.
    pub fn is_same_file(&self, other: &Place) -> bool {
        self.birth != 0 && Place { boot: other.boot, ..*self } == *other
    }
}

#[cfg(unix)]
fn device_and_inode(file: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

#[cfg(not(unix))]
fn device_and_inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// The time since the machine has started, in microseconds. It is the same for all processes, and
/// nobody sets it.
#[cfg(target_os = "linux")]
pub fn uptime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the struct that it is given. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// No state file can be opened on this system.
#[cfg(not(target_os = "linux"))]
pub fn uptime() -> u64 {
    0
}
