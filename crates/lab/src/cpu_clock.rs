//! A test of a thread's CPU clock: is the time of interrupts in it?
//!
//! Packets over loopback are received in softirq, within the sender's own system call. With
//! CONFIG_IRQ_TIME_ACCOUNTING (`update_rq_clock_task`, kernel/sched/core.c) that is not in the
//! thread's CPU time, so a thread that does nothing else has less of it than time has passed.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use bytecost_host::Roots;
use bytecost_spec::survey::CpuClock;
use bytecost_sys::{clock, process};

use crate::limits;

/// Tries that count. The quickest of them is the result, since every disturbance makes one longer.
const TRIES: u32 = 10;
/// Tries in all, of which those with a context switch do not count.
const MOST_TRIES: u32 = 60;
/// Datagrams of one try: they take less than 1 ms, which is less than a time slice of the scheduler.
const DATAGRAMS: u32 = 200;
/// The longest time for a datagram.
const TIMEOUT: Duration = Duration::from_secs(1);

trait Clocks {
    fn elapsed_ns(&mut self) -> u64;
    fn cpu_ns(&mut self) -> u64;
    fn switches(&mut self) -> io::Result<u64>;
    fn exchange(&mut self) -> io::Result<()>;
}

/// Tests the CPU clock in a new thread that is pinned to one CPU; takes a few ms.
pub fn test(roots: &Roots) -> CpuClock {
    let tried = thread::scope(|scope| {
        let tested = limits::start(scope, || {
            process::set_affinity(&[process::current_cpu()])?;
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(socket.local_addr()?)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            best_of(&mut Loopback(socket))
        })?;
        let panicked = |_| Err(io::Error::other("the thread panicked"));
        tested.join().unwrap_or_else(panicked)
    });
    let mut clock = tried.unwrap_or_else(|e| CpuClock {
        failed: Some(format!("sending to oneself over loopback failed: {e}")),
        ..CpuClock::default()
    });
    // Without a try that counts, the kernel's configuration decides.
    if clock.tries == 0 {
        clock.configured = bytecost_host::accounts_for_interrupts(roots);
    }
    clock
}

/// The quickest try of those without a context switch. Time that a hypervisor takes unseen is in both clocks
/// and would hide a loss; steal time that it reports is in the elapsed time alone and would look like a loss.
/// Both make a try longer.
fn best_of(clocks: &mut impl Clocks) -> io::Result<CpuClock> {
    let mut best = CpuClock::default();
    for _ in 0..MOST_TRIES {
        let switches = clocks.switches()?;
        // The CPU clock is read within the elapsed time, so that their ratio is at most 1.
        let began_ns = clocks.elapsed_ns();
        let began_cpu_ns = clocks.cpu_ns();
        for _ in 0..DATAGRAMS {
            clocks.exchange()?;
        }
        let cpu_ns = clocks.cpu_ns() - began_cpu_ns;
        let elapsed_ns = clocks.elapsed_ns() - began_ns;
        if clocks.switches()? != switches {
            continue;
        }
        best.tries += 1;
        if best.tries == 1 || elapsed_ns < best.elapsed_ns {
            (best.elapsed_ns, best.cpu_ns) = (elapsed_ns, cpu_ns);
        }
        if best.tries == TRIES {
            break;
        }
    }
    Ok(best)
}

struct Loopback(UdpSocket);

impl Clocks for Loopback {
    fn elapsed_ns(&mut self) -> u64 {
        clock::monotonic_ns()
    }

    fn cpu_ns(&mut self) -> u64 {
        clock::thread_cpu_ns()
    }

    fn switches(&mut self) -> io::Result<u64> {
        let usage = process::thread_usage()?;
        Ok(usage.switches_voluntary + usage.switches_involuntary)
    }

    fn exchange(&mut self) -> io::Result<()> {
        self.0.send(&[0])?;
        self.0.recv(&mut [0])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};
    use bytecost_spec::survey::ClockVerdict;

    /// A datagram takes 2 µs, of which softirq has some, and some tries are disturbed.
    struct Fake {
        softirq_ns: u64,
        loses: bool,
        /// Of a try, from 0: whether it has a context switch, with 1 ms off the CPU, and whether a
        /// hypervisor takes the CPU away, seen and unseen.
        disturbed: fn(u64) -> [bool; 3],
        exchanges: u64,
        now: [u64; 3],
    }

    impl Fake {
        fn new(loses: bool) -> Fake {
            Fake {
                softirq_ns: 500,
                loses,
                disturbed: |_| [false; 3],
                exchanges: 0,
                now: [7, 3, 1],
            }
        }
    }

    impl Clocks for Fake {
        fn elapsed_ns(&mut self) -> u64 {
            self.now[0]
        }
        fn cpu_ns(&mut self) -> u64 {
            self.now[1]
        }
        fn switches(&mut self) -> io::Result<u64> {
            Ok(self.now[2])
        }
        fn exchange(&mut self) -> io::Result<()> {
            let datagrams = u64::from(DATAGRAMS);
            let first = self.exchanges.is_multiple_of(datagrams);
            let disturbed = (self.disturbed)(self.exchanges / datagrams);
            let [switched, stolen, unseen] = disturbed.map(|is_so| u64::from(first && is_so));
            let lost_ns = if self.loses { self.softirq_ns } else { 0 };
            self.now[0] += 2000 + 1_000_000 * (switched + stolen) + 9_000_000 * unseen;
            self.now[1] += 2000 - lost_ns + 9_000_000 * unseen;
            self.now[2] += switched;
            self.exchanges += 1;
            Ok(())
        }
    }

    #[track_caller]
    fn check(mut fake: Fake, expected: ClockVerdict, tries: u32) -> CpuClock {
        let clock = best_of(&mut fake).unwrap();
        assert_eq!((clock.verdict(), clock.tries), (expected, tries));
        clock
    }

    #[test]
    fn a_clock_that_loses_softirq_is_found() {
        let lost = check(Fake::new(true), ClockVerdict::Loses, TRIES);
        assert_eq!(lost.ratio(), Some(0.75));
        let kept = check(Fake::new(false), ClockVerdict::Keeps, TRIES);
        assert_eq!(kept.ratio(), Some(1.0));
        let mut slight = Fake::new(true);
        slight.softirq_ns = 50;
        check(slight, ClockVerdict::Keeps, TRIES);
    }

    #[test]
    fn what_disturbs_a_try_changes_nothing() {
        for (loses, expected) in [(true, ClockVerdict::Loses), (false, ClockVerdict::Keeps)] {
            let mut fake = Fake::new(loses);
            fake.disturbed = |n| [n % 3 != 0, n % 2 == 0, n % 5 == 0];
            check(fake, expected, TRIES);
            // A thread that is always taken off its CPU has no result.
            let mut preempted = Fake::new(loses);
            preempted.disturbed = |_| [true, false, false];
            let clock = check(preempted, ClockVerdict::Unknown, 0);
            assert_eq!(clock.ratio(), None);
        }
    }

    /// In a guest the kernel's own configuration is the truth; a boot option may have it off.
    #[test]
    fn this_machine_s_clock_is_what_its_kernel_was_built_for() {
        let clock = test(&Roots::real());
        println!("{clock:?}, {:?}", clock.ratio());
        assert_eq!(clock.failed, None);
        let configured = bytecost_host::accounts_for_interrupts(&Roots::real());
        let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        match (clock.ratio(), configured) {
            (Some(ratio), Some(true)) if !line.contains("noirqtime") => {
                assert!(ratio < 0.97, "{ratio}");
            }
            (Some(ratio), Some(_)) => assert!(ratio >= 0.97, "{ratio}"),
            _ => skipped(
                Lack::Machine,
                format_args!("{configured:?}, {} tries", clock.tries),
            ),
        }
    }
}
