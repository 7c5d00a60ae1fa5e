//! Copies by the flags of packets and by what system calls returned.

use bytecost_spec::Reading;
use bytecost_spec::evidence::CopyPlace;

/// Words of `struct sums` in `copies.bpf.c`.
pub(super) const WORDS: usize = 20;

/// Why a connection without packets is not told.
const NO_PACKETS: &str = "a Unix socket's messages pass no device, where a tracepoint would tell how they got there; functions of the kernel would tell, which cannot be hooked here";
const UNSEEN: &str = "some requests do not tell tracepoints how many bytes the kernel copied for them (io_submit; copy_file_range where files may share blocks; splice and sendfile out of a file system that may not hand its pages over; requests past the page cache on one that may not pass it by); functions of the kernel would tell, which cannot be hooked here";

/// Bytes of payload by how packets held them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketBytes {
    /// In memory of the kernel's own.
    pub copied_bytes: u64,
    /// In the sender's own pages, pinned.
    pub pinned_bytes: u64,
    /// In pages of a file or a pipe.
    pub pages_bytes: u64,
    /// Packets with payload.
    pub packets: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedPackets {
    /// Whether there was a port to count by.
    pub of_packets: bool,
    /// As the sender handed it over, whatever the device did with it.
    pub sent: PacketBytes,
    /// As it came to the receiver's TCP; nothing where nobody receives.
    pub delivered: PacketBytes,
    /// Bytes that were copied to the reader's memory.
    pub read_bytes: u64,
    /// Bytes that calls took out of files through the page cache.
    pub from_file_bytes: u64,
    /// Bytes that calls wrote to files through the page cache.
    pub to_file_bytes: u64,
    /// Requests of which it is not known what they copied out of the page cache.
    pub unseen_from: u64,
    /// And into it.
    pub unseen_to: u64,
}

impl PacketBytes {
    fn at(words: &[u64]) -> PacketBytes {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        PacketBytes {
            copied_bytes: word(0),
            pinned_bytes: word(1),
            pages_bytes: word(2),
            packets: word(3),
        }
    }
}

/// What a sender handed over. A device without a receiver frees packets before they are queued; a
/// card frees those once more that were queued to it.
fn of_sender(queued: PacketBytes, freed: PacketBytes) -> PacketBytes {
    if queued.packets >= freed.packets {
        return queued;
    }
    PacketBytes {
        copied_bytes: queued.copied_bytes + freed.copied_bytes,
        pinned_bytes: queued.pinned_bytes + freed.pinned_bytes,
        pages_bytes: queued.pages_bytes + freed.pages_bytes,
        packets: queued.packets + freed.packets,
    }
}

impl CountedPackets {
    pub(super) fn of(words: &[u64; WORDS]) -> CountedPackets {
        CountedPackets {
            of_packets: words[0] > 0,
            sent: of_sender(PacketBytes::at(&words[3..]), PacketBytes::at(&words[7..])),
            delivered: PacketBytes::at(&words[11..]),
            read_bytes: words[15],
            from_file_bytes: words[16],
            to_file_bytes: words[17],
            unseen_from: words[18],
            unseen_to: words[19],
        }
    }

    /// Packets by which a place is told; none where something else tells it.
    pub(super) fn packets(&self, leg: CopyPlace) -> u64 {
        match leg {
            CopyPlace::IntoKernel | CopyPlace::Delivery => self.sent.packets,
            CopyPlace::FromFile | CopyPlace::IntoFile | CopyPlace::ToReader => 0,
        }
    }

    /// Bytes that were copied at a place.
    #[must_use]
    pub fn copied(&self, leg: CopyPlace) -> Reading {
        let of_packets = |bytes| match self.of_packets {
            true => Reading::Measured(bytes),
            false => Reading::absent(NO_PACKETS),
        };
        let of_calls = |bytes, unseen| match unseen {
            0 => Reading::Measured(bytes),
            _ => Reading::absent(UNSEEN),
        };
        match leg {
            CopyPlace::IntoKernel => of_packets(self.sent.copied_bytes),
            // A packet whose pages were pinned as it left and are not as it arrives was copied
            // between; where nothing arrives, nothing is delivered.
            CopyPlace::Delivery => of_packets(match self.delivered.packets {
                0 => 0,
                _ => self
                    .sent
                    .pinned_bytes
                    .saturating_sub(self.delivered.pinned_bytes),
            }),
            CopyPlace::ToReader => of_packets(self.read_bytes),
            CopyPlace::FromFile => of_calls(self.from_file_bytes, self.unseen_from),
            CopyPlace::IntoFile => of_calls(self.to_file_bytes, self.unseen_to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(copied_bytes: u64, pinned_bytes: u64, pages_bytes: u64) -> PacketBytes {
        PacketBytes {
            copied_bytes,
            pinned_bytes,
            pages_bytes,
            packets: u64::from(copied_bytes + pinned_bytes + pages_bytes > 0),
        }
    }

    #[test]
    fn copies_are_told_apart_by_what_became_of_the_packets() {
        let check = |sent, delivered, read_bytes, expected: [u64; 3]| {
            let counted = CountedPackets {
                of_packets: true,
                sent,
                delivered,
                read_bytes,
                ..CountedPackets::default()
            };
            let legs = [
                CopyPlace::IntoKernel,
                CopyPlace::Delivery,
                CopyPlace::ToReader,
            ];
            let found = legs.map(|leg| counted.copied(leg).measured().unwrap());
            assert_eq!(found, expected);
        };
        check(held(100, 0, 0), held(100, 0, 0), 100, [100, 0, 100]);
        check(held(0, 100, 0), held(100, 0, 0), 100, [0, 100, 100]);
        check(held(0, 100, 0), held(0, 100, 0), 100, [0, 0, 100]);
        check(held(0, 0, 100), held(0, 0, 100), 100, [0, 0, 100]);
        check(held(100, 0, 0), held(100, 0, 0), 0, [100, 0, 0]);
        // Nobody received it, so nobody copied it on delivery.
        check(held(0, 100, 0), held(0, 0, 0), 0, [0, 0, 0]);
    }

    #[test]
    fn what_tracepoints_do_not_see_is_absent_and_no_zero() {
        let mut words = [0; WORDS];
        words[16] = 7;
        let of_file = CountedPackets::of(&words);
        assert_eq!(of_file.copied(CopyPlace::FromFile), Reading::Measured(7));
        assert_eq!(of_file.copied(CopyPlace::IntoKernel).measured(), None);
        words[0] = 80;
        words[18] = 1;
        let spliced = CountedPackets::of(&words);
        assert_eq!(spliced.copied(CopyPlace::FromFile).measured(), None);
        assert_eq!(spliced.copied(CopyPlace::IntoFile), Reading::Measured(0));
        assert_eq!(spliced.copied(CopyPlace::IntoKernel), Reading::Measured(0));
        words[19] = 1;
        assert_eq!(
            CountedPackets::of(&words)
                .copied(CopyPlace::IntoFile)
                .measured(),
            None
        );
    }

    #[test]
    fn a_packet_that_is_queued_and_freed_counts_once() {
        let mut words = [0; WORDS];
        words[0] = 80;
        let mut check = |queued: [u64; 2], freed: [u64; 2], expected| {
            [words[3], words[6]] = queued;
            [words[7], words[10]] = freed;
            let found = CountedPackets::of(&words).copied(CopyPlace::IntoKernel);
            assert_eq!(found, Reading::Measured(expected));
        };
        check([100, 2], [100, 2], 100);
        check([100, 2], [0, 0], 100);
        check([0, 0], [100, 2], 100);
        check([10, 1], [90, 9], 100);
        // What was pinned is not what a card frees as copied.
        check([0, 2], [100, 2], 0);
    }
}
