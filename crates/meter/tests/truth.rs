//! The meters against work of known cost. No bound depends on how fast or how quiet the machine is.

use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bytecost_meter::{MachineMeter, Meter, ThreadMeter};
use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::{clock, process};

#[path = "../../../tests/lack.rs"]
mod lack;

use lack::{Lack, skipped};

const MS: u64 = 1_000_000;

fn measure(work: impl FnOnce() + Send) -> Readings {
    measure_after(|| (), work)
}

fn measure_after(before: impl FnOnce() + Send, work: impl FnOnce() + Send) -> Readings {
    thread::scope(|scope| {
        let measured = scope.spawn(|| {
            before();
            let mut meter = ThreadMeter::open();
            let start = meter.read_start();
            work();
            let end = meter.read_end();
            meter.difference(&start, &end)
        });
        measured.join().unwrap()
    })
}

fn had(readings: &Readings, counter: Counter) -> Option<u64> {
    match &readings[&counter] {
        Reading::Measured(n) => Some(*n),
        Reading::Absent { absent } => {
            skipped(Lack::Machine, format_args!("{}: {absent}", counter.name()));
            None
        }
    }
}

fn number(readings: &Readings, counter: Counter) -> u64 {
    had(readings, counter).unwrap_or_else(|| panic!("{} can always be had", counter.name()))
}

fn spin(cpu_ns: u64) {
    let until = clock::thread_cpu_ns() + cpu_ns;
    while clock::thread_cpu_ns() < until {}
}

#[test]
fn the_cpu_time_of_a_spinning_thread_is_read() {
    let readings = measure(|| spin(50 * MS));
    let cpu = number(&readings, Counter::CpuNs);
    assert!(cpu >= 50 * MS);
    // The CPU clock is read around the other, so that it sees some hundred ns more.
    assert!(cpu <= number(&readings, Counter::ElapsedNs) + MS);
    // getrusage gives whole µs, and is read around the CPU clock.
    let used = number(&readings, Counter::UserNs) + number(&readings, Counter::SystemNs);
    assert!(used + 4_000 >= cpu, "{used} of {cpu}");
    assert!(used <= cpu + 5 * MS, "{used} of {cpu}");
}

#[test]
fn a_sleeping_thread_uses_little_cpu_time() {
    let readings = measure(|| thread::sleep(Duration::from_millis(30)));
    assert!(number(&readings, Counter::ElapsedNs) >= 30 * MS);
    assert!(number(&readings, Counter::CpuNs) < 15 * MS);
}

#[test]
fn the_task_clock_is_the_time_on_a_cpu() {
    let readings = measure(|| {
        spin(30 * MS);
        thread::sleep(Duration::from_millis(30));
    });
    let Some(task) = had(&readings, Counter::TaskClockNs) else {
        return;
    };
    let cpu = number(&readings, Counter::CpuNs);
    // A hypervisor's share counts too: bounded below by CPU time, above by time not slept.
    assert!(task >= cpu / 100 * 97, "{task} of {cpu}");
    assert!(task <= number(&readings, Counter::ElapsedNs) - 29 * MS);
}

#[test]
fn every_wait_is_a_switch() {
    const SLEEPS: u64 = 50;
    let readings = measure(|| {
        for _ in 0..SLEEPS {
            // Long enough that hardly one is over before the thread has let go of its CPU.
            thread::sleep(Duration::from_millis(2));
        }
    });
    let waited = number(&readings, Counter::ContextSwitchesVoluntary);
    let taken_off = number(&readings, Counter::ContextSwitchesInvoluntary);
    // A thread that is taken off its CPU on its way to sleep may find that its time has come.
    assert!(waited + taken_off >= SLEEPS, "{waited} and {taken_off}");
    assert!(waited >= SLEEPS / 2, "{waited}");
    assert!(waited <= SLEEPS + 20, "{waited}");
}

#[test]
fn every_fresh_page_is_a_fault() {
    const PAGES: u64 = 1_000;
    const PAGE: usize = 4096;
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if huge.is_ok_and(|s| s.contains("[always]")) {
        return skipped(Lack::Machine, "transparent_hugepage is always");
    }
    // Above what an allocator keeps for later, so that its pages are fresh.
    let mut memory: Vec<u8> = Vec::with_capacity(48 << 20);
    let readings = measure(|| {
        for page in memory.spare_capacity_mut()[..PAGES as usize * PAGE].chunks_mut(PAGE) {
            black_box(page[0].write(1));
        }
    });
    let faults = number(&readings, Counter::PageFaultsMinor);
    // The allocator may have touched the first already.
    assert!((PAGES - 2..PAGES + 50).contains(&faults), "{faults}");
    assert_eq!(number(&readings, Counter::PageFaultsMajor), 0);
}

#[test]
fn moves_to_another_cpu_are_counted() {
    const MOVES: u64 = 20;
    let cpus = process::affinity().unwrap();
    let [one, other, ..] = cpus[..] else {
        return skipped(Lack::Machine, "one CPU");
    };
    let moving = measure(|| {
        for n in 0..MOVES {
            let cpu = if n % 2 == 0 { one } else { other };
            process::set_affinity(&[cpu]).unwrap();
        }
    });
    let Some(moved) = had(&moving, Counter::Migrations) else {
        return;
    };
    // The first may be to where it is, and the kernel may need a moment for the last.
    assert!((MOVES - 2..=MOVES + 1).contains(&moved), "{moved}");
    let held = || process::set_affinity(&[one]).unwrap();
    let staying = measure_after(held, || thread::sleep(Duration::from_millis(5)));
    assert_eq!(number(&staying, Counter::Migrations), 0);
}

#[test]
fn hardware_counts_are_of_the_window_or_have_a_reason() {
    const TURNS: u64 = 1_000_000;
    let readings = measure(|| {
        for turn in 0..TURNS {
            black_box(turn);
        }
    });
    for counter in [Counter::Instructions, Counter::Cycles, Counter::Branches] {
        if let Some(n) = had(&readings, counter) {
            assert!(n >= TURNS / 4, "{n} {}", counter.name());
        }
    }
    if let Reading::Absent { absent } = &readings[&Counter::Cycles] {
        assert!(absent.len() > 20, "a reason, not a word: {absent}");
    }
}

/// The machine's busy time in ns, its step, and the thread's own CPU time while it does this.
fn machine_busy(work: impl FnOnce()) -> Option<[u64; 3]> {
    let mut meter = MachineMeter::open(Path::new("/"));
    let start = meter.read_start();
    let cpu = clock::thread_cpu_ns();
    work();
    let cpu = clock::thread_cpu_ns() - cpu;
    let end = meter.read_end();
    let readings = meter.difference(&start, &end);
    let busy = had(&readings, Counter::MachineBusyNs)?;
    let step = had(&readings, Counter::MachineBusyResolutionNs)?;
    let cpus = had(&readings, Counter::MachineCpus)?;
    let capacity = cpus * had(&readings, Counter::MachineElapsedNs)?;
    assert!(busy <= capacity + (cpus + 3) * step, "{busy} of {capacity}");
    // The thread's clock goes on while a hypervisor has taken its CPU away.
    let stolen = had(&readings, Counter::MachineStealNs).unwrap_or(0);
    Some([busy + stolen, step, cpu])
}

#[test]
fn the_machine_is_at_least_as_busy_as_this_thread() {
    let in_step_with_the_tick = || {
        for _ in 0..300 {
            thread::sleep(Duration::from_micros(200));
            spin(MS / 10);
        }
    };
    let both = [
        machine_busy(|| spin(100 * MS)),
        machine_busy(in_step_with_the_tick),
    ];
    for [busy, step, cpu] in both.into_iter().flatten() {
        let text = format!("busy {busy} in steps of {step}, own {cpu}");
        println!("{text}");
        assert!(busy + 3 * step >= cpu, "{text}");
    }
}
