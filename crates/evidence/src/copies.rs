//! How often each byte of a TCP connection was copied, and where: by its sender, on delivery, and
//! for its reader.
//!
//! Counted at tracepoints, by the flags of each packet: as it is handed to a device
//! (`net_dev_queue`; over a device that delivers nothing, as it is freed, `consume_skb`), as it
//! comes to the receiver's TCP (`tcp_probe`), and as its bytes are copied to the reader
//! (`skb_copy_datagram_iovec`). A packet whose pages were pinned when it was sent and are not when
//! it arrives was copied between. The functions that copy cannot be hooked on every kernel; these
//! can (tp_btf, since Linux 5.5; the flags have their places since 5.14).
//!
//! The programs cost the connection a few percent of its rate, so timed trials go without them.

use std::io;

use aya::maps::{Array, Map};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, include_bytes_aligned};
use bytecost_sys::words::Words;

use crate::bpf::told;

/// Built from the file beside it.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/copies.bpf.o");

/// Each program and the tracepoint that it is for.
const PROGRAMS: &[(&str, &str)] = &[
    ("queued", "net_dev_queue"),
    ("consumed", "consume_skb"),
    ("arrived", "tcp_probe"),
    ("copied", "skb_copy_datagram_iovec"),
];

/// Words of `struct sums` in `copies.bpf.c`: the port, three times four, and one.
const WORDS: usize = 14;

/// Counts while it lives.
#[derive(Debug)]
pub struct Copies {
    sums: Words,
    /// Holds the programs where they are attached.
    _object: Ebpf,
}

/// Bytes of payload by how packets held them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In memory of the kernel's own.
    pub copied_bytes: u64,
    /// In the sender's own pages, pinned.
    pub pinned_bytes: u64,
    /// In pages of a file or a pipe.
    pub pages_bytes: u64,
    /// Packets with payload.
    pub packets: u64,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// As the sender handed it over, whatever the device did with it.
    pub sent: Held,
    /// As it came to the receiver's TCP; nothing where nobody receives.
    pub delivered: Held,
    /// Bytes that were copied to the reader's memory.
    pub read_bytes: u64,
}

/// How often a byte was copied, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerByte {
    /// On its way into the kernel.
    pub sender: f64,
    /// On delivery, since nobody may hold another's pages for as long as a reader likes.
    pub delivery: f64,
    /// On its way out.
    pub reader: f64,
}

impl Copies {
    /// Begins to count all that goes to this TCP port, on the whole machine.
    ///
    /// # Errors
    /// In a sentence: no rights for BPF, a kernel that does not tell its types or lacks one of the
    /// tracepoints or fields.
    pub fn to_port(port: u16) -> io::Result<Copies> {
        let types = Btf::from_sys_fs().map_err(|e| told(&e))?;
        let mut object = Ebpf::load(OBJECT).map_err(|e| told(&e))?;
        for (name, _) in PROGRAMS {
            program(&mut object, name)?;
        }
        let map = object
            .map_mut("sums")
            .ok_or_else(|| io::Error::other("the object has no map `sums`"))?;
        let mut sums = Array::<_, [u64; WORDS]>::try_from(map).map_err(|e| told(&e))?;
        let mut first = [0; WORDS];
        first[0] = u64::from(port);
        sums.set(0, first, 0).map_err(|e| told(&e))?;
        let sums = match object.map("sums") {
            Some(Map::Array(data)) => Words::new(data.fd(), WORDS)?,
            _ => return Err(io::Error::other("the object has no array `sums`")),
        };
        for (name, tracepoint) in PROGRAMS {
            let program = program(&mut object, name)?;
            program.load(tracepoint, &types).map_err(|e| told(&e))?;
            program.attach().map_err(|e| told(&e))?;
        }
        Ok(Copies {
            sums,
            _object: object,
        })
    }

    /// What was counted so far. The parts may be of different moments.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let held = |at| Held {
            copied_bytes: self.sums.get(at),
            pinned_bytes: self.sums.get(at + 1),
            pages_bytes: self.sums.get(at + 2),
            packets: self.sums.get(at + 3),
        };
        Counted {
            sent: held(1).plus(held(5)),
            delivered: held(9),
            read_bytes: self.sums.get(13),
        }
    }
}

fn program<'o>(object: &'o mut Ebpf, name: &str) -> io::Result<&'o mut BtfTracePoint> {
    object
        .program_mut(name)
        .ok_or_else(|| io::Error::other(format!("the object has no program `{name}`")))?
        .try_into()
        .map_err(|e: aya::programs::ProgramError| told(&e))
}

impl Held {
    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.copied_bytes + self.pinned_bytes + self.pages_bytes
    }

    fn plus(self, other: Held) -> Held {
        Held {
            copied_bytes: self.copied_bytes + other.copied_bytes,
            pinned_bytes: self.pinned_bytes + other.pinned_bytes,
            pages_bytes: self.pages_bytes + other.pages_bytes,
            packets: self.packets + other.packets,
        }
    }
}

impl Counted {
    /// How often each of so many bytes of payload was copied; none where there were none.
    #[must_use]
    pub fn per_byte(&self, payload_bytes: u64) -> Option<PerByte> {
        let share = |bytes: u64| bytes as f64 / payload_bytes as f64;
        let unpinned = match self.delivered.packets {
            0 => 0,
            _ => self
                .sent
                .pinned_bytes
                .saturating_sub(self.delivered.pinned_bytes),
        };
        (payload_bytes > 0).then(|| PerByte {
            sender: share(self.sent.copied_bytes),
            delivery: share(unpinned),
            reader: share(self.read_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(copied_bytes: u64, pinned_bytes: u64, pages_bytes: u64) -> Held {
        Held {
            copied_bytes,
            pinned_bytes,
            pages_bytes,
            packets: u64::from(copied_bytes + pinned_bytes + pages_bytes > 0),
        }
    }

    #[test]
    fn copies_are_told_apart_by_what_became_of_the_packets() {
        let check = |sent, delivered, read_bytes, expected: [f64; 3]| {
            let counted = Counted {
                sent,
                delivered,
                read_bytes,
            };
            let found = counted.per_byte(100).unwrap();
            assert_eq!([found.sender, found.delivery, found.reader], expected);
        };
        check(held(100, 0, 0), held(100, 0, 0), 100, [1.0, 0.0, 1.0]);
        check(held(0, 100, 0), held(100, 0, 0), 100, [0.0, 1.0, 1.0]);
        check(held(0, 100, 0), held(0, 100, 0), 100, [0.0, 0.0, 1.0]);
        check(held(0, 0, 100), held(0, 0, 100), 100, [0.0, 0.0, 1.0]);
        check(held(100, 0, 0), held(100, 0, 0), 0, [1.0, 0.0, 0.0]);
        // Nobody received it, so nobody copied it on delivery.
        check(held(0, 100, 0), held(0, 0, 0), 0, [0.0, 0.0, 0.0]);
        assert_eq!(Counted::default().per_byte(0), None);
    }
}
