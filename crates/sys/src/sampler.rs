//! Samples of what each CPU is doing, with the kernel's call chain: perf_event_open(2) with a
//! ring of records that is mapped into this process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::ioctls;
use rustix::mm::ProtFlags;

use crate::mapping::Mapping;
use crate::perf::{open_event, word};
use crate::syscall::checked;

/// Pages of records of one CPU: a power of two, as the kernel asks. 256 KiB where a page has 4.
const RING_PAGES: usize = 64;
/// The longest record, in bytes: its length is a u16.
const MAX_RECORD_BYTES: usize = 1 << 16;
/// The most frames of a chain that are kept.
const MAX_FRAMES: usize = 128;
/// Marks in a chain, not addresses: from here on they tell whose frames follow (perf_event.h).
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
/// The most forks that are kept until somebody takes them.
const MOST_FORKS: usize = 1 << 20;

/// One look at a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The process that ran, 0 for an idle CPU; as this process's PID namespace numbers it.
    pub pid: u32,
    /// Addresses in the kernel, the innermost first; empty where the CPU was in user code.
    pub kernel_chain: &'a [u64],
}

/// Samples every CPU by its clock. Nothing is sampled before [`Sampler::enable`].
#[derive(Debug)]
pub struct Sampler {
    rings: Vec<Ring>,
    record: Vec<u8>,
    chain: Vec<u64>,
    forks: Vec<Fork>,
}

/// A process that another one has started while CPUs were sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The new one.
    pub pid: u32,
    /// Who started it.
    pub parent: u32,
}

impl Sampler {
    /// Opens a sampler of these CPUs, one look each `every_ns` of a CPU's time, idle or not. EACCES
    /// or EPERM where kernel.perf_event_paranoid is above 0 without CAP_PERFMON, or the rings
    /// exceed kernel.perf_event_mlock_kb; ENOENT or ENOSYS without perf events; `InvalidInput`
    /// without CPUs or time.
    pub fn open(cpus: &[u32], every_ns: u64) -> io::Result<Sampler> {
        if cpus.is_empty() || every_ns < 1_000 {
            let why = "a sampler needs CPUs, and at least 1 µs between two looks";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let rings: io::Result<Vec<Ring>> = cpus.iter().map(|c| Ring::open(*c, every_ns)).collect();
        Ok(Sampler {
            rings: rings?,
            record: vec![0; MAX_RECORD_BYTES],
            chain: Vec::with_capacity(MAX_FRAMES),
            forks: Vec::new(),
        })
    }

    /// Begins to sample.
    pub fn enable(&mut self) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| {
            // SAFETY: the descriptor is open and PERF_EVENT_IOC_ENABLE takes no pointer.
            checked(unsafe { ioctls::ENABLE(ring.event.as_raw_fd(), 0) }).map(drop)
        })
    }

    /// Ends sampling; what was sampled stays to be taken.
    pub fn disable(&mut self) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| {
            // SAFETY: the descriptor is open and PERF_EVENT_IOC_DISABLE takes no pointer.
            checked(unsafe { ioctls::DISABLE(ring.event.as_raw_fd(), 0) }).map(drop)
        })
    }

    /// Hands over what was sampled since the last call, and says how many looks found no room.
    pub fn take(&mut self, each: &mut dyn FnMut(Look<'_>)) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            while let Some(length) = ring.next(&mut self.record) {
                match parse(&self.record[..length], &mut self.chain) {
                    Some(Parsed::Look { pid }) => each(Look {
                        pid,
                        kernel_chain: &self.chain,
                    }),
                    Some(Parsed::Lost(n)) => lost += n,
                    Some(Parsed::Fork(fork)) if self.forks.len() < MOST_FORKS => {
                        self.forks.push(fork);
                    }
                    Some(Parsed::Fork(_)) | None => {}
                }
            }
        }
        lost
    }

    /// Processes started, as found by [`Sampler::take`] since the last time.
    pub fn forks(&mut self) -> Vec<Fork> {
        std::mem::take(&mut self.forks)
    }
}

#[derive(Debug)]
struct Ring {
    event: OwnedFd,
    /// One page of head, then the records.
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
        // A process that lives shorter than anyone could look at it is known by its start alone.
        attr.set_task(1);
        let number = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        let event = open_event(attr, [-1, number, -1])?;
        let page_bytes = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map = Mapping::shared(&event, 0, (1 + RING_PAGES) * page_bytes, protection)?;
        Ok(Ring {
            event,
            map,
            page_bytes,
        })
    }

    /// A field of perf_event_mmap_page: data_head or data_tail.
    fn edge(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping is a perf_event_mmap_page; data_head and
        // data_tail are aligned 64-bit fields of it, shared with the kernel as atomics are.
        unsafe { AtomicU64::from_ptr(self.map.start().add(offset).cast()) }
    }

    /// Moves the oldest record into `into`, and gives its length.
    fn next(&mut self, into: &mut [u8]) -> Option<usize> {
        let head = self
            .edge(std::mem::offset_of!(abi::perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        let tail_at = self.edge(std::mem::offset_of!(abi::perf_event_mmap_page, data_tail));
        let tail = tail_at.load(Ordering::Relaxed);
        let there = usize::try_from(head.wrapping_sub(tail)).ok()?;
        if there < RECORD_HEAD {
            return None;
        }
        self.copy(tail, &mut into[..RECORD_HEAD]);
        let length = usize::from(u16::from_ne_bytes([into[6], into[7]]));
        if length < RECORD_HEAD || length > there {
            // What the kernel writes never looks like this; nothing after it can be trusted.
            tail_at.store(head, Ordering::Release);
            return None;
        }
        self.copy(tail, &mut into[..length]);
        tail_at.store(tail + length as u64, Ordering::Release);
        Some(length)
    }

    fn copy(&self, from: u64, into: &mut [u8]) {
        let size = RING_PAGES * self.page_bytes;
        let at = (from % size as u64) as usize;
        let first = into.len().min(size - at);
        // SAFETY: `data` points to `size` readable bytes after the first page, `at < size`, and
        // both pieces stay within them; the kernel writes only beyond data_tail + size, so the
        // bytes up to data_head do not change.
        unsafe {
            let data = self.map.start().add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(at), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, into.as_mut_ptr().add(first), into.len() - first);
        }
    }
}

const RECORD_HEAD: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parsed {
    Look { pid: u32 },
    Lost(u64),
    Fork(Fork),
}

/// By perf_event_open(2). A look: the head, pid and tid, the count of the chain, the chain; a fork:
/// the head, the pid and its parent's. None for other kinds and for records that are too short.
fn parse(record: &[u8], chain: &mut Vec<u64>) -> Option<Parsed> {
    let word = |i| word(record, i);
    let half = |i: usize| -> Option<u32> {
        let bytes = record.get(i * 4..)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    match half(0)? {
        abi::PERF_RECORD_LOST => Some(Parsed::Lost(word(2)?)),
        // The start of a thread is told as well: both are of the same process then.
        abi::PERF_RECORD_FORK => {
            let (pid, parent) = (half(2)?, half(3)?);
            (pid != parent).then_some(Parsed::Fork(Fork { pid, parent }))
        }
        abi::PERF_RECORD_SAMPLE => {
            let pid = half(2)?;
            let frames = usize::try_from(word(2)?).ok()?;
            chain.clear();
            let mut of_kernel = false;
            for i in 0..frames {
                let address = word(i.checked_add(3)?)?;
                if address >= CONTEXT_MAX {
                    of_kernel = address == CONTEXT_KERNEL;
                } else if of_kernel && chain.len() < MAX_FRAMES {
                    chain.push(address);
                }
            }
            Some(Parsed::Look { pid })
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
    fn a_record_is_taken_apart() {
        const USER: u64 = -512_i64 as u64;
        let check = |record: &[u8], expected: Option<Parsed>, frames: &[u64]| {
            let mut chain = Vec::new();
            assert_eq!(parse(record, &mut chain), expected);
            if expected.is_some() {
                assert_eq!(chain, frames);
            }
        };
        let sample = abi::PERF_RECORD_SAMPLE;
        let ids = 7 | 8 << 32;
        let kernel = record(sample, &[ids, 3, CONTEXT_KERNEL, 0xa, 0xb]);
        check(&kernel, Some(Parsed::Look { pid: 7 }), &[0xa, 0xb]);
        let both = record(sample, &[ids, 4, CONTEXT_KERNEL, 0xa, USER, 0xc]);
        check(&both, Some(Parsed::Look { pid: 7 }), &[0xa]);
        let user = record(sample, &[ids, 2, USER, 0xc]);
        check(&user, Some(Parsed::Look { pid: 7 }), &[]);
        check(&record(sample, &[ids, 3, CONTEXT_KERNEL, 0xa]), None, &[]);
        check(&record(sample, &[ids, u64::MAX]), None, &[]);
        check(&record(sample, &[ids]), None, &[]);
        let lost = record(abi::PERF_RECORD_LOST, &[1, 42]);
        check(&lost, Some(Parsed::Lost(42)), &[]);
        check(&record(abi::PERF_RECORD_COMM, &[1, 2, 3]), None, &[]);
        let fork = |pid: u64, parent: u64| {
            record(
                abi::PERF_RECORD_FORK,
                &[pid | parent << 32, pid | parent << 32, 5],
            )
        };
        let known = Fork { pid: 8, parent: 7 };
        check(&fork(8, 7), Some(Parsed::Fork(known)), &[]);
        check(&fork(7, 7), None, &[]);
        check(&fork(8, 7)[..12], None, &[]);
        check(&kernel[..7], None, &[]);
        check(&[], None, &[]);
    }

    fn cpus() -> Vec<u32> {
        (0..std::thread::available_parallelism().unwrap().get() as u32).collect()
    }

    #[test]
    fn the_looks_at_a_busy_process_add_up_to_its_cpu_time() {
        const EVERY_NS: u64 = 250_000;
        let mut sampler = match Sampler::open(&cpus(), EVERY_NS) {
            Ok(sampler) => sampler,
            Err(e) => return skipped(Lack::Right, format_args!("CPUs are not sampled: {e}")),
        };
        // What takes the machine away for a while is one look and much CPU time.
        let until = Instant::now() + Duration::from_secs(60);
        let mut found = do_not_add_up(&mut sampler, EVERY_NS);
        while found.is_some() && Instant::now() < until {
            found = do_not_add_up(&mut sampler, EVERY_NS);
        }
        assert_eq!(found, None);
        assert_eq!(sampler.take(&mut |_| panic!("taken twice")), 0);
    }

    /// What is wrong with the looks at this process while it reads zeros; none where they add up.
    fn do_not_add_up(sampler: &mut Sampler, every_ns: u64) -> Option<String> {
        let me = std::process::id();
        sampler.enable().unwrap();
        let from = clock::thread_cpu_ns();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut buffer = vec![0; 1 << 20];
        let (mut mine, mut in_kernel, mut lost) = (0, 0, 0);
        let mut take = |sampler: &mut Sampler| {
            lost += sampler.take(&mut |look| {
                if look.pid == me {
                    mine += 1;
                    in_kernel += u64::from(!look.kernel_chain.is_empty());
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
        // Other threads of the tests run in this process too, so that there may be more. What was
        // lost while this one was kept waiting is told. Reading zeros is the kernel's work.
        let counted_ns = (mine + lost) * every_ns;
        let adds_up = counted_ns >= cpu_ns / 2 && mine > lost && in_kernel > 0;
        (!adds_up).then(|| {
            format!("{counted_ns} of {cpu_ns} ns, {lost} lost, {in_kernel} looks in the kernel")
        })
    }

    #[test]
    fn who_started_a_process_is_known_when_it_is_gone() {
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
    fn what_nobody_takes_is_counted_as_lost() {
        let Ok(mut sampler) = Sampler::open(&[0], 10_000) else {
            return skipped(Lack::Right, "CPUs are not sampled");
        };
        sampler.enable().unwrap();
        let (mut looks, mut lost) = (0_u64, 0);
        // A kernel that found its interrupts too long looks more seldom.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(300));
            lost += sampler.take(&mut |_| looks += 1);
            std::thread::sleep(Duration::from_millis(20));
            // The kernel tells what was lost when there is room again.
            lost += sampler.take(&mut |_| looks += 1);
            if looks + lost > 1_000 {
                break;
            }
        }
        assert!(looks > 0);
        assert!(looks + lost > 1_000, "{looks} looks and {lost} lost");
    }

    #[test]
    fn a_sampler_without_cpus_or_time_is_refused() {
        assert!(Sampler::open(&[], 1_000_000).is_err());
        assert!(Sampler::open(&[0], 0).is_err());
        assert!(Sampler::open(&[u32::MAX], 1_000_000).is_err());
    }
}
