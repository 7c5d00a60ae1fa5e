//! Buffers for asynchronous reads and writes. A buffer that a request uses cannot be borrowed, since
//! the kernel reads or writes it while Rust code runs.

use std::io;
use std::mem::ManuallyDrop;

use crate::region::Region;

/// Each buffer begins at a multiple of these bytes: enough for O_DIRECT with blocks up to a page.
pub const ALIGN_BYTES: usize = 4096;

/// A numbered set of buffers of one size; a buffer's number is its *index*. If a request still uses one
/// when the set is dropped, the memory stays mapped: the kernel may write there at any time.
#[derive(Debug)]
pub struct IoBuffers {
    memory: ManuallyDrop<Region>,
    size: usize,
    stride: usize,
    busy: Box<[bool]>,
}

impl IoBuffers {
    /// Allocates `count` buffers of `size` zeroed bytes, present in memory; `InvalidInput` if either is
    /// 0 or the product is too large, mmap(2).
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

    /// The number of buffers.
    pub fn count(&self) -> usize {
        self.busy.len()
    }

    /// Bytes of each buffer.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns true if a request uses the buffer at this index, and for an index that does not exist.
    #[inline]
    pub fn is_busy(&self, index: usize) -> bool {
        self.busy.get(index).copied().unwrap_or(true)
    }

    /// The buffer at an index; none while a request uses it.
    #[inline]
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        if self.is_busy(index) {
            return None;
        }
        // SAFETY: the buffer of this index lies within the mapping, and no request writes to it now: one that
        // begins takes `&mut self`, which ends this borrow.
        Some(unsafe { std::slice::from_raw_parts(self.pointer(index), self.size) })
    }

    /// The buffer at an index, for writing; none while a request uses it.
    #[inline]
    pub fn bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        if self.is_busy(index) {
            return None;
        }
        // SAFETY: as above, and `&mut self` makes this the only slice.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer(index), self.size) })
    }

    /// Marks a buffer as used by a request, and gives its address; `WouldBlock` if it is in use.
    #[inline]
    pub(crate) fn begin(&mut self, index: usize) -> io::Result<*mut u8> {
        if self.is_busy(index) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.busy[index] = true;
        Ok(self.pointer(index))
    }

    /// Marks a buffer as free again.
    #[inline]
    pub(crate) fn end(&mut self, index: usize) {
        if let Some(busy) = self.busy.get_mut(index) {
            *busy = false;
        }
    }

    pub(crate) fn pointer(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.busy.len());
        self.memory.start().wrapping_add(index * self.stride)
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
    fn buffers_are_disjoint_and_hidden_while_in_use() {
        let mut buffers = IoBuffers::new(3, 5000).unwrap();
        for index in 0..3 {
            buffers.bytes_mut(index).unwrap().fill(index as u8 + 1);
        }
        assert!(buffers.begin(1).is_ok());
        let busy = buffers.begin(1).unwrap_err().kind();
        assert_eq!(busy, io::ErrorKind::WouldBlock);
        assert!(buffers.bytes(1).is_none() && buffers.bytes_mut(1).is_none());
        buffers.end(1);
        for index in 0..3 {
            let bytes = buffers.bytes(index).unwrap();
            assert_eq!(bytes.len(), 5000);
            assert!(bytes.iter().all(|b| *b == index as u8 + 1));
            assert!(bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES));
        }
        assert!(buffers.bytes(3).is_none() && buffers.begin(3).is_err());
    }

    #[test]
    fn no_buffers_and_too_many_are_errors() {
        for (count, size) in [(0, 8), (8, 0), (usize::MAX, 4096)] {
            assert!(IoBuffers::new(count, size).is_err(), "{count} of {size}");
        }
    }
}
