//! A server to whose processes the test refuses memory, one allocation or more at a time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{SERVER, run};

/// A library in front of libc, of which all processes of the server and hilo get their memory. The
/// test writes into a file whom it refuses some, and the library counts there what it has refused.
const SOURCE: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

/* Order, in refusals.rs */
static volatile struct { int pid, granted, refused, done; } *order;

__attribute__((constructor)) static void find_order(void)
{
    const char *path = getenv("HILO_REFUSALS");
    int file = path == NULL ? -1 : open(path, O_RDWR);
    if (file < 0)
        return;
    void *place = mmap(NULL, sizeof *order, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (place != MAP_FAILED)
        order = place;
}

static int refused(void)
{
    if (order == NULL || order->pid == 0 || order->pid != getpid())
        return 0;
    if (order->granted > 0) {
        order->granted--;
        return 0;
    }
    if (order->refused == 0)
        return 0;
    order->refused--;
    order->done++;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return refused() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return refused() ? NULL : __libc_calloc(count, size); }
void *realloc(void *piece, size_t size) { return refused() ? NULL : __libc_realloc(piece, size); }
"#;

/// The file of a server, and the library.
pub struct Refusals {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

/// How many allocations the library grants and then refuses to a process, and how many it has refused by now.
#[derive(Default)]
struct Order {
    pid: i32,
    granted: i32,
    refused: i32,
    done: i32,
}

impl Refusals {
    /// Makes both in this directory, which the account of the servers can read.
    pub fn new(directory: &Path) -> Refusals {
        let [source, library, path] =
            ["refusals.c", "refusals.so", "refusals"].map(|name| directory.join(name));
        fs::write(&source, SOURCE).expect("cannot write the source");
        let mut compiler = Command::new("cc");
        run(compiler.args(["-shared", "-fPIC", "-fno-builtin", "-o"]).arg(&library).arg(&source));
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        SERVER.own(&path);
        let refusals = Refusals { library, path, file: file.expect("cannot make the file") };
        refusals.set(&Order::default());
        refusals
    }

    /// Puts the library in front of libc, in a server's process and its children.
    pub fn give_to(&self, postgres: &mut Command) {
        postgres.env("LD_PRELOAD", &self.library).env("HILO_REFUSALS", &self.path);
    }

    /// Refuses `count` allocations to process `pid`, after those that it grants.
    pub fn begin(&self, pid: i32, granted: i32, count: i32) {
        self.set(&Order { pid, granted, refused: count, done: 0 });
    }

    /// Grants everything, and returns how many allocations were refused.
    pub fn end(&self) -> i32 {
        let mut done = [0; 4];
        self.file.read_exact_at(&mut done, 12).expect("cannot read the file");
        self.set(&Order::default());
        i32::from_ne_bytes(done)
    }

    fn set(&self, order: &Order) {
        let Order { pid, granted, refused, done } = order;
        let bytes = [pid, granted, refused, done].map(|number| number.to_ne_bytes()).concat();
        self.file.write_all_at(&bytes, 0).expect("cannot write the file");
    }
}
