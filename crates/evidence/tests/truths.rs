//! Known truths for what is counted: how often bytes are copied, by each means, and calls are made.
//!
//! Each truth is printed with its means and what was counted: `truths --nocapture`. Where a means
//! is refused, that is printed in its place; a kernel that is known to allow some is held to it by
//! `BYTECOST_MEANS=functions,tracepoints`, and root is held to tracepoints everywhere.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bytecost_evidence::{Copies, Events, Parties};
use bytecost_spec::evidence::{CopyMeans, CopyPlace, CountedEvent, EventCount};
use bytecost_sys::iovecs::MSG_ZEROCOPY;
use bytecost_sys::{clock, errqueue, process, tcp};
use rustix::fs::{MemfdFlags, memfd_create};

#[path = "truths/accounts.rs"]
mod accounts;
#[path = "truths/killed.rs"]
mod killed;
#[path = "../../../tests/lack.rs"]
mod lack;

use lack::{Lack, skipped};

const MESSAGE_BYTES: usize = 64 << 10;
const MESSAGES: usize = 256;
const PAYLOAD_BYTES: usize = MESSAGE_BYTES * MESSAGES;
const PATIENCE: Duration = Duration::from_secs(60);
/// The tolerance of a count, in copies of each byte.
const NEAR: f64 = 0.01;

/// Bytes of files are counted by process, which all tests here share.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns true if this kernel and user must allow a means.
fn must(means: CopyMeans) -> bool {
    let name = match means {
        CopyMeans::Functions => "functions",
        _ => "tracepoints",
    };
    let asked = std::env::var("BYTECOST_MEANS").unwrap_or_default();
    let is_asked = asked.split(',').any(|m| m == name);
    is_asked || means == CopyMeans::Tracepoints && rustix::process::geteuid().is_root()
}

/// Copies for each byte: out of a file, into the kernel, into a file, on delivery, to the reader.
type PerByte = [Option<f64>; 5];

fn of_socket(into_kernel: f64, delivery: f64, to_reader: f64) -> PerByte {
    [0.0, into_kernel, 0.0, delivery, to_reader].map(Some)
}

/// Gives the most bytes that TCP sent again, which a busy machine has it do.
fn over(listener: &TcpListener, work: impl FnOnce(&TcpStream)) -> u64 {
    let sending = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (taking, _) = listener.accept().unwrap();
    sending.set_write_timeout(Some(PATIENCE)).unwrap();
    taking.set_read_timeout(Some(PATIENCE)).unwrap();
    let reader = thread::spawn(move || {
        let mut taking = BufReader::with_capacity(256 << 10, taking);
        io::copy(&mut taking, &mut io::sink()).unwrap()
    });
    work(&sending);
    sending.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reader.join().unwrap(), PAYLOAD_BYTES as u64);
    let info = tcp::info(&sending).unwrap();
    u64::from(info.retransmits) * u64::from(info.snd_mss_bytes)
}

fn memory_file() -> std::fs::File {
    let file = std::fs::File::from(memfd_create("truth", MemfdFlags::CLOEXEC).unwrap());
    for i in 0..MESSAGES {
        let place = (i * MESSAGE_BYTES) as u64;
        file.write_all_at(&[7; MESSAGE_BYTES], place).unwrap();
    }
    file
}

struct Truths {
    means: CopyMeans,
    copies: Copies,
}

impl Truths {
    fn of(means: CopyMeans) -> Option<Truths> {
        match Copies::by(Path::new("/"), &[means]) {
            Ok(copies) => {
                for gap in &copies.choice().gaps {
                    println!("{}: gap: {gap}", means.title());
                }
                Some(Truths { means, copies })
            }
            Err(e) => {
                assert!(!must(means), "{} must be had here: {e}", means.title());
                skipped(Lack::Machine, format_args!("{}: {e}", means.title()));
                None
            }
        }
    }

    fn begin(&mut self, port: Option<u16>) {
        self.begin_where(port, false);
    }

    fn begin_where(&mut self, port: Option<u16>, sender_listens: bool) {
        let me = std::process::id();
        let parties = Parties {
            port,
            sender_listens,
            network: None,
            sender: me,
            receiver: Some(me),
        };
        self.copies.begin(parties).unwrap();
    }

    /// So many bytes may have been sent again: the kernel copies those once more on delivery.
    fn check(&self, what: &str, per_byte: PerByte, again_bytes: u64) {
        let again = again_bytes as f64 / PAYLOAD_BYTES as f64;
        let counted = self.copies.copied();
        let copies: Vec<Option<f64>> = counted
            .iter()
            .map(|c| Some(c.bytes.measured()? as f64 / PAYLOAD_BYTES as f64))
            .collect();
        let number = |v: &Option<f64>| v.map_or("–".to_owned(), |v| format!("{v:.3}"));
        let each: Vec<String> = copies.iter().map(number).collect();
        let sum: f64 = copies.iter().flatten().sum();
        println!(
            "{}: {what}: {} = {sum:.3} copies per byte",
            self.means.title(),
            each.join(" + ")
        );
        for ((found, expected), leg) in copies.iter().zip(per_byte).zip(CopyPlace::ALL) {
            let is_near = match (found, expected) {
                (Some(found), Some(expected)) => {
                    let is_delivery = f64::from(u8::from(*leg == CopyPlace::Delivery));
                    let most = expected + again * is_delivery;
                    (expected - NEAR..most + NEAR).contains(found)
                }
                (None, None) => true,
                (None, Some(_)) => self.copies.choice().means(*leg).is_none(),
                (Some(_), None) => false,
            };
            assert!(
                is_near,
                "{what}, {leg:?}: {found:?}, not {expected:?}, {again_bytes} bytes again: {counted:?}"
            );
        }
    }

    fn check_connection(&mut self, what: &str, expected: PerByte, work: impl FnOnce(&TcpStream)) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        self.begin(Some(listener.local_addr().unwrap().port()));
        let again_bytes = over(&listener, work);
        self.check(what, expected, again_bytes);
    }

    fn all(&mut self) {
        let message = vec![7_u8; MESSAGE_BYTES];
        let send = |mut socket: &TcpStream| {
            for _ in 0..MESSAGES {
                socket.write_all(&message).unwrap();
            }
        };
        self.files();
        let copied = of_socket(1.0, 0.0, 1.0);
        self.check_connection("send and recv over loopback", copied, send);
        let file = memory_file();
        let sendfile = |socket: &TcpStream| {
            let mut left = PAYLOAD_BYTES;
            while left > 0 {
                left -= rustix::fs::sendfile(socket, &file, None, left).unwrap();
            }
        };
        let what = "sendfile from the page cache to recv over loopback";
        self.check_connection(what, of_socket(0.0, 0.0, 1.0), sendfile);
        let mut flagged = Vec::new();
        self.check_connection(
            "send with MSG_ZEROCOPY and recv over loopback",
            of_socket(0.0, 1.0, 1.0),
            |socket| flagged = zerocopy(socket, &message),
        );
        assert_eq!(flagged.len(), MESSAGES);
        assert!(flagged.iter().all(|is_copied| *is_copied), "{flagged:?}");
        println!("completion flags: 100 % of {MESSAGES} zero-copy sends over loopback copied");
        self.unix(&message);
        // Bytes to another port are not those of this connection.
        self.begin(Some(9));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        over(&listener, send);
        self.check("what goes elsewhere", of_socket(0.0, 0.0, 0.0), 0);
        let again_bytes = over(&listener, |socket| {
            self.begin_where(Some(socket.local_addr().unwrap().port()), true);
            send(socket);
        });
        self.check("a sender known by its own port", copied, again_bytes);
    }

    fn files(&mut self) {
        let neither = match self.means {
            CopyMeans::Functions => Some(0.0),
            _ => None,
        };
        let of_file = |from, into| [Some(from), neither, Some(into), neither, neither];
        let file = memory_file();
        self.begin(None);
        let mut buffer = vec![0; MESSAGE_BYTES];
        for i in 0..MESSAGES {
            let place = (i * MESSAGE_BYTES) as u64;
            file.read_exact_at(&mut buffer, place).unwrap();
        }
        self.check("pread of a memory file", of_file(1.0, 0.0), 0);
        self.begin(None);
        drop(memory_file());
        self.check("pwrite of a memory file", of_file(0.0, 1.0), 0);
        let target = memfd_create("target", MemfdFlags::CLOEXEC).unwrap();
        self.begin(None);
        let mut at = 0;
        while at < PAYLOAD_BYTES as u64 {
            rustix::fs::sendfile(&target, &file, Some(&mut at), MESSAGE_BYTES).unwrap();
        }
        let what = "sendfile from a memory file to another";
        self.check(what, of_file(0.0, 1.0), 0);
        self.begin(None);
        let mut null = std::fs::File::create("/dev/null").unwrap();
        for _ in 0..MESSAGES {
            null.write_all(&buffer).unwrap();
        }
        self.check("what is thrown away", of_file(0.0, 0.0), 0);
    }

    fn unix(&mut self, message: &[u8]) {
        self.begin(None);
        let (mut sending, mut taking) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while taking.read(&mut buffer).unwrap() > 0 {}
        });
        for _ in 0..MESSAGES {
            sending.write_all(message).unwrap();
        }
        drop(sending);
        reader.join().unwrap();
        let expected = match self.means {
            CopyMeans::Functions => of_socket(1.0, 0.0, 1.0),
            // Its messages are no packets of a device.
            _ => [Some(0.0), None, Some(0.0), None, None],
        };
        self.check("a Unix stream socket", expected, 0);
    }
}

fn zerocopy(socket: &TcpStream, message: &[u8]) -> Vec<bool> {
    errqueue::set_zerocopy(socket).unwrap();
    let mut flags = Vec::new();
    let mut sends = 0;
    for _ in 0..MESSAGES {
        let mut left = message;
        while !left.is_empty() {
            let n = match rustix::net::send(socket, left, MSG_ZEROCOPY) {
                Ok(n) => n,
                // No room to note another one: the earlier ones are taken in first.
                Err(rustix::io::Errno::NOBUFS) => 0,
                Err(e) => panic!("{e}"),
            };
            left = &left[n..];
            sends += usize::from(n > 0);
            if n == 0 {
                take(socket, &mut flags);
            }
        }
    }
    while flags.len() < sends {
        take(socket, &mut flags);
    }
    // A message that was sent in pieces counts once.
    flags.truncate(MESSAGES);
    flags
}

fn take(socket: impl AsFd, flags: &mut Vec<bool>) {
    assert!(errqueue::wait(&socket, PATIENCE).unwrap(), "no completion");
    while let Some(done) = errqueue::completion(&socket).unwrap() {
        flags.extend((0..done.sends()).map(|_| done.copied));
    }
}

#[test]
fn bytes_are_copied_as_often_as_is_known_by_each_means() {
    let _alone = alone();
    for means in [CopyMeans::Tracepoints, CopyMeans::Functions] {
        if let Some(mut truths) = Truths::of(means) {
            truths.all();
        }
    }
}

#[test]
fn the_strongest_means_are_taken_and_the_others_are_told() {
    let _alone = alone();
    let Ok(copies) = Copies::open(Path::new("/")) else {
        return skipped(Lack::Right, "nothing can be counted");
    };
    let choice = copies.choice();
    for (leg, means) in &choice.legs {
        match means {
            Ok(means) => println!("{}: {}", leg.title(), means.title()),
            Err(why) => println!("{}: not counted: {why}", leg.title()),
        }
    }
    let mut legs = choice.legs.iter();
    let weaker = legs.any(|(_, means)| *means != Ok(CopyMeans::Functions));
    assert_eq!(weaker, !choice.gaps.is_empty(), "{:?}", choice.gaps);
}

/// Counters that are held against the packets of a connection first.
fn events() -> io::Result<Events> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sending = TcpStream::connect(listener.local_addr()?)?;
    sending.set_nodelay(true)?;
    let (mut taking, _) = listener.accept()?;
    Events::open(Path::new("/"), sending.peer_addr()?.port(), || {
        sending.write_all(b"known")?;
        taking.read_exact(&mut [0; 5])
    })
}

#[test]
fn each_call_is_counted_and_every_counter_counts() {
    const CALLS: u64 = 1000;
    const SLEEPS: usize = 20;
    let _alone = alone();
    let mut events = match events() {
        Ok(events) => events,
        Err(e) => {
            assert!(!must(CopyMeans::Tracepoints), "{e}");
            return skipped(Lack::Right, e);
        }
    };
    for (event, why) in events.refused() {
        println!("events: no {}: {why}", event.row().title);
    }
    let me = Parties {
        sender: std::process::id(),
        ..Parties::default()
    };
    events.begin(me).unwrap();
    let waits = || process::thread_usage().unwrap().switches_voluntary;
    let before = waits();
    let call = || {
        for _ in 0..CALLS {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        thread::sleep(Duration::from_millis(1));
    };
    call();
    // On a slow machine a timer may fire before the thread that set it sleeps.
    for _ in 0..SLEEPS {
        if waits() > before {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let waited = waits() - before;
    let counts = events.counts();
    for count in &counts {
        println!("events: {}: {:?}", count.event.row().title, count.count);
    }
    let of = |event| {
        let found = counts.iter().find(|c| c.event == event).unwrap();
        found.count.measured()
    };
    // Threads of other tests in this process call the kernel too.
    if let Some(calls) = of(CountedEvent::SystemCalls) {
        assert!((CALLS..CALLS + 200).contains(&calls), "{calls}");
    }
    if let Some(switches) = of(CountedEvent::ContextSwitches) {
        assert!(switches >= waited && waited > 0, "{switches} and {waited}");
    }
    let has_packets = counts.iter().any(|c| c.event == CountedEvent::Packets);
    assert!(!has_packets, "there is no connection");
    let now_ns = clock::monotonic_ns();
    for (from_ns, to_ns) in [(0, now_ns), (now_ns + 3_600_000_000_000, u64::MAX)] {
        events.schedule(from_ns, to_ns).unwrap();
        call();
        let found = events.counts();
        let none = |c: &EventCount| c.count.measured().is_none_or(|n| n == 0);
        assert!(found.iter().all(none), "outside of the window: {found:?}");
    }
}
