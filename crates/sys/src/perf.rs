//! Performance counters of the calling thread, or also of the threads and processes that it starts,
//! perf_event_open(2).
//!
//! The kernel puts a group on the CPU as a whole or not at all, so that its counts are of the same
//! instructions. They are complete if the group was running for all the time for which it was enabled.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::io::Errno;

use crate::syscall::{checked, new_fd};

/// The most events of one [`Group`].
pub const MAX_EVENTS: usize = 8;

/// Bytes of a read of a full group: three words of head, then a value and an id each.
const MAX_READ_BYTES: usize = (3 + 2 * MAX_EVENTS) * 8;

/// An event that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PerfEvent {
    /// PERF_COUNT_HW_CPU_CYCLES
    Cycles,
    /// PERF_COUNT_HW_INSTRUCTIONS, retired.
    Instructions,
    /// Loads that missed the first level data cache.
    L1dLoadMisses,
    /// Loads that missed the last level cache.
    LlcLoadMisses,
    /// PERF_COUNT_HW_BRANCH_INSTRUCTIONS, retired.
    Branches,
    /// PERF_COUNT_HW_BRANCH_MISSES
    BranchMisses,
    /// PERF_COUNT_HW_BUS_CYCLES
    BusCycles,
    /// PERF_COUNT_HW_CACHE_MISSES: usually those of the last level.
    CacheMisses,
    /// PERF_COUNT_SW_TASK_CLOCK: ns for which the thread was on a CPU.
    TaskClock,
    /// PERF_COUNT_SW_CONTEXT_SWITCHES: counted in the kernel.
    ContextSwitches,
    /// PERF_COUNT_SW_CPU_MIGRATIONS: counted in the kernel.
    CpuMigrations,
}

impl PerfEvent {
    /// Returns true if the CPU counts it, not the kernel.
    pub fn is_hardware(self) -> bool {
        !matches!(
            self,
            PerfEvent::TaskClock | PerfEvent::ContextSwitches | PerfEvent::CpuMigrations
        )
    }

    /// The fields `type` and `config` of perf_event_attr.
    fn code(self) -> (u32, u64) {
        use abi::{PERF_TYPE_HARDWARE as HARDWARE, PERF_TYPE_SOFTWARE as SOFTWARE};
        let cache_load_misses = |cache: u32| {
            let operation = abi::PERF_COUNT_HW_CACHE_OP_READ << 8;
            let result = abi::PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
            (abi::PERF_TYPE_HW_CACHE, cache | operation | result)
        };
        let (kind, config) = match self {
            PerfEvent::Cycles => (HARDWARE, abi::PERF_COUNT_HW_CPU_CYCLES),
            PerfEvent::Instructions => (HARDWARE, abi::PERF_COUNT_HW_INSTRUCTIONS),
            PerfEvent::L1dLoadMisses => cache_load_misses(abi::PERF_COUNT_HW_CACHE_L1D),
            PerfEvent::LlcLoadMisses => cache_load_misses(abi::PERF_COUNT_HW_CACHE_LL),
            PerfEvent::Branches => (HARDWARE, abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
            PerfEvent::BranchMisses => (HARDWARE, abi::PERF_COUNT_HW_BRANCH_MISSES),
            PerfEvent::BusCycles => (HARDWARE, abi::PERF_COUNT_HW_BUS_CYCLES),
            PerfEvent::CacheMisses => (HARDWARE, abi::PERF_COUNT_HW_CACHE_MISSES),
            PerfEvent::TaskClock => (SOFTWARE, abi::PERF_COUNT_SW_TASK_CLOCK),
            PerfEvent::ContextSwitches => (SOFTWARE, abi::PERF_COUNT_SW_CONTEXT_SWITCHES),
            PerfEvent::CpuMigrations => (SOFTWARE, abi::PERF_COUNT_SW_CPU_MIGRATIONS),
        };
        (kind, u64::from(config))
    }

    fn attributes(self, scope: Scope) -> abi::perf_event_attr {
        let (kind, config) = self.code();
        let times = abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING;
        let mut attr = abi::perf_event_attr {
            type_: kind,
            config,
            read_format: times as u64,
            ..Default::default()
        };
        attr.set_exclude_kernel(u64::from(scope == Scope::UserOnly));
        attr
    }
}

/// The thread, CPU and group of an event.
pub(crate) struct EventTarget {
    /// 0 is the calling thread, -1 are all processes.
    pub(crate) pid: i32,
    /// -1 is any CPU.
    pub(crate) cpu: i32,
    /// The descriptor of the leader of its group; -1 for an event without a group.
    pub(crate) leader: i32,
}

impl EventTarget {
    /// The calling thread on any CPU, without a group.
    pub(crate) const THIS_THREAD: EventTarget = EventTarget {
        pid: 0,
        cpu: -1,
        leader: -1,
    };
}

/// perf_event_open(2); the size is filled in here.
pub(crate) fn open_event(
    mut attr: abi::perf_event_attr,
    EventTarget { pid, cpu, leader }: EventTarget,
) -> io::Result<OwnedFd> {
    attr.size = size_of::<abi::perf_event_attr>() as u32;
    let flags = abi::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: `attr` is initialised, lives for the length of the call, and no event here asks for
    // a signal; the descriptor is new and has no other owner.
    unsafe { new_fd(perf_event_open(&raw mut attr, pid, cpu, leader, flags)) }
}

/// The 64-bit word at an index, in the machine's byte order.
pub(crate) fn word(bytes: &[u8], i: usize) -> Option<u64> {
    let word = bytes.get(i.checked_mul(8)?..)?.first_chunk::<8>()?;
    Some(u64::from_ne_bytes(*word))
}

/// The privilege levels in which an event is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// User mode, and the kernel on the thread's behalf.
    WithKernel,
    /// User mode alone (exclude_kernel), which kernel.perf_event_paranoid = 2 still permits.
    UserOnly,
}

/// The reason why an event could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// EACCES, EPERM: kernel.perf_event_paranoid, a missing CAP_PERFMON, or a seccomp filter.
    NotAllowed,
    /// ENOENT, EOPNOTSUPP, ENODEV: the machine or the kernel has no such counter.
    NoSuchCounter,
    /// EINVAL, ENOSPC: the group with this event does not fit the hardware.
    NotTogether,
    /// ENOSYS: a kernel without perf events.
    NoPerf,
    /// EMFILE, ENFILE: no descriptor left.
    NoDescriptor,
    /// EBUSY: another user has the counters exclusively.
    Busy,
    /// Another error.
    Other,
}

impl Refused {
    /// The reason behind an error of [`Group::lead`], [`Group::add`] or [`InheritedCounter::open`].
    pub fn from_error(error: &io::Error) -> Refused {
        match Errno::from_io_error(error) {
            Some(Errno::ACCESS | Errno::PERM) => Refused::NotAllowed,
            Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => Refused::NoSuchCounter,
            Some(Errno::INVAL | Errno::NOSPC) => Refused::NotTogether,
            Some(Errno::NOSYS) => Refused::NoPerf,
            Some(Errno::MFILE | Errno::NFILE) => Refused::NoDescriptor,
            Some(Errno::BUSY) => Refused::Busy,
            _ => Refused::Other,
        }
    }
}

/// The counts of a group since it was enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupValues {
    /// Time for which the group was enabled while the thread ran, in ns.
    pub enabled_ns: u64,
    /// Time for which it was on the CPU, in ns; less than `enabled_ns` if others used the counters.
    pub running_ns: u64,
    /// The counts in the order in which the events were added; further values are 0.
    pub values: [u64; MAX_EVENTS],
}

/// A group of counters of the thread that opened it, on any CPU.
#[derive(Debug)]
pub struct Group {
    // The leader is first; it must be closed last, or the others leave the group.
    members: Vec<OwnedFd>,
    scope: Scope,
    ids: [u64; MAX_EVENTS],
}

impl Group {
    /// Opens a group of the calling thread, disabled, with its first event. [`Refused::from_error`]
    /// classifies the kernel's errors.
    pub fn lead(leader: PerfEvent, scope: Scope) -> io::Result<Group> {
        let mut group = Group {
            members: Vec::with_capacity(MAX_EVENTS),
            scope,
            ids: [0; MAX_EVENTS],
        };
        group.push(leader)?;
        Ok(group)
    }

    /// Adds an event; to be called before [`Group::enable`]. Fails as [`Group::lead`], and if the group
    /// has [`MAX_EVENTS`]; the group then stays as it was.
    pub fn add(&mut self, event: PerfEvent) -> io::Result<()> {
        if self.members.len() == MAX_EVENTS {
            return Err(io::Error::other(format!(
                "a group takes {MAX_EVENTS} events"
            )));
        }
        self.push(event)
    }

    fn push(&mut self, event: PerfEvent) -> io::Result<()> {
        let leader = self.members.first();
        let mut attr = event.attributes(self.scope);
        attr.read_format |= (abi::PERF_FORMAT_GROUP | abi::PERF_FORMAT_ID) as u64;
        // Only the leader: on Linux 6.18 members that are created disabled and enabled through
        // their leader count nothing until the thread is next scheduled.
        attr.set_disabled(u64::from(leader.is_none()));
        let target = EventTarget {
            leader: leader.map_or(-1, AsRawFd::as_raw_fd),
            ..EventTarget::THIS_THREAD
        };
        let fd = open_event(attr, target)?;
        let mut id = 0_u64;
        // SAFETY: PERF_EVENT_IOC_ID writes one u64 to `id`, which outlives the call.
        checked(unsafe { ioctls::ID(fd.as_raw_fd(), &raw mut id) })?;
        self.ids[self.members.len()] = id;
        self.members.push(fd);
        Ok(())
    }

    /// Starts all counters of the group.
    pub fn enable(&mut self) -> io::Result<()> {
        // SAFETY: the descriptor is open and PERF_EVENT_IOC_ENABLE takes no pointer.
        checked(unsafe { ioctls::ENABLE(self.members[0].as_raw_fd(), 0) }).map(drop)
    }

    /// The number of its events.
    pub fn events(&self) -> usize {
        self.members.len()
    }

    /// Reads the whole group in one call, without allocating; none if that fails.
    pub fn read(&self) -> Option<GroupValues> {
        let mut buffer = [0_u8; MAX_READ_BYTES];
        let length = rustix::io::read(&self.members[0], &mut buffer).ok()?;
        parse_group(buffer.get(..length)?, self.ids.get(..self.members.len())?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        while self.members.pop().is_some() {}
    }
}

/// The values of a read, in the order of `ids`; none for a missing member, or too few or too many
/// bytes. Its layout, by perf_event_open(2): `nr`, `time_enabled`, `time_running`, then `value` and `id`
/// of each member.
fn parse_group(bytes: &[u8], ids: &[u64]) -> Option<GroupValues> {
    let word = |i| word(bytes, i);
    let members = ids.len();
    if members > MAX_EVENTS
        || word(0)? != members as u64
        || bytes.len() != (3 + 2 * members) * size_of::<u64>()
    {
        return None;
    }
    let mut group = GroupValues {
        enabled_ns: word(1)?,
        running_ns: word(2)?,
        values: [0; MAX_EVENTS],
    };
    for (value, id) in group.values.iter_mut().zip(ids) {
        let member = (0..members).find(|m| word(4 + 2 * m) == Some(*id))?;
        *value = word(3 + 2 * member)?;
    }
    Some(group)
}

/// A counter of the thread that opened it and of all its descendants that start later, including those
/// that have ended, as `perf stat` counts.
#[derive(Debug)]
pub struct InheritedCounter(OwnedFd);

/// A reading of an [`InheritedCounter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// The count.
    pub value: u64,
    /// Time for which it was enabled, summed over threads, in ns.
    pub enabled_ns: u64,
    /// The part of that time for which it was on a CPU, in ns.
    pub running_ns: u64,
}

impl InheritedCounter {
    /// Opens a counter that counts from now on.
    pub fn open(event: PerfEvent, scope: Scope) -> io::Result<InheritedCounter> {
        let mut attr = event.attributes(scope);
        attr.set_inherit(1);
        Ok(InheritedCounter(open_event(
            attr,
            EventTarget::THIS_THREAD,
        )?))
    }

    /// Its count so far; none if the counter is in an error state.
    pub fn read(&self) -> Option<CounterValue> {
        let mut bytes = [0_u8; 24];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let word = |i| word(&bytes[..length], i);
        Some(CounterValue {
            value: word(0)?,
            enabled_ns: word(1)?,
            running_ns: word(2)?,
        })
    }
}

impl AsRawFd for InheritedCounter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn values_of_a_read_are_found_by_id() {
        // nr, enabled, running, then value and id of each
        let words = [3, 1_000, 900, 111, 71, 222, 72, 333, 73];
        let in_order = parse_group(&bytes(&words), &[71, 72, 73]).unwrap();
        assert_eq!((in_order.enabled_ns, in_order.running_ns), (1_000, 900));
        assert_eq!(in_order.values[..4], [111, 222, 333, 0]);
        let rotated = parse_group(&bytes(&words), &[73, 71, 72]).unwrap();
        assert_eq!(rotated.values[..4], [333, 111, 222, 0]);
    }

    #[test]
    fn a_read_of_another_layout_is_refused() {
        let good = bytes(&[2, 10, 10, 1, 71, 2, 72]);
        assert!(parse_group(&good, &[71, 72]).is_some());
        for (bad, ids, why) in [
            (&good[..], &[71][..], "fewer members expected"),
            (&good[..], &[71, 72, 73][..], "more members expected"),
            (&good[..], &[71, 74][..], "an id that is not there"),
            (&good[..good.len() - 1], &[71, 72][..], "cut off"),
            (&good[..7], &[71, 72][..], "cut off in the first word"),
            (&[][..], &[71][..], "a group in error: 0 bytes"),
            (&[][..], &[][..], "nothing at all"),
            (&good[..], &[0; MAX_EVENTS + 1][..], "more than it holds"),
        ] {
            assert_eq!(parse_group(bad, ids), None, "{why}");
        }
    }

    #[test]
    fn a_full_group_takes_no_more() {
        let Ok(mut group) = Group::lead(PerfEvent::TaskClock, Scope::UserOnly) else {
            return skipped(Lack::Right, "perf_event_open(2)");
        };
        for _ in 1..MAX_EVENTS {
            group.add(PerfEvent::TaskClock).unwrap();
        }
        let e = group.add(PerfEvent::TaskClock).unwrap_err();
        assert_eq!(e.to_string(), "a group takes 8 events");
        group.enable().unwrap();
        assert!(group.read().is_some());
    }
}
