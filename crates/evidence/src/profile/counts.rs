//! Counts of `profile.bpf.c`, decoded: words in the order of its structures.

use bytecost_spec::Reading;
use bytecost_spec::profile::{
    CallFlag, Descriptor, DescriptorKind, FailedCalls, Notifications, OtherEnd, Way,
};
use bytecost_sys::file_system;

use super::calls::{self, Class};

/// Words of `struct counts`.
pub const COUNTS: usize = 19 + LENGTHS;
/// Powers of two that lengths are counted by.
const LENGTHS: usize = 32;

/// Words of `struct totals`.
pub const TOTALS: usize = 7;

/// `struct key` as three words: what bytes come from, where they go, and which call.
pub type Key = [u64; 3];

/// Sums over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// CPU time of all followed threads, up to when they last left a CPU.
    pub cpu_ns: u64,
    /// All calls.
    pub calls: u64,
    /// Processes that fork(2) created.
    pub processes: u64,
    /// Calls that did not fit into a table.
    pub lost: u64,
    /// Calls of 32-bit programs.
    pub compat: u64,
    /// Pages of files that faults mapped.
    pub mapped_pages: u64,
    /// Page faults in user code.
    pub faults: u64,
}

impl Totals {
    pub(super) fn from_words(words: [u64; TOTALS]) -> Totals {
        let [cpu_ns, calls, processes, lost, compat, mapped_pages, faults] = words;
        Totals {
            cpu_ns,
            calls,
            processes,
            lost,
            compat,
            mapped_pages,
            faults,
        }
    }
}

impl Totals {
    /// The differences from earlier totals.
    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            calls: self.calls - earlier.calls,
            processes: self.processes - earlier.processes,
            lost: self.lost - earlier.lost,
            compat: self.compat - earlier.compat,
            mapped_pages: self.mapped_pages - earlier.mapped_pages,
            faults: self.faults - earlier.faults,
        }
    }
}

/// The sum of one array per CPU.
pub fn sum<const N: usize>(per_cpu: &[[u64; N]]) -> [u64; N] {
    std::array::from_fn(|at| per_cpu.iter().map(|words| words[at]).sum())
}

/// A descriptor as `kind_of` in the program packs it; none where a call has none.
pub fn descriptor(kind: u64) -> Option<Descriptor> {
    let on = (kind >> 32) as u32;
    let of = match kind as u8 {
        1 => DescriptorKind::File,
        2 => DescriptorKind::Block,
        3 => DescriptorKind::Device,
        4 => DescriptorKind::Pipe,
        5 => DescriptorKind::Tcp,
        6 => DescriptorKind::Udp,
        7 => DescriptorKind::Unix,
        8 => DescriptorKind::Socket,
        9 => DescriptorKind::Other,
        10 => DescriptorKind::Directory,
        _ => return None,
    };
    let has = |bit: u32| kind >> bit & 1 == 1;
    let other_end = match (has(8), has(9)) {
        (true, _) => Some(OtherEnd::Local),
        (false, true) => Some(OtherEnd::Network),
        (false, false) => None,
    };
    let on = match of {
        DescriptorKind::File => Some(file_system::name_or_number(on)),
        // The kernel's own packing of a device's numbers, include/linux/kdev_t.h.
        DescriptorKind::Device if on != 0 => Some(format!("{}:{}", on >> 20, on & 0xf_ffff)),
        DescriptorKind::Socket if on != 0 => Some(format!("family {on}")),
        _ => None,
    };
    Some(Descriptor {
        kind: of,
        other_end,
        on,
        is_large: has(10),
        is_direct: has(11),
    })
}

fn flags(bits: u16) -> Vec<CallFlag> {
    let has = |at: &usize| bits >> at & 1 == 1;
    (0..CallFlag::ALL.len())
        .filter(has)
        .map(|at| CallFlag::ALL[at])
        .collect()
}

/// A way with its counts, scaled for the slices of time that were left out, and with the CPU time of
/// each call that the tracepoints do not see.
pub fn way(key: Key, words: &[f64; COUNTS], unseen_ns: f64) -> Way {
    let [from, to, call] = key;
    let number = call as u16;
    let is_request = call >> 32 != 0;
    let class = calls::class(number, is_request);
    let (from, to) = (descriptor(from), descriptor(to));
    let scaled = |at: usize| words[at].round() as u64;
    let [calls, bytes] = [scaled(0), scaled(1)];
    let copied_bytes = copied(
        class,
        from.as_ref(),
        to.as_ref(),
        bytes,
        [16, 17, 18].map(scaled),
    );
    Way {
        call: calls::name(number, is_request),
        from,
        to,
        flags: flags((call >> 16) as u16),
        calls,
        bytes,
        elapsed_ns: scaled(2),
        cpu_ns: (!is_request).then(|| (words[3] + words[0] * unseen_ns).max(0.0) as u64),
        copied_bytes,
        lengths: (19..COUNTS).map(scaled).collect(),
        failed: FailedCalls {
            again: scaled(4),
            invalid: scaled(5),
            no_buffers: scaled(6),
            other: scaled(7),
        },
        follows: scaled(8),
        follow_bytes: scaled(9),
        delayed_reads: scaled(10),
        delayed_ns: scaled(11),
        sequential: scaled(15),
        notifications: Notifications {
            read: scaled(12),
            copied: scaled(13),
            one_at_a_time: scaled(14),
        },
    }
}

/// Bytes that a way copied between the program's memory and the kernel, by the strongest means
/// there is: packets show how the bytes sent over TCP are held; a tracepoint shows what a socket
/// copies to its reader; and reading and writing files and pipes through the page cache copies each
/// byte once.
fn copied(
    class: Option<Class>,
    from: Option<&Descriptor>,
    to: Option<&Descriptor>,
    bytes: u64,
    [copied, pinned, pages]: [u64; 3],
) -> Reading {
    use DescriptorKind::{File, Pipe, Tcp};
    let by_share = |part: u64, of: u64| {
        let share = part as f64 / of as f64;
        Reading::Measured((bytes as f64 * share).round() as u64)
    };
    let is = |end: Option<&Descriptor>, kind| end.is_some_and(|e| e.kind == kind);
    let is_cached = |end: Option<&Descriptor>| end.is_some_and(|e| e.kind == File && !e.is_direct);
    let sent = copied + pinned + pages;
    match class {
        _ if bytes == 0 => Reading::Measured(0),
        Some(Class::Reads | Class::ReadsMany) if is_cached(from) || is(from, Pipe) => {
            Reading::Measured(bytes)
        }
        Some(Class::Writes) if is_cached(to) || is(to, Pipe) => Reading::Measured(bytes),
        Some(Class::Reads | Class::ReadsMany) if copied > 0 => Reading::Measured(copied),
        Some(Class::Reads | Class::ReadsMany) => {
            Reading::absent("no tracepoint shows what such a descriptor copies to its reader")
        }
        Some(Class::Writes | Class::WritesMany | Class::Moves) if is(to, Tcp) => {
            if sent > bytes + bytes / 2 {
                Reading::absent("its packets carry bytes of other calls on the same socket as well")
            } else if sent > 0 {
                by_share(copied, sent)
            } else {
                Reading::absent("no packet of these sockets was seen")
            }
        }
        Some(Class::Writes | Class::WritesMany) => {
            Reading::absent("no tracepoint shows what such a descriptor copies from its writer")
        }
        Some(Class::Moves) => Reading::absent(
            "no tracepoint shows what moving bytes between these descriptors copies",
        ),
        _ => Reading::Measured(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_unpacked_as_the_program_packs_it() {
        let file = descriptor(1 | 1 << 10 | 0xef53 << 32).unwrap();
        assert_eq!(file.kind, DescriptorKind::File);
        assert_eq!(file.on.as_deref(), Some("ext4"));
        assert!(file.is_large && !file.is_direct);
        let null = descriptor(3 | (1 << 20 | 3) << 32).unwrap();
        assert_eq!(null.on.as_deref(), Some("1:3"));
        let ends = [5, 5 | 1 << 8, 5 | 1 << 9].map(|kind| descriptor(kind).unwrap().other_end);
        assert_eq!(ends, [None, Some(OtherEnd::Local), Some(OtherEnd::Network)]);
        assert_eq!(descriptor(0), None);
    }

    #[test]
    fn copies_come_from_packets_where_bytes_leave_over_tcp() {
        let tcp = descriptor(5);
        let share = |held| copied(Some(Class::Writes), None, tcp.as_ref(), 1000, held);
        assert_eq!(share([500, 0, 0]), Reading::Measured(1000));
        assert_eq!(share([100, 300, 0]), Reading::Measured(250));
        assert_eq!(share([0, 0, 900]), Reading::Measured(0));
        assert_eq!(share([0, 0, 0]).measured(), None);
        // A header and a page of a file in one packet.
        assert_eq!(share([1000, 0, 16_000]).measured(), None);
    }

    #[test]
    fn numbers_of_a_way_stand_in_their_words() {
        let mut words = [0.0; COUNTS];
        words[0] = 25.0;
        words[1] = 102_400.0;
        words[19 + 12] = 25.2;
        let read = way([1, 0, 0], &words, 0.0);
        assert_eq!(
            (read.calls, read.bytes, read.lengths[12]),
            (25, 102_400, 25)
        );
        assert_eq!(read.copied_bytes, Reading::Measured(102_400));
    }
}
