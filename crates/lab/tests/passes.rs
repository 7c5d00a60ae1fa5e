//! The loops of long messages: nothing is allocated within a pass, and both sides count the same.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use bytecost_engine::file::{self, Opening, TestFile};
use bytecost_engine::{BlockOrder, Checker, FileWork, MOVERS, RECEIVERS, Route, Setup};
use bytecost_lab::edges::Segments;
use bytecost_lab::flow::Intake;
use bytecost_lab::pass_loops::{PassReceiver, PassSender};
use bytecost_lab::passes::{Passes, WARMUP_PASSES};
use bytecost_lab::transports::Socket;
use bytecost_meter::NoMeter;
use bytecost_spec::{Access, Cache, Cell, Ring, Transport};

#[path = "../../../tests/lack.rs"]
mod lack;
mod loops;

use lack::{Lack, skipped};

use loops::{CountingGate, TIMEOUT, counted, finish, in_memory, pair};

const SIZE: usize = 50_001;
const MESSAGES: u64 = 3;

fn passes() -> Passes {
    Passes {
        messages: MESSAGES,
        bytes: MESSAGES * SIZE as u64,
        warmup: WARMUP_PASSES,
    }
}

fn setup(socket: OwnedFd, sent: &TestFile) -> Setup {
    Setup {
        socket: Some(socket),
        file: Some(FileWork {
            file: file::open(&sent.path(), Opening::default()).unwrap(),
            order: BlockOrder::new(Access::Sequential, 0, MESSAGES, SIZE as u64, 1),
            depth: 1,
            block: 4096,
            target: None,
        }),
        ..Setup::new(SIZE, TIMEOUT)
    }
}

fn receiving<'i, 'a>(intake: &'i mut Intake<'a>, socket: &'i OwnedFd) -> PassReceiver<'i, 'a> {
    PassReceiver {
        intake,
        passes: passes(),
        socket,
        timeout: TIMEOUT,
    }
}

/// Takes passes in to the end: what it allocated, and what it measured.
fn taker(socket: OwnedFd, answers: bool) -> thread::JoinHandle<(u64, Vec<u64>)> {
    thread::spawn(move || {
        let kept = socket.try_clone().unwrap();
        let mut engine = (RECEIVERS[0].open)(socket, 1 << 16).unwrap();
        let (start, len) = (0, passes().bytes);
        let mut intake = Intake {
            receiver: &mut *engine,
            checker: Checker::new(file::content().part(start, len), true),
            size_bytes: SIZE as u64,
            answers: answers.then(|| (&kept, vec![1; 64])),
        };
        let mut meter = NoMeter;
        let receiver = receiving(&mut intake, &kept);
        let (count, run) = counted(|| receiver.run(&mut meter, || (), || ()));
        let all = run.unwrap();
        assert_eq!(intake.checker.compared(), all.total.bytes);
        (count, bytes_of(&all))
    })
}

fn bytes_of<S>(all: &Segments<S>) -> Vec<u64> {
    let of_one = all.edges.iter();
    of_one.map(|(a, b)| b.tally.bytes - a.tally.bytes).collect()
}

// Invariant 4.
#[test]
fn no_pass_allocates_and_both_sides_measure_the_same_messages() {
    let sent = in_memory(passes().bytes);
    for mover in MOVERS.iter().filter(|m| m.route == Route::FileToSocket) {
        for is_asked in [true, false] {
            let (a, b) = pair(Transport::Loopback);
            let kept = a.try_clone().unwrap();
            let Ok(mut engine) = mover.open(setup(a, &sent)) else {
                skipped(Lack::Machine, mover.name);
                continue;
            };
            // Timeout begins now: to open a mover may take longer.
            let taker = taker(b, is_asked);
            let cooled = RefCell::new(0);
            let mut cool = || {
                *cooled.borrow_mut() += 1;
                Ok(())
            };
            let mut sender = PassSender::new(&mut *engine, passes());
            sender.answers = is_asked.then(|| (&kept, vec![0; 64]));
            sender.cool = Some(&mut cool);
            let gate = CountingGate::new(0, 6);
            let mut opened = 0;
            let mut meter = NoMeter;
            let run = || sender.run(&gate, &mut meter, || opened += 1, finish());
            let (count, result) = counted(run);
            let all = result.unwrap();
            // The one place for the edges of passes, before the first of them.
            assert!(count <= 1, "{}: {count}", mover.name);
            let timed = sender.latency_ns.len();
            drop(engine);
            rustix::net::shutdown(&kept, rustix::net::Shutdown::Write).unwrap();
            let (allocated, came) = taker.join().unwrap();
            assert!(allocated <= 1, "{}: {allocated}", mover.name);
            let went = bytes_of(&all);
            assert_eq!(went, vec![passes().bytes; 7], "{}", mover.name);
            if is_asked {
                assert_eq!(came, went, "{}", mover.name);
                assert_eq!(timed, 7 * MESSAGES, "each message is timed");
            } else {
                let (came, went): (u64, u64) = (came.iter().sum(), went.iter().sum());
                // What is taken first may hold the end of the warm-up's pass, and the other way.
                assert!(came.abs_diff(went) <= 1 << 16, "{came} {went}");
                assert_eq!(timed, 0);
            }
            assert_eq!(opened, 1, "the window opens once");
            let pauses = WARMUP_PASSES as usize + all.edges.len() - 1;
            assert_eq!(*cooled.borrow(), pauses, "between any two passes");
            let whole = (WARMUP_PASSES + 7) * passes().bytes;
            assert_eq!(all.total.bytes, whole);
        }
    }
}

#[test]
fn a_sender_that_goes_away_within_a_pass_is_reported() {
    for bytes in [10, passes().bytes as usize, passes().bytes as usize + 10] {
        let (a, b) = pair(Transport::Loopback);
        let kept = b.try_clone().unwrap();
        let mut engine = (RECEIVERS[0].open)(b, 1 << 16).unwrap();
        let mut intake = Intake {
            receiver: &mut *engine,
            checker: Checker::counting_only(),
            size_bytes: SIZE as u64,
            answers: None,
        };
        let sender = thread::spawn(move || Socket(&a).write_all(&vec![0; bytes]).unwrap());
        let mut closed = false;
        let closes = || closed = true;
        let ended = receiving(&mut intake, &kept).run(&mut NoMeter, || (), closes);
        let why = ended.map(|_| ()).unwrap_err();
        sender.join().unwrap();
        let says = format!("went away before it had sent all: {bytes} bytes came");
        assert!(why.to_string().contains(&says), "{why}");
        assert!(!closed);
    }
}

fn passes_of(mover: &str, size_bytes: u64, cache: Cache, ring: Ring) -> Option<Passes> {
    Passes::new(&Cell {
        mover: mover.to_owned(),
        size_bytes,
        cache,
        ring,
        ..Cell::default()
    })
}

#[test]
fn long_messages_and_cold_files_go_by_passes_and_others_by_the_clock() {
    let check = |mover: &str, size_bytes, cache, ring, expected: Option<u64>| {
        let found = passes_of(mover, size_bytes, cache, ring);
        let messages = found.map(|passes| passes.messages);
        assert_eq!(messages, expected, "{mover} {size_bytes} {cache:?}");
        let bytes = found.map(|passes| passes.bytes);
        assert_eq!(bytes, expected.map(|number| number * size_bytes));
    };
    let (small, long) = (64 << 10, 4 << 20);
    let ring = Ring::Bytes(1 << 20);
    check("sendfile", small, Cache::Warm, ring, None);
    check("sendfile", small, Cache::Cold, ring, Some(16));
    check("sendfile", small, Cache::Cold, Ring::Message, Some(1));
    check("sendfile", long, Cache::Memory, Ring::Message, Some(1));
    let five = Ring::Bytes(5 * long);
    check("sendfile", long, Cache::Cold, five, Some(5));
    check("send", small, Cache::Memory, ring, None);
    check("send", long, Cache::Memory, ring, Some(1));
    check("pread", long, Cache::Cold, ring, None);
    check("null", long, Cache::Memory, ring, None);
    check("java-stream", long, Cache::Warm, ring, Some(1));
}

#[test]
fn a_program_that_compiles_itself_as_it_runs_is_warmed_up_for_longer() {
    let check = |mover: &str, size_bytes, expected| {
        let found = passes_of(mover, size_bytes, Cache::Warm, Ring::Message);
        let warmup = found.map(|passes| passes.warmup);
        assert_eq!(warmup, expected, "{mover} {size_bytes}");
    };
    check("sendfile", 7_000_000, Some(WARMUP_PASSES));
    check("java-transfer-to", 7_000_000, Some(10));
    check("java-stream", 63 << 20, Some(2));
    check("java-stream", 1 << 30, Some(1));
    check("java-stream", 4096, None);
}
