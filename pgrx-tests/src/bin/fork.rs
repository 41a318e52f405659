//! Forks while callers wait for values, in a runtime without threads, which both processes then
//! poll. Prints what becomes of the callers of each: `child V` or `parent V` for a value, `child
//! forked` for the error that a fork gets. And at the end how often the parent had to connect.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use hilo_client::{Client, Error};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use tokio::runtime::Runtime;
use tokio::time::timeout;

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Vec<i64>, Error>> + 'a>>;

/// Makes a caller begin to wait, before the client's task does anything.
fn begin(runtime: &Runtime, waiting: &mut Waiting) {
    runtime.block_on(poll_fn(|context| {
        assert!(waiting.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
}

fn end(runtime: &Runtime, who: &str, callers: Vec<Waiting>) {
    for caller in callers {
        let ended = runtime.block_on(async { timeout(Duration::from_secs(5), caller).await });
        match ended {
            Ok(Ok(values)) => values.iter().for_each(|value| println!("{who} {value}")),
            Ok(Err(Error::Forked)) => println!("{who} forked"),
            other => println!("{who} {other:?}"),
        }
    }
}

fn main() {
    let config = std::env::args().nth(1).expect("a connection string");
    let config = config.parse().expect("a connection string");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let client = runtime.block_on(Client::builder(config).connect()).expect("a client");
    let (orders, parcels) = (client.sequence("orders"), client.sequence("parcels"));
    // The answer for this caller has come, and it has not looked yet.
    let mut first: Waiting = Box::pin(async { Ok(vec![orders.next().await?]) });
    begin(&runtime, &mut first);
    runtime.block_on(async {
        while client.stats().refills == 0 {
            tokio::task::yield_now().await;
        }
    });
    // The server has not been asked for these callers.
    let mut second: Waiting = Box::pin(async { Ok(vec![parcels.next().await?]) });
    begin(&runtime, &mut second);
    let mut range: Waiting =
        Box::pin(async { Ok(parcels.next_range(1000).await?.values().collect()) });
    begin(&runtime, &mut range);
    let mut warm_up: Waiting =
        Box::pin(async { client.warm_up(&["letters"]).await.map(|()| Vec::new()) });
    begin(&runtime, &mut warm_up);
    let callers = vec![first, second, range, warm_up];
    // SAFETY: the process has no other thread.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Child => {
            // The tasks that it has inherited get their turns.
            runtime.block_on(async {
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            });
            end(&runtime, "child", callers);
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
            end(&runtime, "parent", callers);
            for _ in 0..200 {
                println!("parent {}", runtime.block_on(parcels.next()).expect("a value"));
            }
            let stats = client.stats();
            println!("connects {} failures {}", stats.connects, stats.failures);
            runtime.block_on(client.shutdown()).expect("all comes back");
        }
    }
}
