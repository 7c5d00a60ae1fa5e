//! The timed window: it allocates nothing, and it counts what was offered.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use bytecost_engine::payload::{Layout, Source};
use bytecost_engine::{
    Checker, Corked, MOVERS, Move, Mover, QuickAck, RECEIVERS, Receiver, Setup, Tally,
};
use bytecost_lab::edges::{Segments, by_gate};
use bytecost_lab::flow::{Ask, Intake, Stream};
use bytecost_lab::wakes::Wakes;
use bytecost_meter::{NoMeter, ThreadMeter};
use bytecost_spec::Transport;
use bytecost_spec::cell::Reaping;
use bytecost_sys::pipe::{Pipe, moving};
use rustix::pipe::splice;

#[path = "../../../tests/lack.rs"]
mod lack;
mod loops;

use lack::{Lack, skipped};

use loops::{CountingGate, TIMEOUT, counted, finish, pair};

/// Room for what is measured is made once, before the warm-up.
const ROOM: u64 = 1;

const SIZE: usize = 4096;

fn setup(socket: Option<OwnedFd>) -> Setup {
    Setup {
        socket,
        fields: 8,
        slots: 16,
        ..Setup::new(SIZE, TIMEOUT)
    }
}

/// The ways in which a mover may go about its messages, each with the movers that can.
#[derive(Clone, Copy, Debug)]
enum Conduct {
    Plain,
    Refilled,
    Left(Reaping),
    Corked,
}

const CONDUCTS: &[Conduct] = &[
    Conduct::Plain,
    Conduct::Refilled,
    Conduct::Left(Reaping::OneLook),
    Conduct::Left(Reaping::Never),
    Conduct::Corked,
];

impl Conduct {
    fn is_possible(self, mover: &Mover) -> bool {
        match self {
            Conduct::Plain => true,
            Conduct::Refilled => mover.can_refill(),
            Conduct::Left(_) => mover.leaves_completions,
            Conduct::Corked => mover.has_peer(),
        }
    }

    fn open(self, mover: &Mover, socket: Option<OwnedFd>) -> io::Result<Box<dyn Move>> {
        let kept = socket.as_ref().map(|s| s.try_clone().unwrap());
        let engine = mover.open(Setup {
            refill: matches!(self, Conduct::Refilled),
            reaping: match self {
                Conduct::Left(reaping) => reaping,
                _ => Reaping::Full,
            },
            ..setup(socket)
        })?;
        Ok(match (self, kept) {
            (Conduct::Corked, Some(corked)) => Box::new(Corked::new(engine, corked)),
            _ => engine,
        })
    }
}

/// Reads a socket to its end in a thread of its own.
fn swallow(socket: OwnedFd) -> thread::JoinHandle<u64> {
    let mut stream = UnixStream::from(socket);
    thread::spawn(move || io::copy(&mut stream, &mut io::sink()).unwrap())
}

// Invariant 4.
#[test]
fn no_mover_allocates_while_it_streams() {
    let pairs = MOVERS
        .iter()
        .filter(|m| !m.route.is_of_files())
        .flat_map(|m| CONDUCTS.iter().map(move |c| (m, *c)));
    for (mover, conduct) in pairs.filter(|(m, c)| c.is_possible(m)) {
        let (a, b) = pair(Transport::Loopback);
        let Ok(mut engine) = conduct.open(mover, mover.has_peer().then_some(a)) else {
            skipped(Lack::Machine, mover.name);
            continue;
        };
        // Timeout begins now: to open a mover may take longer.
        let reader = swallow(b);
        let mut meter = ThreadMeter::open();
        let gate = CountingGate::new(100, 500);
        let (count, result) =
            counted(|| by_gate(&mut Stream(&mut *engine), &gate, &mut meter, finish()));
        assert_eq!(count, ROOM, "{}, {conduct:?}", mover.name);
        let window = result.unwrap();
        assert!(window.tally().messages > 0, "{}", mover.name);
        let Tally { held, released, .. } = window.total;
        assert_eq!(held, released, "{}, {conduct:?}", mover.name);
        drop(engine);
        let arrived = reader.join().unwrap();
        let sent = u64::from(mover.has_peer()) * window.total.bytes;
        assert_eq!(arrived, sent, "{}", mover.name);
    }
}

// Invariant 4.
#[test]
fn neither_asking_nor_taking_allocates() {
    let pairs = RECEIVERS.iter().flat_map(|r| [(r, false), (r, true)]);
    for (receiver, quick) in pairs {
        let (a, b) = pair(Transport::Loopback);
        let taker = thread::spawn(move || {
            let kept = b.try_clone().unwrap();
            let mut engine = (receiver.open)(b, 1 << 16).unwrap();
            engine.expect(SIZE);
            if quick {
                engine = Box::new(QuickAck::new(engine, kept.try_clone().unwrap()));
            }
            let pattern = setup(None).pattern(false);
            let mut intake = Intake {
                receiver: &mut *engine,
                checker: Checker::new(pattern, true),
                size_bytes: SIZE as u64,
                answers: Some((&kept, vec![1; 64])),
            };
            let mut meter = NoMeter;
            let gate = CountingGate::new(20, 40);
            counted(|| intake.run(&gate, &mut meter, || ()).unwrap())
        });
        let kept = a.try_clone().unwrap();
        let mut engine = Mover::named("send").unwrap().open(setup(Some(a))).unwrap();
        let mut ask = Ask::new(&mut *engine, &kept, vec![0; 64]);
        let mut meter = NoMeter;
        let gate = CountingGate::new(100, 500);
        let (allocations, asked) =
            counted(|| by_gate(&mut ask, &gate, &mut meter, finish()).unwrap());
        assert_eq!(allocations, ROOM, "asking allocated");
        // One look at the gate opens the window.
        assert_eq!(ask.latency_ns.len(), asked.tally().messages);
        rustix::net::shutdown(&kept, rustix::net::Shutdown::Write).unwrap();
        let (count, taken) = taker.join().unwrap();
        assert_eq!(count, ROOM, "{} allocated", receiver.name);
        assert_eq!(taken.total.bytes, asked.total.bytes);
        eighths_add_up(&asked);
        eighths_add_up(&taken);
    }
}

/// One side goes by its clock, the other by its gate.
fn eighths_add_up<S>(window: &Segments<S>) {
    let sub_windows = window.marks.unwrap().sub_windows().unwrap();
    assert_eq!(sub_windows.amount.len(), 8);
    assert_eq!(sub_windows.amount.iter().sum::<u64>(), window.tally().bytes);
    assert!(sub_windows.elapsed_ns.iter().sum::<u64>() > 0);
    assert!(sub_windows.cpu_ns.iter().sum::<u64>() > 0);
}

#[test]
fn the_null_mover_comes_out_the_same_every_time() {
    let mut engine = MOVERS[0].open(setup(None)).unwrap();
    let gate = CountingGate::new(100, 500);
    let window = by_gate(&mut Stream(&mut *engine), &gate, &mut NoMeter, finish()).unwrap();
    // Each phase looks once more than it offers; the look that ends one begins the next.
    assert_eq!(window.edges[0].0.tally.messages, 100);
    assert_eq!(window.edges[0].1.tally.messages, 599);
    // An eighth has 62 or 63 looks, and the look that steps offers as any other.
    let sub_windows = window.marks.unwrap().sub_windows().unwrap();
    let of_one = SIZE as u64;
    let messages: Vec<u64> = sub_windows.amount.iter().map(|n| n / of_one).collect();
    assert_eq!(messages, [62, 62, 63, 62, 63, 62, 63, 62]);
}

/// The full check must be able to fail: pages that a pipe still refers to are written anew.
#[test]
fn a_buffer_that_is_used_too_early_is_caught() {
    let (a, b) = pair(Transport::Unix);
    let setup = Setup {
        slots: 2,
        fresh: true,
        ..setup(None)
    };
    let (mut source, mut region) = Source::new(&setup, Layout::contiguous(&setup)).unwrap();
    let pipe = Pipe::new(1 << 16).unwrap();
    for _ in 0..4 {
        let slot = source.begin(region.bytes_mut());
        let range = source.layout().range(slot, 0);
        assert_eq!(pipe.fill_from_memory(&region, range).unwrap(), SIZE);
        let moved = splice(&pipe.read, None, &a, None, SIZE, moving(false));
        assert_eq!(moved, Ok(SIZE));
    }
    drop(a);
    let mut receiver = (RECEIVERS[0].open)(b, 1 << 16).unwrap();
    let mut checker = Checker::new(setup.pattern(true), true);
    let mut caught = None;
    while caught.is_none() {
        let got = receiver.take().unwrap();
        if got == 0 {
            break;
        }
        caught = checker.check(&*receiver, got).err();
    }
    let wrong = caught.expect("the third message overwrote the first");
    let error = wrong.to_string();
    assert!(error.contains("byte 0 of the stream is wrong"), "{error}");
}

#[test]
fn each_conduct_makes_the_calls_that_it_is_named_for() {
    let never = Conduct::Left(Reaping::Never);
    let one_look = Conduct::Left(Reaping::OneLook);
    for (name, conduct, calls) in [
        ("send-fields", Conduct::Refilled, 8),
        ("send-fields", Conduct::Corked, 10),
        ("sendmsg", Conduct::Corked, 3),
        ("send-zerocopy", never, 1),
        ("send-zerocopy", one_look, 2),
    ] {
        let (a, b) = pair(Transport::Loopback);
        let reader = swallow(b);
        let mut engine = conduct.open(Mover::named(name).unwrap(), Some(a)).unwrap();
        let gate = CountingGate::new(10, 50);
        let window = by_gate(&mut Stream(&mut *engine), &gate, &mut NoMeter, finish()).unwrap();
        let counted = |field: fn(&Tally) -> u64| field(&window.tally());
        let expected = calls * counted(|t| t.messages) + counted(|t| t.enobufs);
        let made = counted(|t| t.calls);
        // A kernel with room for few completions makes the sender wait for some.
        let waited = window.total.enobufs > 0 && made > expected;
        assert!(made == expected || waited, "{name} {conduct:?}: {made}");
        let Tally { held, released, .. } = window.total;
        assert_eq!(held, released, "{name} {conduct:?}");
        drop(engine);
        assert_eq!(reader.join().unwrap(), window.total.bytes);
    }
}

#[test]
fn a_receiver_of_exact_lengths_takes_whole_messages_and_the_rest_of_them() {
    for (ask, takes) in [
        (1 << 16, &[SIZE, SIZE][..]),
        (3000, &[3000, SIZE - 3000, 3000, SIZE - 3000]),
    ] {
        let (a, b) = pair(Transport::Loopback);
        let mut receiver = (Receiver::named("recv-waitall").unwrap().open)(b, ask).unwrap();
        receiver.expect(SIZE);
        let mover = Mover::named("send-fields").unwrap();
        let mut engine = mover.open(setup(Some(a))).unwrap();
        engine.offer().unwrap();
        engine.offer().unwrap();
        drop(engine);
        for take in takes {
            assert_eq!(receiver.take().unwrap(), *take);
        }
        assert_eq!(receiver.take().unwrap(), 0);
        assert_eq!(receiver.calls(), takes.len() as u64 + 1);
    }
}

// Invariant 4.
#[test]
fn waking_does_not_allocate_and_counts_every_beat() {
    for name in ["wake-up", "wake-work"] {
        let mover = Mover::named(name).unwrap();
        let mut engine = mover.open(setup(None)).unwrap();
        let every_ns = mover.beat_ns().unwrap();
        let mut wakes = Wakes::new(&mut *engine, every_ns);
        let mut meter = NoMeter;
        let gate = CountingGate::new(3, 11);
        let (count, window) = counted(|| wakes.run(&gate, &mut meter, finish()).unwrap());
        assert_eq!(count, ROOM, "{name}");
        let woken = window.tally().messages;
        let beats = wakes.into_beats();
        // One for each look at the gate since it opened.
        assert_eq!(woken, 10, "{name}");
        assert_eq!(beats.latency_ns.len(), woken + beats.missed, "{name}");
    }
}
