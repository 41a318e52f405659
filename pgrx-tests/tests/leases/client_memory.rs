//! A client of ten thousand sequences has bounded memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use hilo_client::Client;
use hilo_tests::{ClientExt, Cluster, LONG};

/// How many bytes the threads that count hold now.
static HELD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread counts: other tests run in other threads.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: it is the allocator of the system, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.get() {
            HELD.fetch_add(layout.size(), Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if COUNTS.get() {
            HELD.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// At most 2 kB for each sequence, with its lease, its name and what the rate is measured by.
#[test]
fn ten_thousand_sequences_take_at_most_two_kilobytes_each() {
    const SEQUENCES: usize = 10_000;
    COUNTS.set(true);
    let cluster = Cluster::with_hilo();
    cluster
        .connect("postgres")
        .run("SELECT hilo_create('tenants/' || n) FROM generate_series(1, 10000) n");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| COUNTS.set(true))
        .enable_all()
        .build()
        .expect("a runtime");
    let mut config = tokio_postgres::Config::new();
    config.host_path(cluster.socket_directory()).user("postgres").dbname("postgres");
    let client = Client::builder(config).patience(LONG).timeout(LONG);
    let client = runtime.block_on(client.connect()).expect("a client");
    let names: Vec<String> = (1..=SEQUENCES).map(|n| format!("tenants/{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = HELD.load(Relaxed);
    for names in names.chunks(1_000) {
        runtime.block_on(client.warm_up(names)).expect("values");
    }
    for name in &names {
        assert!(client.sequence(name).try_next().expect("no error").is_some());
    }
    let each = HELD.load(Relaxed).saturating_sub(before) / SEQUENCES;
    println!("{each} bytes for each sequence");
    assert!((200..=2048).contains(&each), "{each} bytes for each sequence");
    assert_eq!(client.stats().hits, SEQUENCES as u64);
    let returned = runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(returned.leases, SEQUENCES as u64);
    cluster.finish();
}
