//! Ten thousand connections at one time.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::Server;
use bytecost_lab::descriptors::make_room;
use bytecost_lab::load::{Errors, LoadSpan};

use crate::process::{Running, Start};

/// Models that are to hold so many; a thread or a process for each is another matter.
pub const HOLDERS: &[&str] = &["pool", "poll", "epoll", "epoll-edge", "uring"];

const CONNECTIONS: u32 = 10_000;
const ASKING: u32 = 2000;

pub fn check(server: &'static Server) {
    let all = u64::from(CONNECTIONS);
    // All clients are this process, whose limit two at a time could exceed.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Both ends have a process and its limit of their own.
    let needed = all + 200;
    if let Err(why) = make_room(needed) {
        assert!(why.to_string().contains("ulimit -Hn"), "{why}");
        return; // this machine does not allow it, and that was said
    }
    let mut start = Start::new(server, "echo", 64);
    start.descriptors = Some(needed);
    let running = Running::start(&start);
    let descriptors = running.descriptors_alone();
    let mut load = running.load("echo", 64);
    load.connections = ASKING;
    load.idle = CONNECTIONS - ASKING;
    // Each that is idle is greeted: of so many at once a server's full queue would forget some.
    load.span = LoadSpan::Time {
        warmup: Duration::ZERO,
        window: Duration::from_millis(100),
    };
    load.rounds_least = 1;
    let outcome = load.run(&AtomicBool::new(false), &|_| ()).unwrap();
    assert_eq!(outcome.errors, Errors::default());
    assert_eq!(outcome.opened, all);
    running.has_descriptors(descriptors);
    let tally = running.stop();
    assert_eq!(tally.connections, all + 1);
    assert!(tally.requests >= all - u64::from(ASKING), "{tally:?}");
}
