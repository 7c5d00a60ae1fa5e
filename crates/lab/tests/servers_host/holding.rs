//! Ten thousand connections at one time.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::Server;
use bytecost_engine::services::ServiceSetup;
use bytecost_lab::descriptors::make_room;
use bytecost_lab::load::{Errors, Load, LoadSpan};

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
    start.patience_ms = 60_000;
    let running = Running::start(&start);
    let descriptors = running.descriptors_alone();
    let mut load = Load::once(running.address, start.service, ServiceSetup::of(64));
    load.connections = ASKING;
    load.idle = CONNECTIONS - ASKING;
    load.span = LoadSpan::Requests(3);
    load.patience = Duration::from_secs(60);
    let outcome = load.run(&AtomicBool::new(false), &|_| ()).unwrap();
    assert_eq!(outcome.errors, Errors::default());
    assert_eq!(outcome.opened, all);
    let fair = outcome.fairness();
    assert_eq!((fair.min, fair.max), (3, 3));
    running.has_descriptors(descriptors);
    let tally = running.stop();
    assert_eq!(tally.connections, all + 1);
    assert_eq!(tally.requests, u64::from(ASKING) * 3);
}
