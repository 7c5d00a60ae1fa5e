//! Each mover is what its row states: it makes these calls, by name, flags and number.
//!
//! A mover works in a thread of its own. The kernel reports all calls before it carries them out
//! (seccomp) and counts requests to io_uring (BPF). One call takes all of a message: it is small,
//! the socket has room, somebody reads, the file is cached. It has a main: a mover is a case.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytecost_engine::file::{self, Opening, TestFile};
use bytecost_engine::java::{self, Compiled, START_PATIENCE};
use bytecost_engine::statement::{self, Call, Each, Moved, Requirement};
use bytecost_engine::{BlockOrder, FileWork, InFlight, MOVERS, Mover, Open, Route, Setup, Tally};
use bytecost_lab::edges::by_gate;
use bytecost_lab::flow::Stream;
use bytecost_lab::requests::Requests;
use bytecost_lab::transports::Socket;
use bytecost_meter::NoMeter;
use bytecost_spec::{Access, Transport};
use bytecost_sys::call_listener::{CALLS, CallListener, PendingCall, SystemCall};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::net::sockopt;

#[path = "../../../tests/lack.rs"]
mod lack;
mod loops;
mod machine;
#[path = "calls/requests.rs"]
mod requests;

use lack::{Lack, skipped};

use loops::{CountingGate, finish, pair};
use requests::UringRequests;

const SIZE: usize = 16 << 10;
const FIELDS: usize = 8;
const BLOCK: usize = 4 << 10;
/// Messages of a pass, of three passes, and the most in flight.
const PASS: u64 = 32;
const MESSAGES: u64 = 3 * PASS;
const DEPTH: usize = 32;
/// More than all messages together have.
const ROOM_BYTES: usize = 4 << 20;
const TIMEOUT: Duration = Duration::from_secs(20);
/// The time between checks if a mover is through, while it makes no call.
const SOON: Duration = Duration::from_millis(5);
/// A flag that is put to those of a call, or taken from them: as it happens, MSG_MORE.
const ANOTHER_FLAG: u32 = 0x8000;

/// By name and flags, how often a call was made.
type Counted = BTreeMap<(&'static str, u32), u64>;

static JAVA: LazyLock<Option<Compiled>> = LazyLock::new(|| {
    let found = java::find().and_then(|java| Compiled::new(&java, START_PATIENCE));
    found.ok()
});

fn main() -> ExitCode {
    let trials = MOVERS
        .iter()
        .map(|mover| Trial::test(mover.name, || is_what_it_states(mover)));
    let mut arguments = Arguments::from_args();
    // One case at a time: descriptors and calls of another one would be counted.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn is_what_it_states(mover: &'static Mover) -> Result<(), Failed> {
    let is_missing = |need: &&Requirement| machine::has(need, || JAVA.is_some()) == Some(false);
    if let Some(need) = mover.states.needs.iter().find(is_missing) {
        let lack = match need {
            Requirement::Java => Lack::Tool,
            Requirement::Uring => Lack::Right,
            _ => Lack::Machine,
        };
        skipped(lack, format_args!("{}: {need:?}", mover.name));
        return Ok(());
    }
    let mut stated = mover.states.calls.to_vec();
    let seen = match seen(mover)? {
        Ok(seen) => seen,
        Err(why) => {
            skipped(Lack::Right, format_args!("seccomp(2): {why}"));
            return Ok(());
        }
    };
    let (counted, calls, descriptors) = (&seen.counted, seen.calls, seen.descriptors);
    if seen.gap.is_some() {
        stated.retain(|call| !call.is_request());
    }
    holds(&stated, counted, &seen.moved)?;
    for wrong in wrong(&stated, counted) {
        if holds(&wrong, counted, &seen.moved).is_ok() {
            return Err(format!("{wrong:?} would hold as well: {}", in_words(counted)).into());
        }
    }
    let own = mover.states.count(&seen.moved);
    if counts_all(mover) && !own.contains(&calls) {
        return Err(format!("it counts {calls} calls itself, not {own:?}").into());
    }
    let most = mover.descriptors_per_flow as usize;
    // Descriptors that another program gets are closed here, and a listener once it has its connection.
    let is_most = mover.is_helped() || mover.route.is_ping();
    if descriptors > most || descriptors < most && !is_most {
        return Err(format!("{descriptors} descriptors, not {most} as stated").into());
    }
    if let Some(why) = seen.gap {
        skipped(Lack::Right, format_args!("requests to io_uring: {why}"));
    }
    Ok(())
}

/// Returns true if it counts its calls itself: not a ping-pong, nor where a library makes them.
fn counts_all(mover: &Mover) -> bool {
    let by_library = mover.in_flight == InFlight::SeveralByThreads
        && !mover.states.calls.iter().any(Call::is_request);
    !mover.route.is_ping() && !by_library
}

/// Returns true if a call counts although no row states it.
fn moves(name: &str) -> bool {
    CALLS.iter().all(|call| call.moves || call.name != name)
}

/// Checks that the counted calls are those that a row states, all of them and no more.
fn holds(stated: &[Call], counted: &Counted, moved: &Moved) -> Result<(), String> {
    let mut rest = counted.clone();
    for call in stated {
        let found = rest.remove(&(call.name, call.flags)).unwrap_or(0);
        let range = call.count(moved);
        if !range.contains(&found) {
            let call = format!("{} with flags {:#x}", call.name, call.flags);
            let all = in_words(counted);
            return Err(format!(
                "{call}: {found} times, not {range:?} as stated: {all}"
            ));
        }
    }
    rest.retain(|(name, _), _| moves(name));
    if rest.is_empty() {
        Ok(())
    } else {
        Err(format!("calls that are not stated: {}", in_words(&rest)))
    }
}

fn in_words(counted: &Counted) -> String {
    let each = |((name, flags), count): (&(&str, u32), &u64)| format!("{name} {flags:#x}: {count}");
    counted.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// Wrong statements of a row: other flags or numbers, a call less or more.
fn wrong(stated: &[Call], counted: &Counted) -> Vec<Vec<Call>> {
    let with = |at: usize, call| {
        let mut changed = stated.to_vec();
        changed[at] = call;
        changed
    };
    let never = statement::call("tee");
    let mut all = vec![[stated, &[never]].concat()];
    for (at, call) in stated.iter().enumerate() {
        // A call that only waits may not have been made.
        if !counted.contains_key(&(call.name, call.flags)) {
            continue;
        }
        let mut missing = stated.to_vec();
        missing.remove(at);
        all.extend(Some(missing).filter(|_| moves(call.name)));
        let flags = call.flags ^ ANOTHER_FLAG;
        all.push(with(at, Call { flags, ..*call }));
        if !matches!(call.each, Each::Several | Each::Wait) {
            all.extend([
                with(at, call.times(2 * call.times)),
                with(at, call.times(0)),
            ]);
        }
    }
    all
}

struct Seen {
    counted: Counted,
    /// Why its requests to io_uring are not among that, where it states some.
    gap: Option<String>,
    moved: Moved,
    /// As many calls as it counts itself.
    calls: u64,
    /// Open at once.
    descriptors: usize,
}

/// Has a mover move its messages, and hears it; within, why nobody can be heard here.
fn seen(mover: &'static Mover) -> Result<io::Result<Seen>, Failed> {
    let (setup, reader) = ready(mover)?;
    let ours = descriptors(&setup)?;
    let names = mover.states.calls;
    let listened_for: Vec<SystemCall> = CALLS
        .iter()
        .filter(|c| c.moves || names.iter().any(|stated| stated.name == c.name))
        .copied()
        .collect();
    let is_counting = Arc::new(AtomicBool::new(false));
    let (hand_over, taken) = mpsc::channel();
    let working = thread::spawn({
        let is_counting = Arc::clone(&is_counting);
        move || {
            // A listener that must be woken would never report a call.
            let _ = hand_over.send(CallListener::of_this_thread(&listened_for));
            work(mover, setup, &is_counting)
        }
    });
    let listener = loop {
        match taken.try_recv() {
            Ok(listener) => break listener,
            Err(_) => thread::sleep(SOON),
        }
    };
    let mut calls = Counted::new();
    let mut futexes: BTreeMap<u64, Counted> = BTreeMap::new();
    let mut see = |call: PendingCall| {
        let counts = is_counting.load(Ordering::Acquire);
        if counts && (!mover.is_helped() || is_about(&call, &ours)) {
            let all = match call.name {
                "futex" => futexes.entry(call.first[0]).or_default(),
                _ => &mut calls,
            };
            *all.entry((call.name, call.flags)).or_default() += 1;
        }
    };
    let refused = match listener {
        Ok(listener) => {
            while !working.is_finished() {
                listener.next(SOON, &mut see)?;
            }
            None
        }
        Err(why) => Some(why),
    };
    // A thread that ends or parks has words of its own; the mover's is used the most.
    let turns = futexes
        .into_values()
        .max_by_key(|counted| counted.values().sum::<u64>());
    calls.extend(turns.into_iter().flatten());
    let worked = working.join().map_err(|_| "the mover panicked")?;
    let mut seen = worked.map_err(|e| format!("{e}; until then: {}", in_words(&calls)))?;
    if let Some(reader) = reader {
        reader.join().map_err(|_| "the reader panicked")??;
    }
    seen.counted.extend(calls);
    Ok(match refused {
        Some(why) => Err(why),
        None => Ok(seen),
    })
}

/// Opens a mover and has it move all messages to the last completion. Its result is what calls do not
/// show.
fn work(mover: &Mover, setup: Setup, is_counting: &AtomicBool) -> io::Result<Seen> {
    let is_asked = mover.states.calls.iter().any(Call::is_request);
    let mut requests = is_asked.then(|| UringRequests::open(Path::new("/")));
    let before = open_descriptors()? - given(&setup);
    let mut descriptors = 0;
    let opened = || -> io::Result<()> {
        descriptors = open_descriptors()? - before;
        if let Some(Ok(requests)) = &mut requests {
            requests.begin()?;
        }
        is_counting.store(true, Ordering::Release);
        Ok(())
    };
    let total = carry_out(mover, setup, opened)?;
    is_counting.store(false, Ordering::Release);
    let (counted, gap) = match requests {
        Some(Ok(requests)) => (requests.counted(), None),
        Some(Err(why)) => (Counted::new(), Some(why.to_string())),
        None => (Counted::new(), None),
    };
    Ok(Seen {
        counted,
        gap,
        moved: Moved {
            messages: total.messages,
            fields: FIELDS as u64,
            blocks: (SIZE / BLOCK) as u64,
            pass: PASS,
            in_flight: DEPTH as u64,
        },
        calls: total.calls,
        descriptors,
    })
}

/// The loops of a trial, with a word when the mover is ready.
fn carry_out(
    mover: &Mover,
    setup: Setup,
    opened: impl FnOnce() -> io::Result<()>,
) -> io::Result<Tally> {
    let (gate, mut meter) = (CountingGate::new(0, MESSAGES), NoMeter);
    match mover.open {
        Open::File(open) => {
            let mut engine = open(setup)?;
            opened()?;
            let places = file::written_places(SIZE, DEPTH);
            let mut requests = Requests::new(&mut *engine, places, None, None);
            Ok(requests.run(&gate, &mut meter, finish())?.total)
        }
        _ => {
            let mut engine = mover.open(setup)?;
            opened()?;
            Ok(by_gate(&mut Stream(&mut *engine), &gate, &mut meter, finish())?.total)
        }
    }
}

/// The setup of a mover, and the reader of its bytes.
fn ready(mover: &Mover) -> io::Result<(Setup, Option<JoinHandle<io::Result<OwnedFd>>>)> {
    let (socket, reader) = if mover.has_peer() {
        connected().map(|(socket, reader)| (Some(socket), Some(reader)))?
    } else {
        (None, None)
    };
    let works_on_files = mover.route.is_of_files() || mover.route == Route::FileToSocket;
    let setup = Setup {
        socket,
        file: works_on_files.then(|| file_work(mover)).transpose()?,
        java: (mover.is_helped())
            .then(|| JAVA.as_ref().map(Compiled::path))
            .flatten(),
        fields: FIELDS,
        slots: PASS as usize,
        ..Setup::new(SIZE, TIMEOUT)
    };
    Ok((setup, reader))
}

fn connected() -> io::Result<(OwnedFd, JoinHandle<io::Result<OwnedFd>>)> {
    let (sender, receiver) = pair(Transport::Loopback);
    sockopt::set_socket_send_buffer_size(&sender, ROOM_BYTES)?;
    let reader = thread::spawn(move || {
        io::copy(&mut Socket(&receiver), &mut io::sink())?;
        Ok(receiver)
    });
    Ok((sender, reader))
}

/// A file of one pass in the page cache, and another one where there are two.
fn file_work(mover: &Mover) -> io::Result<FileWork> {
    let len = PASS * SIZE as u64;
    // Not in memory: RWF_NOWAIT is not for memory files.
    let file = || TestFile::in_dir(env!("CARGO_TARGET_TMPDIR").as_ref());
    let open = |named: &TestFile, write| {
        let direct = false;
        file::open(&named.path(), Opening { write, direct })
    };
    let mut own = file()?;
    own.grow(len)?;
    let opened = open(&own, mover.route == Route::MemoryToFile)?;
    file::warm(&opened, 0, len)?;
    let mut target = None;
    if mover.route == Route::FileToFile {
        let mut written = file()?;
        written.reserve(len)?;
        target = Some(open(&written, true)?);
    }
    Ok(FileWork {
        file: opened,
        order: BlockOrder::new(Access::Sequential, 0, PASS, SIZE as u64, 1),
        depth: DEPTH,
        block: BLOCK,
        target,
    })
}

/// Descriptors that this process has open, with one to look at them.
fn open_descriptors() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Of these, a mover's own.
fn given(setup: &Setup) -> usize {
    let of_file = |work: &FileWork| 1 + usize::from(work.target.is_some());
    usize::from(setup.socket.is_some()) + setup.file.as_ref().map_or(0, of_file)
}

/// The descriptors of a mover, by the names that the kernel has for them.
fn descriptors(setup: &Setup) -> io::Result<Vec<PathBuf>> {
    let file = setup.file.as_ref().map(|work| work.file.as_fd());
    let both = setup.socket.iter().map(AsFd::as_fd).chain(file);
    both.map(|fd| std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())))
        .collect()
}

/// Returns true if a call is about one of these: a helping program makes others, and has its orders by
/// pipes.
fn is_about(call: &PendingCall, ours: &[PathBuf]) -> bool {
    call.first.iter().any(|fd| {
        let link = std::fs::read_link(format!("/proc/{}/fd/{fd}", call.thread));
        link.is_ok_and(|link| ours.contains(&link))
    })
}
