//! Pipes as an intermediate of splice(2) between a file or memory and a socket.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags};

use crate::region::Region;

/// Both ends of a pipe.
#[derive(Debug)]
pub struct Pipe {
    /// The read end.
    pub read: OwnedFd,
    /// The write end.
    pub write: OwnedFd,
    /// The bytes that fit into it if they fill whole pages.
    pub capacity: usize,
}

impl Pipe {
    /// A pipe with a capacity of `bytes` if the kernel permits so much, else of the default.
    pub fn new(bytes: usize) -> io::Result<Pipe> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Only root may exceed fs.pipe-max-size; a smaller pipe works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, bytes.max(1));
        let capacity = rustix::pipe::fcntl_getpipe_size(&write)?;
        Ok(Pipe {
            read,
            write,
            capacity,
        })
    }

    /// Moves references to pages of `region` into the pipe, vmsplice(2): the number of bytes that fitted;
    /// `InvalidInput` outside of the region. The pipe, and the socket that it is spliced to, refer to the
    /// pages themselves: a later write to them changes the bytes that a reader gets. The kernel does not
    /// report when it has released them.
    pub fn fill_from_memory(&self, region: &Region, range: Range<usize>) -> io::Result<usize> {
        let piece = region
            .bytes()
            .get(range)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let piece = [IoSliceRaw::from_slice(piece)];
        // SAFETY: `write` is the write end, so the pages are only read, and without
        // SPLICE_F_GIFT they stay ours.
        Ok(unsafe { rustix::pipe::vmsplice(&self.write, &piece, SpliceFlags::empty())? })
    }
}

/// The flags of splice(2) for a piece of a message; `more` if another piece follows.
#[inline]
pub fn moving(more: bool) -> SpliceFlags {
    if more {
        SpliceFlags::MOVE | SpliceFlags::MORE
    } else {
        SpliceFlags::MOVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn pages_pass_through_to_a_socket() {
        let mut region = Region::new(8192).unwrap();
        region.bytes_mut().fill(9);
        let pipe = Pipe::new(65_536).unwrap();
        assert!(pipe.capacity >= 4096);
        let (a, mut b) = UnixStream::pair().unwrap();
        assert_eq!(pipe.fill_from_memory(&region, 100..4100).unwrap(), 4000);
        let drained = rustix::pipe::splice(&pipe.read, None, &a, None, 4000, moving(false));
        assert_eq!(drained, Ok(4000));
        let mut got = vec![0; 4000];
        b.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|x| *x == 9));
        assert!(pipe.fill_from_memory(&region, 8000..9000).is_err());
    }
}
