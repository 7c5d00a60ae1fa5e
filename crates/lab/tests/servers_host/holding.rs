//! Ten thousand connections at one time.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::Server;
use bytecost_lab::descriptors::make_room;
use bytecost_lab::load::{Errors, LoadSpan};
use bytecost_spec::service::Fairness;

use crate::process::{Running, Start};

/// Models that are to hold so many; a thread or a process for each is another matter.
pub const HOLDERS: &[&str] = &["pool", "poll", "epoll", "uring"];

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
    load.span = LoadSpan::Requests(3);
    // All at once overflow the server's queue, which may forget one: its request is then reset.
    load.ramp = Duration::from_secs(2);
    let outcome = load.run(&AtomicBool::new(false), &|_| ()).unwrap();
    assert_eq!(outcome.errors, Errors::default());
    assert_eq!(outcome.opened, all);
    let Fairness { least, most, .. } = outcome.fairness();
    assert_eq!((least, most), (3, 3));
    running.has_descriptors(descriptors);
    let tally = running.stop();
    assert_eq!(tally.connections, all + 1);
    assert_eq!(tally.requests, u64::from(ASKING) * 3);
}
