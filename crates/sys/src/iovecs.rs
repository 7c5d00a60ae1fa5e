//! Messages of several pieces of memory whose iovecs are prepared before the timed window.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::region::Region;

/// MSG_ZEROCOPY of socket.h, which rustix does not name.
pub const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as _);

/// A region, and an iovec for each piece of its messages, ready for `sendmsg` and `writev`.
#[derive(Debug)]
pub struct Iovecs {
    // Before `region`: dropped first. The slices point into the region.
    slices: Vec<IoSlice<'static>>,
    /// The rest of a message that was sent in part.
    rest: Vec<IoSlice<'static>>,
    pieces: usize,
    region: Region,
}

impl Iovecs {
    /// Prepares messages of `pieces` pieces each; `ranges` has the pieces of all messages in order.
    /// `InvalidInput` for a range outside of the region, or if `pieces` does not divide their number.
    pub fn new(region: Region, ranges: &[Range<usize>], pieces: usize) -> io::Result<Iovecs> {
        let why = "the pieces do not fit the region";
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, why);
        if pieces == 0 || !ranges.len().is_multiple_of(pieces) {
            return Err(invalid());
        }
        let mut slices = Vec::with_capacity(ranges.len());
        for range in ranges {
            let piece = region.bytes().get(range.clone()).ok_or_else(invalid)?;
            // SAFETY: the piece lies within the region's mapping, which does not move and which
            // this struct owns; the slices are dropped before it. They are only ever handed to
            // the kernel, never read here, so `bytes_mut` makes no alias that Rust could see.
            let piece: &'static [u8] =
                unsafe { std::slice::from_raw_parts(piece.as_ptr(), piece.len()) };
            slices.push(IoSlice::new(piece));
        }
        Ok(Iovecs {
            slices,
            rest: Vec::with_capacity(pieces),
            pieces,
            region,
        })
    }

    /// The bytes of the region, for writing between calls.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.region.bytes_mut()
    }

    /// One `sendmsg` of message `message` from its byte `skip` on. Panics without such a message.
    pub fn sendmsg(
        &mut self,
        socket: impl AsFd,
        message: usize,
        skip: usize,
        flags: SendFlags,
    ) -> io::Result<usize> {
        let slices = self.slices_from(message, skip);
        Ok(rustix::net::sendmsg(
            socket,
            slices,
            &mut SendAncillaryBuffer::default(),
            flags,
        )?)
    }

    /// One `writev` of message `message` from its byte `skip` on. Panics without such a message.
    pub fn writev(&mut self, file: impl AsFd, message: usize, skip: usize) -> io::Result<usize> {
        Ok(rustix::io::writev(file, self.slices_from(message, skip))?)
    }

    /// The iovecs of a message from its byte `skip` on. A rest is rare: it is built in reserved memory.
    fn slices_from(&mut self, message: usize, skip: usize) -> &[IoSlice<'static>] {
        let whole = &self.slices[message * self.pieces..(message + 1) * self.pieces];
        if skip == 0 {
            return whole;
        }
        self.rest.clear();
        let mut left_to_skip = skip;
        for slice in whole {
            if left_to_skip >= slice.len() {
                left_to_skip -= slice.len();
                continue;
            }
            let mut rest = *slice;
            rest.advance(left_to_skip);
            left_to_skip = 0;
            self.rest.push(rest);
        }
        &self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_message_is_sent_from_any_byte_on() {
        let mut region = Region::new(64).unwrap();
        for (i, b) in region.bytes_mut().iter_mut().enumerate() {
            *b = i as u8;
        }
        let ranges = [0..4, 8..12, 16..20, 32..36, 40..44, 48..52];
        let mut gather = Iovecs::new(region, &ranges, 3).unwrap();
        let (a, mut b) = UnixStream::pair().unwrap();
        let expected = [32, 33, 34, 35, 40, 41, 42, 43, 48, 49, 50, 51];
        for skip in 0..12 {
            let mut got = vec![0; 12 - skip];
            let sent = gather.sendmsg(&a, 1, skip, SendFlags::empty());
            assert_eq!(sent.unwrap(), 12 - skip);
            b.read_exact(&mut got).unwrap();
            assert_eq!(got, expected[skip..]);
            assert_eq!(gather.writev(&a, 1, skip).unwrap(), 12 - skip);
            b.read_exact(&mut got).unwrap();
            assert_eq!(got, expected[skip..]);
        }
    }

    #[test]
    fn pieces_outside_the_region_are_refused() {
        let outside = std::slice::from_ref(&(4..9));
        assert!(Iovecs::new(Region::new(8).unwrap(), outside, 1).is_err());
        assert!(Iovecs::new(Region::new(8).unwrap(), &[0..1, 1..2, 2..3], 2).is_err());
    }
}
