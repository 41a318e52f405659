//! The directories of a test process's clusters, and the guardian that removes them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::mkdtemp;

use crate::server::{SERVER, run};

static FILES: LazyLock<Files> = LazyLock::new(Files::create);

struct Files {
    root: PathBuf,
    count: AtomicUsize,
    /// A cluster's data directory as initdb leaves it; copying is faster than initdb.
    template: PathBuf,
    /// The kernel closes it when this process ends, however it ends; the guardian waits for that.
    _alive: ChildStdin,
}

/// A new directory for one cluster, with its number in this process.
pub fn new_directory() -> (usize, PathBuf) {
    let number = FILES.count.fetch_add(1, Ordering::Relaxed);
    let directory = FILES.root.join(number.to_string());
    fs::create_dir(&directory).expect("cannot create a cluster's directory");
    SERVER.own(&directory);
    (number, directory)
}

/// Puts an initialised data directory at `data`.
pub fn new_data_directory(data: &Path) {
    copy(&FILES.template, data);
}

/// Copies the data directory of a server that does not run.
pub fn copy(template: &Path, data: &Path) {
    run(SERVER
        .command_at(Path::new("cp"))
        .args(["-R", "--preserve=mode", "--reflink=auto"])
        .arg(template)
        .arg(data));
}

/// Makes a data directory, with a system identifier that no other has.
pub fn initialise(data: &Path) {
    run(SERVER
        .command("initdb")
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"])
        .arg("--no-sync")
        .arg("--pgdata")
        .arg(data));
}

impl Files {
    fn create() -> Files {
        // A socket's path has at most 107 bytes, and the server's account must have access: so not
        // $TMPDIR, which may be long, or private.
        let root = mkdtemp(&place().join("hilo-tests-XXXXXX")).expect("cannot create a directory");
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("cannot open it up");
        SERVER.own(&root);
        let alive = guard(&root);
        let template = root.join("template");
        initialise(&template);
        Files { root, count: AtomicUsize::new(0), template, _alive: alive }
    }
}

/// HILO_CLUSTERS; or else memory, where there is room: a cluster has a thousand files, and few of them live for a minute.
fn place() -> PathBuf {
    let chosen = std::env::var_os("HILO_CLUSTERS").filter(|place| !place.is_empty());
    chosen.map_or_else(
        || PathBuf::from(if has_room("/dev/shm") { "/dev/shm" } else { "/tmp" }),
        PathBuf::from,
    )
}

/// Whether a file system in memory has room for some clusters, and runs their scripts.
fn has_room(directory: &str) -> bool {
    const ROOM: u64 = 4 << 30;
    let Ok(there) = statvfs(directory) else { return false };
    let free = there.blocks_available() * there.fragment_size();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    !there.flags().contains(FsFlags::ST_NOEXEC)
        && free >= ROOM
        && available.is_some_and(|kilobytes| kilobytes << 10 >= ROOM)
}

/// Starts the process that stops every server below `root` and removes `root` as soon as this
/// process has ended. It also does so if this one was interrupted or killed.
fn guard(root: &Path) -> ChildStdin {
    const SCRIPT: &str = r#"
        trap '' HUP INT TERM
        cat > /dev/null
        running() { [ "$(readlink "/proc/$1/cwd")" = "$2" ]; }
        for data in "$0"/*/data; do
            pid=$(head -n 1 "$data/postmaster.pid" 2> /dev/null) || continue
            running "$pid" "$data" || continue
            kill -QUIT "$pid"
            tries=100
            while running "$pid" "$data" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
        done
        # What is left was stopped by a signal, or hangs.
        for process in /proc/[0-9]*; do
            case $(readlink "$process/cwd") in
                "$0"/*) kill -KILL "${process#/proc/}" ;;
            esac
        done
        for disk in "$0"/*/small; do umount --lazy "$disk" 2> /dev/null; done
        rm -rf "$0"
    "#;
    Command::new("sh")
        .args(["-c", SCRIPT])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("cannot start sh")
        .stdin
        .take()
        .expect("its input is a pipe")
}
