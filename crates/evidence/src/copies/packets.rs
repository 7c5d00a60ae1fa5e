//! Copies by the flags of packets and by what system calls returned.

use bytecost_spec::Reading;
use bytecost_spec::evidence::CopyPlace;

/// Words of `struct sums` in `copies.bpf.c`.
pub(super) const WORDS: usize = 20;

const NO_PACKETS: &str = "a Unix socket's messages pass no device, where a tracepoint would tell how they got there; functions of the kernel would tell, which cannot be hooked here";
const UNSEEN: &str = "some requests do not tell tracepoints how many bytes the kernel copied for them (io_submit; copy_file_range where files may share blocks; splice and sendfile out of a file system that may not hand its pages over; requests past the page cache on one that may not pass it by); functions of the kernel would tell, which cannot be hooked here";

/// The first word of each group: packets as handed to the device, as freed by it, as received by TCP.
const QUEUED: usize = 3;
const FREED: usize = 7;
const DELIVERED: usize = 11;
/// Bytes in the kernel's memory, in pinned pages, in a file's or pipe's; packets with payload.
const COPIED: usize = 0;
const PINNED: usize = 1;
const PACKETS: usize = 3;

fn sent(words: &[u64; WORDS], of: usize) -> u64 {
    let [by, of] = [PACKETS, of].map(|of| [QUEUED, FREED].map(|at| words[at + of]));
    handed_over(by, of)
}

/// The sender's part, from packets queued to a device and packets that a device freed. A device without a
/// receiver frees packets before they are queued; a card frees those once more that were queued to
/// it. `by` shows which one it was.
pub(crate) fn handed_over(by: [u64; 2], [queued, freed]: [u64; 2]) -> u64 {
    if by[0] >= by[1] {
        queued
    } else {
        queued + freed
    }
}

/// Packets that show a place's copies; 0 where another tracepoint does.
pub(super) fn packets(words: &[u64; WORDS], leg: CopyPlace) -> u64 {
    match leg {
        CopyPlace::IntoKernel | CopyPlace::Delivery => sent(words, PACKETS),
        CopyPlace::FromFile | CopyPlace::IntoFile | CopyPlace::ToReader => 0,
    }
}

pub(super) fn copied(words: &[u64; WORDS], leg: CopyPlace) -> Reading {
    let [
        port,
        ..,
        read,
        from_file,
        into_file,
        unseen_from,
        unseen_into,
    ] = *words;
    let of_packets = |bytes| match port {
        0 => Reading::absent(NO_PACKETS),
        _ => Reading::Measured(bytes),
    };
    let of_calls = |bytes, unseen| match unseen {
        0 => Reading::Measured(bytes),
        _ => Reading::absent(UNSEEN),
    };
    match leg {
        CopyPlace::IntoKernel => of_packets(sent(words, COPIED)),
        // Pinned as it left and not as it arrives: copied between.
        CopyPlace::Delivery => of_packets(match words[DELIVERED + PACKETS] {
            0 => 0,
            _ => sent(words, PINNED).saturating_sub(words[DELIVERED + PINNED]),
        }),
        CopyPlace::ToReader => of_packets(read),
        CopyPlace::FromFile => of_calls(from_file, unseen_from),
        CopyPlace::IntoFile => of_calls(into_file, unseen_into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_distinguished_by_the_fate_of_the_packets() {
        // Bytes that were copied, pinned and in pages as they were sent and as they were delivered.
        let check = |sent: [u64; 3], delivered: [u64; 3], read: u64, expected: [u64; 3]| {
            let mut words = [0; WORDS];
            (words[0], words[15]) = (80, read);
            for (at, bytes) in [(QUEUED, sent), (DELIVERED, delivered)] {
                words[at..at + 3].copy_from_slice(&bytes);
                words[at + PACKETS] = u64::from(bytes != [0; 3]);
            }
            let legs = [
                CopyPlace::IntoKernel,
                CopyPlace::Delivery,
                CopyPlace::ToReader,
            ];
            let found = legs.map(|leg| copied(&words, leg).measured().unwrap());
            assert_eq!(found, expected);
        };
        check([100, 0, 0], [100, 0, 0], 100, [100, 0, 100]);
        check([0, 100, 0], [100, 0, 0], 100, [0, 100, 100]);
        check([0, 100, 0], [0, 100, 0], 100, [0, 0, 100]);
        check([0, 0, 100], [0, 0, 100], 100, [0, 0, 100]);
        check([100, 0, 0], [100, 0, 0], 0, [100, 0, 0]);
        // Nobody received it, so nobody copied it on delivery.
        check([0, 100, 0], [0; 3], 0, [0, 0, 0]);
    }

    #[test]
    fn what_tracepoints_do_not_see_is_absent_and_no_zero() {
        let check = |set: [(usize, u64); 2], leg, expected| {
            let mut words = [0; WORDS];
            set.iter().for_each(|(at, word)| words[*at] = *word);
            assert_eq!(copied(&words, leg).measured(), expected, "{set:?} {leg:?}");
        };
        let of_file = [(0, 0), (16, 7)];
        check(of_file, CopyPlace::FromFile, Some(7));
        check(of_file, CopyPlace::IntoKernel, None);
        let unseen_from = [(0, 80), (18, 1)];
        check(unseen_from, CopyPlace::FromFile, None);
        check(unseen_from, CopyPlace::IntoFile, Some(0));
        check(unseen_from, CopyPlace::IntoKernel, Some(0));
        check([(0, 80), (19, 1)], CopyPlace::IntoFile, None);
    }

    #[test]
    fn a_packet_that_is_queued_and_freed_counts_once() {
        let check = |queued: [u64; 2], freed: [u64; 2], expected| {
            let mut words = [0; WORDS];
            words[0] = 80;
            [words[QUEUED], words[QUEUED + PACKETS]] = queued;
            [words[FREED], words[FREED + PACKETS]] = freed;
            let found = copied(&words, CopyPlace::IntoKernel);
            assert_eq!(found, Reading::Measured(expected));
        };
        check([100, 2], [100, 2], 100);
        check([100, 2], [0, 0], 100);
        check([0, 0], [100, 2], 100);
        check([10, 1], [90, 9], 100);
        // Pinned packets are not among those that a card frees as copied.
        check([0, 2], [100, 2], 0);
    }
}
