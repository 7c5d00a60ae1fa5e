//! The memory that messages are sent from: a ring of slots, one message each.

use std::io;
use std::ops::Range;

use bytecost_sys::region::Region;

use crate::pattern::PayloadPattern;
use crate::setup::Setup;

/// The least distance between fields, as if allocated one by one: no two share a cache line.
const FIELD_GAP: usize = 64;

/// The positions of messages and of their fields in a payload buffer.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    size: usize,
    fields: usize,
    stride: usize,
    slots: usize,
}

impl Layout {
    /// One message after the other, without gaps.
    pub fn contiguous(setup: &Setup) -> Layout {
        Layout {
            size: setup.size,
            fields: 1,
            stride: setup.size,
            slots: setup.slots,
        }
    }

    /// Messages of `setup.fields` equal fields that lie apart, where a message divides into them.
    pub fn of_fields(setup: &Setup) -> io::Result<Layout> {
        let (size, fields) = (setup.size, setup.fields);
        if fields == 0 || !size.is_multiple_of(fields) {
            let why = format!("a message of {size} bytes does not divide into {fields} fields");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Layout {
            fields,
            stride: (size / fields).next_multiple_of(FIELD_GAP) + FIELD_GAP,
            ..Layout::contiguous(setup)
        })
    }

    fn field(&self) -> usize {
        self.size / self.fields
    }

    /// The position of field `field` of slot `slot`.
    pub fn range(&self, slot: usize, field: usize) -> Range<usize> {
        let start = (slot * self.fields + field) * self.stride;
        start..start + self.field()
    }

    /// The positions of every field of every slot, in their order.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        (0..self.slots)
            .flat_map(|slot| (0..self.fields).map(move |f| self.range(slot, f)))
            .collect()
    }
}

/// Goes round the ring, and says what each message holds.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    layout: Layout,
    pattern: PayloadPattern,
    rewrites: bool,
    slot: usize,
    begun: u64,
}

impl Source {
    /// A source and its memory, filled with the first round. With `setup.fresh` every message is
    /// written anew, so that a buffer used too early shows; with `setup.refill` each field is
    /// filled with one byte; else the stream repeats with the ring.
    pub fn new(setup: &Setup, layout: Layout) -> io::Result<(Source, Region)> {
        let mut region = Region::new(layout.slots * layout.fields * layout.stride)?;
        let source = Source {
            layout,
            pattern: setup.pattern(setup.fresh),
            rewrites: setup.fresh || setup.refill,
            slot: 0,
            begun: 0,
        };
        for slot in 0..layout.slots {
            source.write(region.bytes_mut(), slot, slot as u64);
        }
        Ok((source, region))
    }

    /// Out of line, so that timed trials of prepared payloads do not pay for its registers.
    #[cold]
    #[inline(never)]
    fn write_next(&mut self, bytes: &mut [u8]) {
        self.write(bytes, self.slot, self.begun);
        self.begun += 1;
    }

    fn write(&self, bytes: &mut [u8], slot: usize, message: u64) {
        let mut offset = message * self.layout.size as u64;
        for field in 0..self.layout.fields {
            self.pattern
                .fill(offset, &mut bytes[self.layout.range(slot, field)]);
            offset += self.layout.field() as u64;
        }
    }

    /// The slot that the next message will use.
    #[inline]
    pub fn next_slot(&self) -> usize {
        self.slot
    }

    /// Takes the next slot for a message. The caller has made sure that nobody reads it any more.
    #[inline]
    pub fn begin(&mut self, bytes: &mut [u8]) -> usize {
        let slot = self.slot;
        if self.rewrites {
            self.write_next(bytes);
        }
        self.slot = if slot + 1 == self.layout.slots {
            0
        } else {
            slot + 1
        };
        slot
    }

    /// The positions of its messages.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn setup(fields: usize) -> Setup {
        Setup {
            fields,
            slots: 4,
            ..Setup::new(256, Duration::from_secs(1))
        }
    }

    #[test]
    fn refilled_messages_are_written_again_each_time() {
        let setup = Setup {
            refill: true,
            ..setup(1)
        };
        let (mut source, mut region) = Source::new(&setup, Layout::contiguous(&setup)).unwrap();
        for _ in 0..9 {
            region.bytes_mut().fill(0);
            let slot = source.begin(region.bytes_mut());
            let got = &region.bytes()[source.layout.range(slot, 0)];
            assert_eq!(PayloadPattern::constant(0).mismatch(0, got), None);
        }
    }

    #[test]
    fn fields_lie_apart_and_contiguous_messages_do_not() {
        let fields = Layout::of_fields(&setup(8)).unwrap();
        assert_eq!(fields.range(0, 0), 0..32);
        assert_eq!(fields.range(0, 1), 128..160);
        assert_eq!(fields.range(1, 0), 1024..1056);
        let contiguous = Layout::contiguous(&setup(8));
        assert_eq!(contiguous.ranges(), [0..256, 256..512, 512..768, 768..1024]);
        assert!(Layout::of_fields(&setup(7)).is_err());
    }
}
