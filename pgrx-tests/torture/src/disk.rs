//! A small disk that can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use hilo_tests::{Cluster, SERVER};

/// A file system in memory, mounted in the directory of a cluster.
pub struct SmallDisk {
    directory: PathBuf,
}

impl SmallDisk {
    /// `None` if this account may not mount.
    pub fn mount(cluster: &Cluster, megabytes: u32) -> Option<SmallDisk> {
        let directory = cluster.file("small");
        fs::create_dir(&directory).expect("cannot create a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m,mode=0755"), "tmpfs"])
            .arg(&directory)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            return None;
        }
        let disk = SmallDisk { directory };
        fs::create_dir(disk.tablespace()).expect("cannot create a directory");
        SERVER.own(&disk.tablespace());
        Some(disk)
    }

    pub fn tablespace(&self) -> PathBuf {
        self.directory.join("tablespace")
    }

    fn filler(&self) -> PathBuf {
        self.directory.join("filler")
    }

    /// Takes all the space that is left.
    pub fn fill(&self) {
        let Ok(mut file) = File::create(self.filler()) else { return };
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Gives it back.
    pub fn clear(&self) {
        let _ = fs::remove_file(self.filler());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.directory);
    }
}

fn unmount(directory: &Path) {
    // A server that has just ended may still use it for a moment.
    let _ = Command::new("umount").arg("--lazy").arg(directory).output();
}
