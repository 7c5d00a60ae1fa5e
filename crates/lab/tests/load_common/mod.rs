//! Servers that do as they are told, and loads on them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytecost_engine::Service;
use bytecost_engine::services;
use bytecost_lab::load::{Load, LoadInterface, LoadOutcome, LoadSpan, RequestPace};

pub const SIZE: usize = 64;
/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Each asks again as soon as it has its answer.
pub const CLOSED: RequestPace = RequestPace::Closed {
    think: Duration::ZERO,
};

pub fn setup() -> services::ServiceSetup {
    services::ServiceSetup::of(SIZE)
}

/// A server of echoes, each connection with a thread, which does as it is told with each message.
/// It ends with the test.
pub fn server(
    does: impl Fn(u64, &mut TcpStream, &mut [u8]) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    server_of(SIZE, does)
}

/// The same for messages of another size.
pub fn server_of(
    size: usize,
    does: impl Fn(u64, &mut TcpStream, &mut [u8]) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shared = std::sync::Arc::new((does, AtomicU64::new(0)));
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, shared) = (socket.unwrap(), shared.clone());
            std::thread::spawn(move || {
                let (does, count) = &*shared;
                let mut message = vec![0; size];
                while socket.read_exact(&mut message).is_ok() {
                    let nth = count.fetch_add(1, Ordering::Relaxed);
                    if !does(nth, &mut socket, &mut message) {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A port that is taken, and at which nobody listens.
pub fn nobody() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let held = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = getsockname(&held).unwrap().try_into().unwrap();
    (held, address)
}

pub fn honest() -> SocketAddr {
    server(|_, socket, message| socket.write_all(message).is_ok())
}

pub fn load(address: SocketAddr, way: LoadInterface) -> Load {
    let mut load = Load::once(address, Service::named("echo").unwrap(), setup());
    load.way = way;
    load.patience = PATIENCE;
    load
}

/// Every way that can be had here: io_uring may be forbidden.
pub fn ways() -> Vec<LoadInterface> {
    let mut best = load(honest(), LoadInterface::Best);
    best.span = LoadSpan::Requests(1);
    match run(&best).generator.way {
        LoadInterface::Uring => vec![LoadInterface::Epoll, LoadInterface::Uring],
        _ => vec![LoadInterface::Epoll],
    }
}

pub fn run(load: &Load) -> LoadOutcome {
    load.run(&AtomicBool::new(false), &|_| ()).unwrap()
}

pub fn time(warmup_ms: u64, window_ms: u64) -> LoadSpan {
    LoadSpan::Time {
        warmup: Duration::from_millis(warmup_ms),
        window: Duration::from_millis(window_ms),
    }
}
