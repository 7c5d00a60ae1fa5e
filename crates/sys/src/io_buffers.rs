//! Memory for requests carried out behind the caller's back: places of one size on whole pages,
//! none of them to be seen while a request uses it.

use std::io;
use std::mem::ManuallyDrop;

use crate::region::Region;

/// Each place begins on a multiple of these bytes: enough for O_DIRECT with blocks up to a page.
pub const ALIGN_BYTES: usize = 4096;

/// The places. Where one is still in use when they are dropped, their memory stays: the kernel may
/// write there at any time.
#[derive(Debug)]
pub struct IoBuffers {
    memory: ManuallyDrop<Region>,
    size: usize,
    stride: usize,
    busy: Box<[bool]>,
}

impl IoBuffers {
    /// `count` places of `size` bytes of zeroes, present in memory; `InvalidInput` where either is
    /// 0 or both are too much, mmap(2).
    pub fn new(count: usize, size: usize) -> io::Result<IoBuffers> {
        let stride = size.next_multiple_of(ALIGN_BYTES);
        let len = stride
            .checked_mul(count)
            .filter(|len| *len > 0 && *len <= isize::MAX as usize)
            .ok_or(io::ErrorKind::InvalidInput)?;
        Ok(IoBuffers {
            memory: ManuallyDrop::new(Region::new(len)?),
            size,
            stride,
            busy: vec![false; count].into(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.busy.len()
    }

    /// Bytes of each.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether a request uses the place, or there is no such place.
    #[inline]
    pub fn is_busy(&self, place: usize) -> bool {
        self.busy.get(place).copied().unwrap_or(true)
    }

    /// What a place holds; none while a request uses it.
    #[inline]
    pub fn bytes(&self, place: usize) -> Option<&[u8]> {
        if self.is_busy(place) {
            return None;
        }
        // SAFETY: the place lies within the mapping, and no request writes to it now: one that
        // begins takes `&mut self`, which ends this borrow.
        Some(unsafe { std::slice::from_raw_parts(self.pointer(place), self.size) })
    }

    /// What a place holds, to be written; none while a request uses it.
    #[inline]
    pub fn bytes_mut(&mut self, place: usize) -> Option<&mut [u8]> {
        if self.is_busy(place) {
            return None;
        }
        // SAFETY: as above, and `&mut self` makes this the only slice.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer(place), self.size) })
    }

    #[inline]
    pub(crate) fn begin(&mut self, place: usize) -> io::Result<*mut u8> {
        if self.is_busy(place) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.busy[place] = true;
        Ok(self.pointer(place))
    }

    #[inline]
    pub(crate) fn end(&mut self, place: usize) {
        if let Some(busy) = self.busy.get_mut(place) {
            *busy = false;
        }
    }

    /// For registering it.
    pub(crate) fn pointer(&self, place: usize) -> *mut u8 {
        debug_assert!(place < self.busy.len());
        self.memory.start().wrapping_add(place * self.stride)
    }
}

impl Drop for IoBuffers {
    fn drop(&mut self) {
        if self.busy.iter().any(|b| *b) {
            return;
        }
        // SAFETY: it is dropped here and nowhere else, and no request uses it.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_hidden_while_in_use() {
        let mut places = IoBuffers::new(3, 5000).unwrap();
        for place in 0..3 {
            places.bytes_mut(place).unwrap().fill(place as u8 + 1);
        }
        assert!(places.begin(1).is_ok());
        let busy = places.begin(1).unwrap_err().kind();
        assert_eq!(busy, io::ErrorKind::WouldBlock);
        assert!(places.bytes(1).is_none() && places.bytes_mut(1).is_none());
        places.end(1);
        for place in 0..3 {
            let bytes = places.bytes(place).unwrap();
            assert_eq!(bytes.len(), 5000);
            assert!(bytes.iter().all(|b| *b == place as u8 + 1));
            assert!(bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES));
        }
        assert!(places.bytes(3).is_none() && places.begin(3).is_err());
    }

    #[test]
    fn no_places_and_too_many_are_errors() {
        for (count, size) in [(0, 8), (8, 0), (usize::MAX, 4096)] {
            assert!(IoBuffers::new(count, size).is_err(), "{count} of {size}");
        }
    }
}
