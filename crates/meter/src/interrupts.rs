//! The CPU time of interrupts on the CPU to which a thread is pinned.

use std::fs::File;
use std::path::Path;

use bytecost_spec::Reading;
use bytecost_sys::clock;

use crate::{increase_if_read, proc_text};

/// The longest line of /proc/stat that is read, in bytes: ten numbers of 64 bits, and a name.
const LINE_BYTES: usize = 232;

/// The fields irq and softirq of one CPU in /proc/stat. Their unit is 10 ms, but the kernel sums ns: the
/// error of a difference is at most one unit.
#[derive(Debug)]
pub(crate) struct Interrupts {
    stat: Option<File>,
    cpu: u32,
    /// Buffer for the lines up to that of the CPU, which are in the order of CPUs.
    buffer: Vec<u8>,
}

impl Interrupts {
    pub(crate) fn open(root: &Path, cpu: u32) -> Interrupts {
        Interrupts {
            stat: File::open(root.join("proc/stat")).ok(),
            cpu,
            buffer: vec![0; (cpu as usize + 2) * LINE_BYTES],
        }
    }

    /// The sum of both fields, in units of /proc/stat; none if it cannot be read.
    pub(crate) fn read(&mut self) -> Option<u64> {
        let text = proc_text::reread(self.stat.as_ref()?, &mut self.buffer)?;
        proc_text::interrupts(text, self.cpu)
    }

    /// The increase between two reads, in ns; absent if one of them failed.
    pub(crate) fn increase(start: Option<u64>, end: Option<u64>) -> Reading {
        let unread = "/proc/stat does not tell the interrupts of the thread's CPU here";
        match increase_if_read(start, end, unread) {
            Reading::Measured(n) => Reading::Measured(n.saturating_mul(clock::proc_stat_unit_ns())),
            absent => absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::put;

    #[test]
    fn the_interrupts_are_those_of_one_cpu() {
        let root = tempfile::tempdir().unwrap();
        let put_stat = |irq: u64, softirq: u64| {
            let text = format!(
                "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n\
                 cpu1 1 2 3 4 5 {irq} {softirq} 8 0 0\ncpu12 1 2 3 4 5 70 80 8 0 0\nintr 5\n"
            );
            put(root.path(), "proc/stat", &text);
        };
        let unit = clock::proc_stat_unit_ns();
        put_stat(10, 20);
        let mut one = Interrupts::open(root.path(), 1);
        let start = one.read();
        assert_eq!(start, Some(30));
        put_stat(11, 24);
        let increase = Interrupts::increase(start, one.read());
        assert_eq!(increase, Reading::Measured(5 * unit));
        assert_eq!(Interrupts::open(root.path(), 12).read(), Some(150));
        let no_cpu = Interrupts::open(root.path(), 2).read();
        assert_eq!(no_cpu, None);
        assert_eq!(Interrupts::increase(start, no_cpu).measured(), None);
    }

    #[test]
    fn the_interrupts_of_the_last_cpu_are_read_too() {
        let last = *bytecost_sys::process::affinity().unwrap().last().unwrap();
        assert!(Interrupts::open(Path::new("/"), last).read().is_some());
    }
}
