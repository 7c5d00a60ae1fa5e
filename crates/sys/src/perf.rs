//! Performance counters of the calling thread, or of all that it starts, perf_event_open(2).
//!
//! A group is on the CPU as one or not at all, so its numbers belong together, and the times for
//! which it was enabled and running tell whether they are whole.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::io::Errno;

use crate::syscall::{checked, made};

/// The most events of one [`Group`].
pub const MAX_EVENTS: usize = 8;

/// Bytes of a read of a full group: three words of head, then a value and an id each.
const MAX_READ_BYTES: usize = (3 + 2 * MAX_EVENTS) * 8;

/// What can be counted.
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
    /// Whether the CPU counts it, not the kernel.
    pub fn is_hardware(self) -> bool {
        !matches!(
            self,
            PerfEvent::TaskClock | PerfEvent::ContextSwitches | PerfEvent::CpuMigrations
        )
    }

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

    fn counted(self, scope: Scope) -> abi::perf_event_attr {
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

/// Of a process (0 is the calling thread, -1 all) on a CPU (-1 any), in a leader's group (-1 none).
pub(crate) fn open_event(
    mut attr: abi::perf_event_attr,
    [pid, cpu, leader]: [i32; 3],
) -> io::Result<OwnedFd> {
    attr.size = size_of::<abi::perf_event_attr>() as u32;
    let flags = abi::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: `attr` is initialised, lives for the length of the call, and none here asks for a
    // signal; the kernel has just made the descriptor, and nobody else knows it.
    unsafe { made(perf_event_open(&raw mut attr, pid, cpu, leader, flags)) }
}

/// In the machine's byte order.
pub(crate) fn word(bytes: &[u8], i: usize) -> Option<u64> {
    let bytes = bytes.get(i.checked_mul(8)?..)?.first_chunk::<8>()?;
    Some(u64::from_ne_bytes(*bytes))
}

/// Whether work done inside the kernel on the thread's behalf is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// User and kernel.
    WithKernel,
    /// User alone (exclude_kernel): what is left to a user where kernel.perf_event_paranoid is 2.
    UserOnly,
}

/// Why an event could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// EACCES, EPERM: kernel.perf_event_paranoid, a missing CAP_PERFMON, or a seccomp filter.
    NotAllowed,
    /// ENOENT, EOPNOTSUPP, ENODEV: the machine or the kernel has no such counter.
    NoSuchCounter,
    /// EINVAL, ENOSPC: not beside the others of the group.
    NotTogether,
    /// ENOSYS: a kernel without perf events.
    NoPerf,
    /// EMFILE, ENFILE: no descriptor left.
    NoDescriptor,
    /// EBUSY: somebody holds the counters exclusively.
    Busy,
    /// Anything else.
    Other,
}

impl Refused {
    /// Sorts an error of [`Group::lead`] or [`Group::add`], perf_event_open(2).
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

/// What a group counted since it was enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupValues {
    /// Time for which the group was enabled while the thread ran, in ns.
    pub enabled_ns: u64,
    /// Time for which it was on the CPU, in ns; less than enabled where others took the counters.
    pub running_ns: u64,
    /// The counts, in the order in which the events were added; the rest is 0.
    pub values: [u64; MAX_EVENTS],
}

/// A group of counters of the thread that opened it, on whatever CPU it runs.
#[derive(Debug)]
pub struct Group {
    // The leader is first; it must be closed last, or the others leave the group.
    members: Vec<OwnedFd>,
    scope: Scope,
    ids: [u64; MAX_EVENTS],
}

impl Group {
    /// Opens `leader` for the calling thread, disabled, as the first of a group. [`Refused::from_error`]
    /// sorts the kernel's errors.
    pub fn lead(leader: PerfEvent, scope: Scope) -> io::Result<Group> {
        let mut group = Group {
            members: Vec::with_capacity(MAX_EVENTS),
            scope,
            ids: [0; MAX_EVENTS],
        };
        group.push(leader)?;
        Ok(group)
    }

    /// Adds an event, before [`Group::enable`]. Fails as [`Group::lead`], or where the group is
    /// full, which then stays as it was.
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
        let mut attr = event.counted(self.scope);
        attr.read_format |= (abi::PERF_FORMAT_GROUP | abi::PERF_FORMAT_ID) as u64;
        // Only the leader: on Linux 6.18 members that are created disabled and enabled through
        // their leader count nothing until the thread is next scheduled.
        attr.set_disabled(u64::from(leader.is_none()));
        let fd = open_event(attr, [0, -1, leader.map_or(-1, AsRawFd::as_raw_fd)])?;
        let mut id = 0_u64;
        // SAFETY: PERF_EVENT_IOC_ID writes one u64 to `id`, which outlives the call.
        checked(unsafe { ioctls::ID(fd.as_raw_fd(), &raw mut id) })?;
        self.ids[self.members.len()] = id;
        self.members.push(fd);
        Ok(())
    }

    /// Lets the whole group count.
    pub fn enable(&mut self) -> io::Result<()> {
        // SAFETY: the descriptor is open and PERF_EVENT_IOC_ENABLE takes no pointer.
        checked(unsafe { ioctls::ENABLE(self.members[0].as_raw_fd(), 0) }).map(drop)
    }

    /// How many events it holds.
    pub fn events(&self) -> usize {
        self.members.len()
    }

    /// Reads the whole group in one call, without allocating; none where that fails.
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

/// By perf_event_open(2): `nr`, `time_enabled`, `time_running`, then `value` and `id` of each
/// member. Values in the order of `ids`; none for a missing member, or too few or too many bytes.
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
        let at = (0..members).find(|m| word(4 + 2 * m) == Some(*id))?;
        *value = word(3 + 2 * at)?;
    }
    Some(group)
}

/// A counter of the thread that opened it and of all that it and its own start later, as `perf
/// stat` counts, those that have ended included.
#[derive(Debug)]
pub struct Inherited(OwnedFd);

/// What an [`Inherited`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The count.
    pub value: u64,
    /// Time for which it was enabled, summed over threads, in ns.
    pub enabled_ns: u64,
    /// Time of that for which it was on a CPU.
    pub running_ns: u64,
}

impl Inherited {
    /// Opens one that counts from now on.
    pub fn open(event: PerfEvent, scope: Scope) -> io::Result<Inherited> {
        let mut attr = event.counted(scope);
        attr.set_inherit(1);
        Ok(Inherited(open_event(attr, [0, -1, -1])?))
    }

    /// What it has counted so far; none where it is in error.
    pub fn read(&self) -> Option<Counted> {
        let mut bytes = [0_u8; 24];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let word = |i| word(&bytes[..length], i);
        Some(Counted {
            value: word(0)?,
            enabled_ns: word(1)?,
            running_ns: word(2)?,
        })
    }
}

impl AsRawFd for Inherited {
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
    fn a_read_is_taken_apart_by_id() {
        // nr, enabled, running, then value and id of each
        let words = [3, 1_000, 900, 111, 71, 222, 72, 333, 73];
        let in_order = parse_group(&bytes(&words), &[71, 72, 73]).unwrap();
        assert_eq!((in_order.enabled_ns, in_order.running_ns), (1_000, 900));
        assert_eq!(in_order.values[..4], [111, 222, 333, 0]);
        let turned = parse_group(&bytes(&words), &[73, 71, 72]).unwrap();
        assert_eq!(turned.values[..4], [333, 111, 222, 0]);
    }

    #[test]
    fn a_read_of_something_else_is_refused() {
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
