//! Clients that do what they should not, and a server that lacks what it needs: nothing hangs,
//! crashes, leaks a descriptor or starves the other connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_engine::servers::ServerTally;
use bytecost_engine::services::{self, ServiceSetup, TOO_LONG};
use bytecost_engine::{Server, Service};
use bytecost_lab::load;
use bytecost_sys::tcp;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

use crate::process::{Running, Start, eventually};

pub type Fault = (&'static str, fn(&'static Server));

pub const FAULTS: &[Fault] = &[
    ("a request in single bytes is answered", single_bytes),
    ("who has sent all is answered to the end", half_closed),
    ("who stalls in a request holds up nobody", |server| {
        holds_up_nobody(server, 100, half_a_request);
    }),
    // Invariant 8.
    ("who stalls in a request is closed", |server| {
        with_timeout(|ms| {
            let tally = is_closed_in_time(start(server, 100, ms), half_a_request);
            assert_eq!((tally.timed_out, tally.idle), (1, 0));
        });
    }),
    ("who feeds a request in crumbs is closed", crumbs_are_closed),
    ("who says nothing holds up nobody", |server| {
        holds_up_nobody(server, 100, |_| ());
    }),
    ("who says nothing is closed if asked", silent_is_closed),
    (
        "who stays too long is closed, busy or silent",
        lasting_is_closed,
    ),
    ("who does not read holds up nobody", |server| {
        holds_up_nobody(server, LARGE, asks_and_does_not_read);
    }),
    ("who does not read is closed", deaf_is_closed),
    ("who reads too slowly is closed", slow_is_closed),
    ("the kernel keeps as much as it may", send_buffers),
    ("an address has so many places", crowded),
    ("who floods holds up nobody", flooded),
    ("who goes in mid-answer does no harm", gone_in_mid_answer),
    // Invariant 8.
    ("a line of 10 MB is refused", ten_megabytes),
    ("a thousand come and go at once", a_thousand),
    ("the limit of descriptors is waited out", out_of_descriptors),
    ("the limit of connections is waited out", out_of_seats),
    ("more than its bound are turned away", beyond_the_bound),
    ("a port in use is said", port_in_use),
];

/// Long enough that only a fault reaches it.
pub const LONG_MS: u64 = 60_000;
/// Short enough to be waited for.
const SHORT_MS: u64 = 200;
/// Bytes of an answer that fits nowhere at once.
pub const LARGE: usize = services::MOST_ANSWER_BYTES;

pub fn start(server: &'static Server, size: usize, timeout_ms: u64) -> Start {
    let mut start = Start::new(server, "fixed", size);
    start.timeout_ms = timeout_ms;
    start
}

/// So many clients that are in: each has asked and was answered.
pub fn clients(running: &Running, number: u64, size: usize) -> Vec<TcpStream> {
    let mut clients: Vec<TcpStream> = (0..number).map(|_| client(running)).collect();
    for client in &mut clients {
        client.write_all(b"get\n").unwrap();
        answer(client, size);
    }
    clients
}

/// A client whose reads end after a long time.
pub fn client(running: &Running) -> TcpStream {
    let client = TcpStream::connect(running.address).unwrap();
    client.set_nodelay(true).unwrap();
    let timeout = Some(Duration::from_secs(60));
    client.set_read_timeout(timeout).unwrap();
    client
}

fn client_from(address: Ipv4Addr, running: &Running) -> TcpStream {
    let socket = tcp::socket(running.address, SocketFlags::empty()).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    rustix::net::connect(&socket, &running.address).unwrap();
    TcpStream::from(socket)
}

/// Asks as another client and gets the right answer, and not by waiting until others are closed.
pub fn serves(running: &Running, size: usize) {
    let fixed = Service::named("fixed").unwrap();
    let timeout = Duration::from_secs(60);
    load::ask(running.address, fixed, &ServiceSetup::new(size), timeout).unwrap();
}

pub fn answer(client: &mut TcpStream, size: usize) {
    let mut answer = vec![0; size];
    client.read_exact(&mut answer).unwrap();
    let question = (Service::named("fixed").unwrap().requester)(&ServiceSetup::new(size));
    assert!(question.is_right(0, 0, 0, &answer));
}

/// The server closes the connection: a reset is an end too.
pub fn is_closed(client: &mut TcpStream) {
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset, "{e}"),
    }
}

fn single_bytes(server: &'static Server) {
    let running = Running::start(&start(server, 100, LONG_MS));
    let mut client = client(&running);
    for _ in 0..3 {
        for byte in b"get\n" {
            client.write_all(&[*byte]).unwrap();
        }
        answer(&mut client, 100);
    }
    drop(client);
    assert_eq!(running.stop().requests, 3);
}

fn half_closed(server: &'static Server) {
    let running = Running::start(&start(server, 70_000, LONG_MS));
    let mut client = client(&running);
    client.write_all(b"get\nget\nget\nhalf").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    for _ in 0..3 {
        answer(&mut client, 70_000);
    }
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(running.stop().requests, 3);
}

/// Checks that others are served while the first client misbehaves.
fn holds_up_nobody(server: &'static Server, size: usize, does: fn(&mut TcpStream)) {
    if server.in_turn {
        return; // by design; that it goes on after a time is another test
    }
    let running = Running::start(&start(server, size, LONG_MS));
    let mut bad: Vec<TcpStream> = (0..5).map(|_| client(&running)).collect();
    bad.iter_mut().for_each(does);
    for _ in 0..5 {
        serves(&running, size);
    }
    drop(bad);
    serves(&running, size);
}

/// With longer timeout where it fails: on a machine that stands still others are late too.
fn with_timeout(check: impl Fn(u64)) {
    let holds = |ms: &u64| catch_unwind(AssertUnwindSafe(|| check(*ms))).is_ok();
    if ![SHORT_MS, 10 * SHORT_MS].iter().any(holds) {
        check(50 * SHORT_MS);
    }
}

/// A client is closed that does what it does, and everything it had is free again.
fn is_closed_in_time(start: Start, does: fn(&mut TcpStream)) -> ServerTally {
    let running = Running::start(&start);
    let descriptors = running.descriptors_alone();
    let mut client = client(&running);
    does(&mut client);
    is_closed(&mut client);
    running.has_descriptors(descriptors);
    serves(&running, start.size);
    running.stop()
}

fn cannot_write(client: &mut TcpStream, words: &[u8]) {
    let is_gone = || client.write_all(words).is_err();
    eventually(is_gone, || "the connection is still there");
}

pub fn half_a_request(client: &mut TcpStream) {
    client.write_all(b"ge").unwrap();
}

fn crumbs_are_closed(server: &'static Server) {
    with_timeout(|ms| {
        let running = Running::start(&start(server, 100, ms));
        let mut client = client(&running);
        // Each comes long before the timeout is over, and all of them never make a request.
        cannot_write(&mut client, b"x");
        serves(&running, 100);
        assert_eq!(running.stop().timed_out, 1);
    });
}

/// One client that asks and reads as fast as it can.
fn flooded(server: &'static Server) {
    if server.in_turn {
        return;
    }
    let running = Running::start(&start(server, 100, LONG_MS));
    let (mut reader, stop) = (client(&running), AtomicBool::new(false));
    let mut writer = reader.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let requests = b"get\n".repeat(4000);
            while !stop.load(Ordering::Relaxed) {
                writer.write_all(&requests).unwrap();
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        scope.spawn(|| std::io::copy(&mut reader, &mut std::io::sink()).unwrap());
        for _ in 0..20 {
            serves(&running, 100);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(running.stop().broken, 0);
}

fn silent_is_closed(server: &'static Server) {
    with_timeout(|ms| {
        let mut start = start(server, 100, ms);
        start.idle_ms = Some(ms);
        let tally = is_closed_in_time(start, |client| {
            client.write_all(b"get\n").unwrap();
            answer(client, 100);
        });
        assert_eq!((tally.timed_out, tally.idle), (0, 1));
    });
}

/// One that asks again and again and one that is silent after a request.
fn lasting_is_closed(server: &'static Server) {
    const MOST_REQUESTS: u32 = 1000;
    with_timeout(|ms| {
        let mut start = start(server, 100, ms);
        start.lifetime_ms = Some(ms);
        let running = Running::start(&start);
        let mut busy = client(&running);
        let mut is_served = |_| {
            std::thread::sleep(Duration::from_millis(ms / 20));
            busy.write_all(b"get\n").is_ok() && busy.read_exact(&mut [0; 100]).is_ok()
        };
        assert!(is_served(0));
        let ended = (1..MOST_REQUESTS).find(|request| !is_served(*request));
        assert!(ended.is_some(), "it is still served");
        assert!(ended > Some(2), "it was closed at once");
        let mut silent = client(&running);
        silent.write_all(b"get\n").unwrap();
        answer(&mut silent, 100);
        is_closed(&mut silent);
        serves(&running, 100);
        assert_eq!(running.stop().expired, 2);
    });
}

/// Asks for more than all buffers take, and reads nothing of it.
pub fn asks_and_does_not_read(client: &mut TcpStream) {
    client.write_all(&b"get\n".repeat(64)).unwrap();
}

fn deaf_is_closed(server: &'static Server) {
    with_timeout(|ms| {
        let running = Running::start(&start(server, LARGE, ms));
        let descriptors = running.descriptors_alone();
        let mut client = client(&running);
        asks_and_does_not_read(&mut client);
        // Not read from: reading would set the server going again.
        running.has_descriptors(descriptors);
        cannot_write(&mut client, b"get\n");
        serves(&running, LARGE);
        assert_eq!(running.stop().timed_out, 1);
    });
}

/// One that receives some of a response each time, and always long before the timeout is over.
fn slow_is_closed(server: &'static Server) {
    const READS: u32 = 1000;
    with_timeout(|ms| {
        let mut start = start(server, LARGE, ms);
        start.response_ms = Some(ms);
        start.send_buffer = Some(SEND_BUFFER);
        let running = Running::start(&start);
        running.descriptors_alone(); // its listener has its timeouts
        let mut client = client(&running);
        set_socket_recv_buffer_size(&client, SEND_BUFFER).unwrap();
        asks_and_does_not_read(&mut client);
        let mut reads = (0..READS).map(|_| {
            std::thread::sleep(Duration::from_millis(ms / 20));
            client.read(&mut [0; 8 << 10]).unwrap_or(0)
        });
        assert!(reads.any(|length| length == 0), "it is still served");
        serves(&running, LARGE);
        let tally = running.stop();
        // The timeout is the time of a whole response there.
        let closed = [tally.slow, tally.timed_out];
        assert_eq!(closed, if server.uses_uring { [0, 1] } else { [1, 0] });
    });
}

/// Half of what the kernel takes for it, socket(7), and it takes a packet more.
const SEND_BUFFER: usize = 64 << 10;

fn send_buffers(server: &'static Server) {
    let mut start = start(server, LARGE, LONG_MS);
    start.send_buffer = Some(SEND_BUFFER);
    let running = Running::start(&start);
    let number = if server.in_turn { 1 } else { 5 };
    let mut clients = clients(&running, number, LARGE);
    clients.iter_mut().for_each(asks_and_does_not_read);
    let kept = || running.kept_by_kernel();
    let is_full = || kept().iter().filter(|bytes| **bytes > 0).count() as u64 == number;
    eventually(is_full, || "nothing is left to be sent");
    running.falls_asleep();
    assert!(
        kept().iter().all(|bytes| *bytes <= 4 * SEND_BUFFER),
        "{:?}",
        kept()
    );
}

/// Further clients of the same address are closed at once, and those of others are not.
fn crowded(server: &'static Server) {
    if server.in_turn {
        return; // it never has two
    }
    let mut start = start(server, 100, LONG_MS);
    start.each_address = Some(3);
    let running = Running::start(&start);
    let mut held = clients(&running, 3, 100);
    is_closed(&mut client(&running));
    let mut other = client_from(Ipv4Addr::new(127, 0, 0, 2), &running);
    other.write_all(b"get\n").unwrap();
    answer(&mut other, 100);
    held.pop();
    let is_let_in = || {
        let mut next = client(&running);
        let asked = next.write_all(b"get\n");
        asked.and_then(|()| next.read_exact(&mut [0; 100])).is_ok()
    };
    eventually(is_let_in, || "the place of one that has gone is not free");
    assert!(running.stop().crowded >= 1);
}

fn gone_in_mid_answer(server: &'static Server) {
    let running = Running::start(&start(server, LARGE, LONG_MS));
    let descriptors = running.descriptors_alone();
    for _ in 0..5 {
        let mut client = client(&running);
        asks_and_does_not_read(&mut client);
        client.read_exact(&mut [0; 1000]).unwrap();
    }
    serves(&running, LARGE);
    running.has_descriptors(descriptors);
    assert_eq!(running.stop().broken, 5);
}

fn ten_megabytes(server: &'static Server) {
    let running = Running::start(&start(server, 100, LONG_MS));
    let descriptors = running.descriptors_alone();
    let before = running.most_memory_kib();
    let mut client = client(&running);
    let mut writer = client.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..10 {
            writer.write_all(&piece).unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    assert_eq!(said, TOO_LONG);
    writing.join().unwrap();
    let grown = running.most_memory_kib() - before;
    assert!(grown < 4 << 10, "it took {grown} KiB more");
    running.has_descriptors(descriptors);
    serves(&running, 100);
    let tally = running.stop();
    assert_eq!((tally.too_long, tally.requests), (1, 1));
}

fn a_thousand(server: &'static Server) {
    let running = Running::start(&start(server, 100, LONG_MS));
    let descriptors = running.descriptors_alone();
    let clients: Vec<TcpStream> = (0..1000).map(|_| client(&running)).collect();
    for client in clients.iter().step_by(2) {
        // Closed by a reset.
        set_socket_linger(client, Some(Duration::ZERO)).unwrap();
    }
    drop(clients);
    serves(&running, 100);
    running.has_descriptors(descriptors);
    running.has_no_children();
    let tally = running.stop();
    assert_eq!((tally.requests, tally.timed_out), (1, 0));
}

/// More clients than there is room for: all are served in the end, and those who are in meanwhile.
fn all_are_served_in_the_end(start: &Start) -> u64 {
    let running = Running::start(start);
    let descriptors = running.descriptors_alone();
    let mut waiting: Vec<TcpStream> = (0..60).map(|_| client(&running)).collect();
    for client in &mut waiting {
        client.write_all(b"get\n").unwrap();
    }
    // Nobody leaves before there is no more room.
    running.falls_asleep();
    while !waiting.is_empty() {
        let mut served = Vec::new();
        let is_one_served = || {
            served.extend(waiting.extract_if(.., has_come));
            !served.is_empty()
        };
        eventually(is_one_served, || "nobody is served");
        for client in &mut served {
            answer(client, 100);
            client.write_all(b"get\n").unwrap();
            answer(client, 100);
        }
    }
    running.has_descriptors(descriptors);
    let tally = running.stop();
    assert_eq!(tally.requests, 120);
    assert_eq!((tally.timed_out, tally.broken), (0, 0));
    tally.put_off
}

fn has_come(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let has_come = client.peek(&mut [0]).is_ok();
    client.set_nonblocking(false).unwrap();
    has_come
}

fn out_of_descriptors(server: &'static Server) {
    let mut start = start(server, 100, LONG_MS);
    start.descriptors = Some(40);
    let put_off = all_are_served_in_the_end(&start);
    // A parent keeps no descriptor of its children's connections, and one at a time needs one.
    let is_bounded = !server.in_turn && !server.needs_lone_thread;
    assert_eq!(put_off > 0, is_bounded);
}

fn out_of_seats(server: &'static Server) {
    let mut start = start(server, 100, LONG_MS);
    start.connections = 10;
    all_are_served_in_the_end(&start);
}

/// Those beyond the bound of a model that has one are closed; the others are served as ever.
fn beyond_the_bound(server: &'static Server) {
    let Some((most, reason)) = server.bound else {
        assert_eq!(server.refuses(usize::MAX), None);
        return;
    };
    assert_eq!(server.refuses(most as usize), None);
    let refusal = server.refuses(most as usize + 1).unwrap();
    assert!(refusal.contains(reason), "{refusal}");
    let running = Running::start(&start(server, 100, LONG_MS));
    let descriptors = running.descriptors_alone();
    let mut clients = clients(&running, most, 100);
    // The model needs a few descriptors less than the bound leaves it.
    let mut beyond: Vec<TcpStream> = (0..100).map(|_| client(&running)).collect();
    is_closed(beyond.last_mut().unwrap());
    clients[0].write_all(b"get\n").unwrap();
    answer(&mut clients[0], 100);
    drop((clients, beyond));
    running.has_descriptors(descriptors);
    serves(&running, 100);
    assert!(running.stop().broken >= 1);
}

fn port_in_use(server: &'static Server) {
    let running = Running::start(&start(server, 100, LONG_MS));
    let mut second = start(server, 100, LONG_MS);
    second.port = running.address.port();
    let error = Running::try_start(&second).err().unwrap();
    let expected = format!("port {} is in use: choose another", second.port);
    assert!(error.starts_with(&expected), "{error}");
    serves(&running, 100);
}
