//! Samples of the process and the kernel call chain on each CPU: perf_event_open(2) with a mapped ring
//! buffer of records.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::ioctls;
use rustix::mm::ProtFlags;

use crate::mapping::Mapping;
use crate::perf::{EventTarget, open_event, word};
use crate::syscall::checked;

/// Pages of the ring of one CPU: a power of two, as the kernel demands. 256 KiB with pages of 4 KiB.
const RING_PAGES: usize = 64;
/// The shortest time between two samples of a CPU. Where a sample takes longer than the time to the next,
/// the CPU does nothing else, and the kernel finds it locked up: seen at 10 µs on a busy virtual CPU.
const SHORTEST_NS: u64 = 50_000;
/// The longest record, in bytes: its length is a u16.
const MAX_RECORD_BYTES: usize = 1 << 16;
/// The most frames of a sample's kernel call chain that are kept.
const MAX_FRAMES: usize = 128;
/// PERF_CONTEXT_MAX of perf_event.h: larger values of a chain, and this one, are marks, not addresses. A
/// mark shows that the frames after it are of the kernel, of user code, or of a guest.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
/// PERF_CONTEXT_KERNEL of perf_event.h: the mark before frames of the kernel.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
/// The most forks that are kept until [`Sampler::forks`] takes them.
const MOST_FORKS: usize = 1 << 20;

/// One sample of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuSample<'a> {
    /// The process that was running, 0 for an idle CPU; by its number in this process's PID namespace.
    pub pid: u32,
    /// Addresses in the kernel, the innermost first; empty if the CPU was in user mode.
    pub kernel_chain: &'a [u64],
}

/// A sampler of CPUs by their clocks (PERF_COUNT_SW_CPU_CLOCK), which takes samples between
/// [`Sampler::enable`] and [`Sampler::disable`].
#[derive(Debug)]
pub struct Sampler {
    /// The rings of the CPUs, one each.
    rings: Vec<Ring>,
    /// Buffer for the record that is parsed.
    record: Vec<u8>,
    /// Buffer for the kernel call chain of that record.
    chain: Vec<u64>,
    /// Forks until [`Sampler::forks`] takes them.
    forks: Vec<Fork>,
}

/// The start of a process while CPUs were sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The new process.
    pub pid: u32,
    /// The process that started it.
    pub parent: u32,
}

impl Sampler {
    /// Opens a sampler of these CPUs, with one sample for each `every_ns` of a CPU's time, busy or idle.
    ///
    /// # Errors
    /// EACCES or EPERM if kernel.perf_event_paranoid is above 0 without CAP_PERFMON, or the rings exceed
    /// kernel.perf_event_mlock_kb; ENOENT or ENOSYS without perf events; `InvalidInput` without CPUs, or
    /// for an interval below 50 µs.
    pub fn open(cpus: &[u32], every_ns: u64) -> io::Result<Sampler> {
        if cpus.is_empty() || every_ns < SHORTEST_NS {
            let why = "a sampler needs CPUs, and at least 50 µs between two looks";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let rings = (cpus.iter())
            .map(|cpu| Ring::open(*cpu, every_ns))
            .collect::<io::Result<Vec<Ring>>>()?;
        Ok(Sampler {
            rings,
            record: vec![0; MAX_RECORD_BYTES],
            chain: Vec::with_capacity(MAX_FRAMES),
            forks: Vec::new(),
        })
    }

    /// Begins sampling.
    pub fn enable(&mut self) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| {
            // SAFETY: the descriptor is open and PERF_EVENT_IOC_ENABLE takes no pointer.
            checked(unsafe { ioctls::ENABLE(ring.event.as_raw_fd(), 0) }).map(drop)
        })
    }

    /// Ends sampling; [`Sampler::take`] still gives the samples so far.
    pub fn disable(&mut self) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| {
            // SAFETY: the descriptor is open and PERF_EVENT_IOC_DISABLE takes no pointer.
            checked(unsafe { ioctls::DISABLE(ring.event.as_raw_fd(), 0) }).map(drop)
        })
    }

    /// Calls `visit` with the samples since the last call, and returns the number of samples that were
    /// lost because a ring was full.
    pub fn take(&mut self, visit: &mut dyn FnMut(CpuSample<'_>)) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            while let Some(length) = ring.next(&mut self.record) {
                match parse(&self.record[..length], &mut self.chain) {
                    Some(Record::Sample { pid }) => visit(CpuSample {
                        pid,
                        kernel_chain: &self.chain,
                    }),
                    Some(Record::Lost(n)) => lost += n,
                    Some(Record::Fork(fork)) if self.forks.len() < MOST_FORKS => {
                        self.forks.push(fork);
                    }
                    Some(Record::Fork(_)) | None => {}
                }
            }
        }
        lost
    }

    /// Takes the starts of processes that [`Sampler::take`] has found since the last call.
    pub fn forks(&mut self) -> Vec<Fork> {
        std::mem::take(&mut self.forks)
    }
}

/// The event of one CPU, and the buffer into which the kernel writes its records.
#[derive(Debug)]
struct Ring {
    event: OwnedFd,
    /// A perf_event_mmap_page, then the pages of records.
    map: Mapping,
    page_bytes: usize,
}

impl Ring {
    fn open(cpu: u32, every_ns: u64) -> io::Result<Ring> {
        let mut attr = abi::perf_event_attr {
            type_: abi::PERF_TYPE_SOFTWARE,
            config: abi::PERF_COUNT_SW_CPU_CLOCK.into(),
            sample_type: u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_CALLCHAIN),
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_period = every_ns;
        attr.set_disabled(1);
        attr.set_exclude_callchain_user(1);
        // A process that is too short-lived to be sampled is known by its fork record alone.
        attr.set_task(1);
        let number = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        let event = open_event(
            attr,
            EventTarget {
                pid: -1,
                cpu: number,
                leader: -1,
            },
        )?;
        let page_bytes = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map = Mapping::shared(&event, 0, (1 + RING_PAGES) * page_bytes, protection)?;
        Ok(Ring {
            event,
            map,
            page_bytes,
        })
    }

    /// A position in the ring, by the offset of its field of perf_event_mmap_page: data_head or
    /// data_tail.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping is a perf_event_mmap_page; data_head and
        // data_tail are aligned 64-bit fields of it, shared with the kernel as atomics are.
        unsafe { AtomicU64::from_ptr(self.map.start().add(offset).cast()) }
    }

    /// Moves the oldest record into `into`, and gives its length.
    fn next(&mut self, into: &mut [u8]) -> Option<usize> {
        let head = self
            .position(std::mem::offset_of!(abi::perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        let tail_field = self.position(std::mem::offset_of!(abi::perf_event_mmap_page, data_tail));
        let tail = tail_field.load(Ordering::Relaxed);
        let available = usize::try_from(head.wrapping_sub(tail)).ok()?;
        if available < RECORD_HEAD {
            return None;
        }
        self.copy(tail, &mut into[..RECORD_HEAD]);
        let length = usize::from(u16::from_ne_bytes([into[6], into[7]]));
        if length < RECORD_HEAD || length > available {
            // The kernel never writes such a length; nothing after it can be trusted.
            tail_field.store(head, Ordering::Release);
            return None;
        }
        self.copy(tail, &mut into[..length]);
        tail_field.store(tail + length as u64, Ordering::Release);
        Some(length)
    }

    /// Copies bytes from a position of the ring, which wraps.
    fn copy(&self, position: u64, into: &mut [u8]) {
        let size = RING_PAGES * self.page_bytes;
        let offset = (position % size as u64) as usize;
        let first = into.len().min(size - offset);
        // SAFETY: `data` points to `size` readable bytes after the first page, `offset < size`, and
        // both pieces stay within them; the kernel writes only beyond data_tail + size, so the
        // bytes up to data_head do not change.
        unsafe {
            let data = self.map.start().add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(offset), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, into.as_mut_ptr().add(first), into.len() - first);
        }
    }
}

/// Bytes of the header of a record: type, flags, length.
const RECORD_HEAD: usize = 8;

/// A parsed record of a ring, without the call chain of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Sample { pid: u32 },
    Lost(u64),
    Fork(Fork),
}

/// Parses the bytes of a record (perf_event_open(2)), and writes the kernel call chain of a sample into
/// `chain`. A sample has the header, pid and tid, the length of the chain, and the chain; a fork has the
/// header, the pid and the pid of its parent. None for other types and for records that are too short.
fn parse(record: &[u8], chain: &mut Vec<u64>) -> Option<Record> {
    let word = |i| word(record, i);
    let half_word = |i: usize| -> Option<u32> {
        let bytes = record.get(i * 4..)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    match half_word(0)? {
        abi::PERF_RECORD_LOST => Some(Record::Lost(word(2)?)),
        // The start of a thread has such a record as well, in which both pids are equal.
        abi::PERF_RECORD_FORK => {
            let (pid, parent) = (half_word(2)?, half_word(3)?);
            (pid != parent).then_some(Record::Fork(Fork { pid, parent }))
        }
        abi::PERF_RECORD_SAMPLE => {
            let pid = half_word(2)?;
            let frames = usize::try_from(word(2)?).ok()?;
            chain.clear();
            let mut in_kernel = false;
            for i in 0..frames {
                let address = word(i.checked_add(3)?)?;
                if address >= CONTEXT_MAX {
                    in_kernel = address == CONTEXT_KERNEL;
                } else if in_kernel && chain.len() < MAX_FRAMES {
                    chain.push(address);
                }
            }
            Some(Record::Sample { pid })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::lack::{Lack, skipped};
    use std::time::{Duration, Instant};

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let length = 8 + 8 * words.len() as u64;
        let head = u64::from(kind) | length << 48;
        std::iter::once(&head)
            .chain(words)
            .flat_map(|w| w.to_ne_bytes())
            .collect()
    }

    #[test]
    fn records_are_parsed() {
        const USER: u64 = -512_i64 as u64;
        let check = |record: &[u8], expected: Option<Record>, frames: &[u64]| {
            let mut chain = Vec::new();
            assert_eq!(parse(record, &mut chain), expected);
            if expected.is_some() {
                assert_eq!(chain, frames);
            }
        };
        let sample = abi::PERF_RECORD_SAMPLE;
        let ids = 7 | 8 << 32;
        let kernel = record(sample, &[ids, 3, CONTEXT_KERNEL, 0xa, 0xb]);
        check(&kernel, Some(Record::Sample { pid: 7 }), &[0xa, 0xb]);
        let both = record(sample, &[ids, 4, CONTEXT_KERNEL, 0xa, USER, 0xc]);
        check(&both, Some(Record::Sample { pid: 7 }), &[0xa]);
        let user = record(sample, &[ids, 2, USER, 0xc]);
        check(&user, Some(Record::Sample { pid: 7 }), &[]);
        check(&record(sample, &[ids, 3, CONTEXT_KERNEL, 0xa]), None, &[]);
        check(&record(sample, &[ids, u64::MAX]), None, &[]);
        check(&record(sample, &[ids]), None, &[]);
        let lost = record(abi::PERF_RECORD_LOST, &[1, 42]);
        check(&lost, Some(Record::Lost(42)), &[]);
        check(&record(abi::PERF_RECORD_COMM, &[1, 2, 3]), None, &[]);
        let fork = |pid: u64, parent: u64| {
            record(
                abi::PERF_RECORD_FORK,
                &[pid | parent << 32, pid | parent << 32, 5],
            )
        };
        let known = Fork { pid: 8, parent: 7 };
        check(&fork(8, 7), Some(Record::Fork(known)), &[]);
        check(&fork(7, 7), None, &[]);
        check(&fork(8, 7)[..12], None, &[]);
        check(&kernel[..7], None, &[]);
        check(&[], None, &[]);
    }

    fn cpus() -> Vec<u32> {
        (0..std::thread::available_parallelism().unwrap().get() as u32).collect()
    }

    #[test]
    fn the_samples_of_a_busy_process_add_up_to_its_cpu_time() {
        const EVERY_NS: u64 = 250_000;
        let mut sampler = match Sampler::open(&cpus(), EVERY_NS) {
            Ok(sampler) => sampler,
            Err(e) => return skipped(Lack::Right, format_args!("CPUs are not sampled: {e}")),
        };
        // While a hypervisor stops the machine, much CPU time has one sample: so it is tried again.
        let until = Instant::now() + Duration::from_secs(60);
        let mut found = mismatch(&mut sampler, EVERY_NS);
        while found.is_some() && Instant::now() < until {
            found = mismatch(&mut sampler, EVERY_NS);
        }
        assert_eq!(found, None);
        assert_eq!(sampler.take(&mut |_| panic!("taken twice")), 0);
    }

    /// The difference between the samples of this process, while it reads zeros, and its CPU time; none
    /// if they agree.
    fn mismatch(sampler: &mut Sampler, every_ns: u64) -> Option<String> {
        let me = std::process::id();
        sampler.enable().unwrap();
        let from = clock::thread_cpu_ns();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut buffer = vec![0; 1 << 20];
        let (mut mine, mut in_kernel, mut lost) = (0, 0, 0);
        let mut take = |source: &mut Sampler| {
            lost += source.take(&mut |sample| {
                if sample.pid == me {
                    mine += 1;
                    in_kernel += u64::from(!sample.kernel_chain.is_empty());
                }
            });
        };
        while clock::thread_cpu_ns() < from + 200_000_000 {
            rustix::io::read(&zero, &mut buffer).unwrap();
            take(sampler);
        }
        let cpu_ns = clock::thread_cpu_ns() - from;
        sampler.disable().unwrap();
        take(sampler);
        // Other threads of the tests run in this process, so that there may be more samples. Those
        // lost while this thread waited are counted. Reading zeros is the kernel's work.
        let counted_ns = (mine + lost) * every_ns;
        let adds_up = counted_ns >= cpu_ns / 2 && mine > lost && in_kernel > 0;
        (!adds_up).then(|| {
            format!("{counted_ns} of {cpu_ns} ns, {lost} lost, {in_kernel} samples in the kernel")
        })
    }

    #[test]
    fn the_parent_of_a_process_is_known_after_its_end() {
        let Ok(mut sampler) = Sampler::open(&cpus(), 1_000_000) else {
            return skipped(Lack::Right, "CPUs are not sampled");
        };
        sampler.enable().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let known = Fork {
            pid: child.id(),
            parent: std::process::id(),
        };
        child.wait().unwrap();
        sampler.disable().unwrap();
        sampler.take(&mut |_| {});
        assert!(sampler.forks().contains(&known));
        assert!(sampler.forks().is_empty());
    }

    #[test]
    fn samples_that_do_not_fit_are_counted_as_lost() {
        let Ok(mut sampler) = Sampler::open(&[0], 2 * SHORTEST_NS) else {
            return skipped(Lack::Right, "CPUs are not sampled");
        };
        sampler.enable().unwrap();
        let (mut taken, mut lost) = (0_u64, 0);
        // A kernel that finds its interrupts too long samples less often.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(600));
            lost += sampler.take(&mut |_| taken += 1);
            std::thread::sleep(Duration::from_millis(20));
            // The kernel reports lost samples when there is room again.
            lost += sampler.take(&mut |_| taken += 1);
            if taken + lost > 1_000 {
                break;
            }
        }
        assert!(taken > 0);
        assert!(taken + lost > 1_000, "{taken} taken and {lost} lost");
    }

    #[test]
    fn a_sampler_without_cpus_or_time_is_refused() {
        assert!(Sampler::open(&[], 1_000_000).is_err());
        assert!(Sampler::open(&[0], SHORTEST_NS - 1).is_err());
        assert!(Sampler::open(&[u32::MAX], 1_000_000).is_err());
    }
}
