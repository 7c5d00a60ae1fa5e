//! The CPU time of an event (call, switch, fault, packet, copied byte) here: the difference of two
//! pieces of work, by their threads' clocks. In a busy trial one may cost more. Repetitions
//! in which other processes run are kept with what these used, and do not count.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bytecost_meter::{ClocksRead, ProcessClocks, ProcessOwner};
use bytecost_spec::survey::{ClockVerdict, CostTrial, PRICED, Priced, UnitCost};
use bytecost_sys::{clock, process, tcp};
use rustix::fs::MemfdFlags;
use rustix::net::sockopt;
use rustix::pipe::pipe;

use crate::limits;
use crate::loopback_exchange::connection;

/// Repetitions of each event, in turns with the others.
const REPETITIONS: usize = 9;
/// The time after which no further repetition begins.
const LONGEST: Duration = Duration::from_millis(1200);

/// The time for which others are observed; the clock of a process that runs is as of the last tick.
const OBSERVED: Duration = Duration::from_millis(50);

const CALLS: u64 = 2000;
/// Messages of a stream, each sent or read in one call or in `PIECES`.
const MESSAGES: u64 = 1024;
const MESSAGE_BYTES: usize = 256;
const PIECES: usize = 8;
/// Messages that a connection takes before they are received.
const IN_FLIGHT: u64 = 32;
const TURNS: u64 = 200;
const PAGES: usize = 256;
/// Memory that another CPU has written, and how often it is copied.
const WRITTEN_BYTES: usize = 128 << 10;
const WRITTEN_TIMES: usize = 64;
/// Memory whose halves are copied, from near to far.
const NEAR_BYTES: usize = 256 << 10;
const MIDDLE_BYTES: usize = 4 << 20;
const FAR_BYTES: usize = 64 << 20;
/// Bytes that are copied in one repetition.
const COPIED_BYTES: usize = 32 << 20;
/// An allocation of this size is a fresh mapping in every C library, so that no page of it was used.
const FRESH_BYTES: usize = 33 << 20;

/// CPU time of so many events, in ns.
type Measured = io::Result<(i64, u64)>;

/// Measures all events in half a second, two at most where others run than what `program` has started;
/// packets not by a clock without interrupts.
pub(crate) fn measure(program: u32, clock: ClockVerdict) -> Vec<UnitCost> {
    let empty = |event| UnitCost {
        event,
        trials: Vec::new(),
        absent: None,
    };
    let mut costs: Vec<UnitCost> = PRICED.iter().map(|row| empty(row.event)).collect();
    let measured = thread::scope(|scope| {
        let all = limits::start(scope, || repeat(program, clock, &mut costs))?.join();
        all.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    });
    if let Err(why) = measured {
        for cost in &mut costs {
            cost.absent.get_or_insert_with(|| why.to_string());
        }
    }
    costs
}

/// Returns true if others run now, so that nothing would be measured without them.
pub(crate) fn do_others_run(program: u32) -> bool {
    let mut others = Others::new(program);
    others.begin();
    thread::sleep(OBSERVED);
    let now = CostTrial {
        cpu_ns: 0,
        events: 0,
        other_cpus_thousandths: Some(others.cpus_thousandths()),
    };
    !now.is_undisturbed()
}

fn repeat(program: u32, clock: ClockVerdict, costs: &mut [UnitCost]) -> io::Result<()> {
    let cpus = process::affinity()?;
    process::set_affinity(&cpus[..1])?;
    let mut memory = limits::memory(1, FAR_BYTES)?;
    let mut others = Others::new(program);
    let began = Instant::now();
    let mut undisturbed = 0;
    while undisturbed < REPETITIONS && began.elapsed() <= LONGEST {
        others.begin();
        let mut repetition = Vec::new();
        for (at, cost) in costs.iter_mut().enumerate() {
            match once(cost.event, &cpus, &mut memory, clock) {
                Ok(measured) => repetition.push((at, measured)),
                Err(why) if cost.trials.is_empty() => cost.absent = Some(why.to_string()),
                Err(_) => {}
            }
        }
        let other_cpus_thousandths = Some(others.cpus_thousandths());
        let mut is_undisturbed = true;
        for (at, (cpu_ns, events)) in repetition {
            let trial = CostTrial {
                cpu_ns,
                events,
                other_cpus_thousandths,
            };
            is_undisturbed = trial.is_undisturbed();
            costs[at].trials.push(trial);
            costs[at].absent = None;
        }
        undisturbed += usize::from(is_undisturbed);
    }
    Ok(())
}

/// The CPU time of processes that are not ours during a repetition.
struct Others {
    clocks: ProcessClocks,
    before: ClocksRead,
    began: Instant,
}

impl Others {
    fn new(program: u32) -> Others {
        Others {
            clocks: ProcessClocks::new(Path::new("/"), program),
            before: ClocksRead::default(),
            began: Instant::now(),
        }
    }

    fn begin(&mut self) {
        self.clocks.list(&[]);
        self.before = self.clocks.read();
        self.began = Instant::now();
    }

    fn cpus_thousandths(&mut self) -> u64 {
        let elapsed_ns = self.began.elapsed().as_nanos().max(1) as u64;
        self.clocks.list(&[]);
        let used = self.clocks.between(&self.before, &self.clocks.read());
        1000 * used.get(&ProcessOwner::Other).copied().unwrap_or(0) / elapsed_ns
    }
}

fn once(event: Priced, cpus: &[u32], memory: &mut [u8], clock: ClockVerdict) -> Measured {
    match event {
        Priced::SystemCall => system_calls(),
        Priced::SocketCall => socket_calls(),
        Priced::FileCall => file_calls(),
        Priced::SwitchSameCpu => switches(cpus[0], cpus[0]),
        Priced::SwitchOtherCpu => switches(cpus[0], other_cpu(cpus)?),
        Priced::CopyOtherCpu => copies_from(other_cpu(cpus)?),
        Priced::PageFault => page_faults(),
        Priced::Packet if clock == ClockVerdict::Loses => Err(io::Error::other(
            "the CPU clock of a thread leaves interrupts out, in which packets are received",
        )),
        Priced::Packet => packets(),
        Priced::CopyNear => copies(&mut memory[..NEAR_BYTES]),
        Priced::CopyMiddle => copies(&mut memory[..MIDDLE_BYTES]),
        Priced::CopyFar => copies(memory),
    }
}

fn other_cpu(cpus: &[u32]) -> io::Result<u32> {
    let other = cpus.get(1).copied();
    other.ok_or_else(|| io::Error::other("this process may use one CPU alone"))
}

fn cpu_ns<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<i64> {
    let before = clock::thread_cpu_ns();
    work()?;
    Ok((clock::thread_cpu_ns() - before) as i64)
}

fn system_calls() -> Measured {
    let cpu_ns = cpu_ns(|| {
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
        Ok(())
    })?;
    Ok((cpu_ns, CALLS))
}

/// Some messages at a time, each in `pieces` calls, sent at once or joined (TCP_CORK).
fn stream(pieces: usize, corked: bool) -> io::Result<(i64, u64)> {
    let (mut sending, mut receiving) = connection()?;
    let message = [7; MESSAGE_BYTES];
    let mut room = [0; MESSAGE_BYTES * IN_FLIGHT as usize];
    let mut exchange = || {
        sockopt::set_tcp_cork(&sending, corked)?;
        for _ in 0..IN_FLIGHT {
            for piece in message.chunks(MESSAGE_BYTES / pieces) {
                sending.write_all(piece)?;
            }
        }
        sockopt::set_tcp_cork(&sending, false)?;
        receiving.read_exact(&mut room)
    };
    exchange()?;
    let cpu_ns = cpu_ns(|| (0..MESSAGES / IN_FLIGHT).try_for_each(|_| exchange()))?;
    Ok((cpu_ns, u64::from(tcp::info(&sending)?.data_segments_out)))
}

fn socket_calls() -> Measured {
    let (whole_ns, _) = stream(1, true)?;
    let (pieces_ns, _) = stream(PIECES, true)?;
    Ok((pieces_ns - whole_ns, MESSAGES * (PIECES as u64 - 1)))
}

fn packets() -> Measured {
    let (together_ns, few) = stream(1, true)?;
    let (at_once_ns, many) = stream(1, false)?;
    if many < few + MESSAGES / 2 {
        let why = "the kernel joined what was sent one by one";
        return Err(io::Error::other(why));
    }
    Ok((at_once_ns - together_ns, many - few))
}

fn file_calls() -> Measured {
    const BYTES: usize = 4096;
    let file = File::from(rustix::fs::memfd_create("cost", MemfdFlags::CLOEXEC)?);
    let mut message = [7; BYTES];
    file.write_all_at(&message, 0)?;
    let mut read = |pieces: usize| {
        cpu_ns(|| {
            (0..MESSAGES).try_for_each(|_| {
                let mut pieces = message.chunks_mut(BYTES / pieces);
                pieces.try_for_each(|p| file.read_exact_at(p, 0))
            })
        })
    };
    Ok((-read(1)? + read(PIECES)?, MESSAGES * (PIECES as u64 - 1)))
}

/// Answers every byte until the end of input. Returns the CPU time in ns, and the context switches.
fn answer(cpu: u32, from: OwnedFd, to: OwnedFd) -> io::Result<(i64, u64)> {
    process::set_affinity(&[cpu])?;
    let mut began = None;
    let mut byte = [0];
    while rustix::io::read(&from, &mut byte)? > 0 {
        // The thread is ready after the first turn.
        if began.is_none() {
            began = Some((clock::thread_cpu_ns(), switches_so_far()?));
        }
        rustix::io::write(&to, &byte)?;
    }
    let (cpu_ns, before) = began.unwrap_or_default();
    Ok((
        (clock::thread_cpu_ns() - cpu_ns) as i64,
        switches_so_far()? - before,
    ))
}

/// The context switches of this thread so far. On one CPU a woken thread may preempt its waker, which then
/// finds its answer at once.
fn switches_so_far() -> io::Result<u64> {
    let usage = process::thread_usage()?;
    Ok(usage.switches_voluntary + usage.switches_involuntary)
}

fn turn(to: &OwnedFd, from: &OwnedFd) -> io::Result<()> {
    let mut byte = [7];
    rustix::io::write(to, &byte)?;
    rustix::io::read(from, &mut byte)?;
    Ok(())
}

/// Two threads take turns by two pipes; the same calls by one thread cost less.
fn switches(own: u32, other: u32) -> Measured {
    process::set_affinity(&[own])?;
    let ((at_other, to_other), (at_own, to_own)) = (pipe()?, pipe()?);
    let (at_end, to_end) = pipe()?;
    let turns =
        |write: &OwnedFd, read: &OwnedFd| cpu_ns(|| (0..TURNS).try_for_each(|_| turn(write, read)));
    let calls_ns = turns(&to_end, &at_end)?;
    thread::scope(|scope| {
        let answering = limits::start(scope, || answer(other, at_other, to_own))?;
        turn(&to_other, &at_own)?;
        let before = switches_so_far()?;
        let own_ns = turns(&to_other, &at_own)?;
        let own_switches = switches_so_far()? - before;
        drop(to_other);
        let (other_ns, other_switches) = answering
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))?;
        let switches = own_switches + other_switches;
        Ok((own_ns + other_ns - 2 * calls_ns, switches))
    })
}

fn page_faults() -> Measured {
    let mut fresh = limits::empty_memory(FRESH_BYTES)?;
    let page = rustix::param::page_size();
    // A huge page would serve many writes with one fault of another cost.
    rustix::thread::disable_transparent_huge_pages(true)?;
    let before = process::thread_usage()?.faults_minor;
    let cpu_ns = cpu_ns(|| {
        let pages = fresh.spare_capacity_mut().iter_mut().step_by(page);
        for first in pages.take(PAGES) {
            black_box(first.write(7));
        }
        Ok(())
    })?;
    let faults = process::thread_usage()?.faults_minor - before;
    rustix::thread::disable_transparent_huge_pages(false)?;
    if faults < PAGES as u64 / 2 {
        return Err(io::Error::other("fresh memory came without faults"));
    }
    Ok((cpu_ns, faults))
}

fn copies(memory: &mut [u8]) -> Measured {
    let (from, to) = memory.split_at_mut(memory.len() / 2);
    let times = COPIED_BYTES / from.len();
    let cpu_ns = cpu_ns(|| {
        for _ in 0..times {
            to.copy_from_slice(black_box(from));
            black_box(&mut *to);
        }
        Ok(())
    })?;
    Ok((cpu_ns, (times * from.len()) as u64))
}

/// Copies memory that a thread on another CPU has just written.
fn copies_from(cpu: u32) -> Measured {
    let (to_writer, at_writer) = channel::<Vec<u8>>();
    let (to_reader, at_reader) = channel();
    thread::scope(|scope| {
        limits::start(scope, move || {
            process::set_affinity(&[cpu]).ok()?;
            for mut memory in at_writer {
                let next = memory[0].wrapping_add(1);
                memory.fill(next);
                to_reader.send(black_box(memory)).ok()?;
            }
            Some(())
        })?;
        let ended = |_| io::Error::other("the thread on the other CPU ended");
        let mut memory = vec![1; WRITTEN_BYTES];
        let mut copied = vec![0; WRITTEN_BYTES];
        let mut sum_ns = 0;
        for _ in 0..WRITTEN_TIMES {
            to_writer
                .send(memory)
                .map_err(|_| io::Error::other("the other CPU is not allowed"))?;
            memory = at_reader.recv().map_err(ended)?;
            sum_ns += cpu_ns(|| {
                copied.copy_from_slice(black_box(&memory));
                black_box(&mut copied);
                Ok(())
            })?;
        }
        drop(to_writer);
        Ok((sum_ns, (WRITTEN_TIMES * WRITTEN_BYTES) as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_measured_or_says_why_not() {
        let costs = measure(std::process::id(), ClockVerdict::Keeps);
        let events: Vec<Priced> = costs.iter().map(|c| c.event).collect();
        let rows: Vec<Priced> = PRICED.iter().map(|r| r.event).collect();
        assert_eq!(events, rows);
        for cost in &costs {
            let is_measured = !cost.trials.is_empty() && cost.trials.iter().all(|t| t.events > 0);
            assert!(cost.absent.is_some() != is_measured, "{cost:?}");
            let is_known = |t: &CostTrial| t.other_cpus_thousandths.is_some();
            assert!(cost.trials.iter().all(is_known), "{cost:?}");
        }
        let known = |event| costs.iter().any(|c| c.event == event && c.absent.is_none());
        for event in [Priced::SystemCall, Priced::CopyNear] {
            assert!(known(event), "{costs:?}");
        }
    }

    #[test]
    fn packets_have_no_cost_where_the_clock_leaves_them_out() {
        let costs = measure(std::process::id(), ClockVerdict::Loses);
        let packet = costs.iter().find(|c| c.event == Priced::Packet).unwrap();
        assert!(packet.absent.is_some() && packet.trials.is_empty());
    }
}
