//! A pipe of our own, between a file or memory and a socket.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags};

use crate::region::Region;

/// A pipe.
#[derive(Debug)]
pub struct Pipe {
    /// The end to read from.
    pub read: OwnedFd,
    /// The end to write to.
    pub write: OwnedFd,
    /// How many bytes of whole pages it holds.
    pub capacity: usize,
}

impl Pipe {
    /// A pipe that holds `bytes` if the kernel lets it grow so far, else what it has.
    pub fn new(bytes: usize) -> io::Result<Pipe> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Above fs.pipe-max-size only root may go; a smaller pipe works too.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, bytes.max(1));
        let capacity = rustix::pipe::fcntl_getpipe_size(&write)?;
        Ok(Pipe {
            read,
            write,
            capacity,
        })
    }

    /// vmsplice(2): pages of `region` into the pipe, how many bytes fitted; `InvalidInput` outside
    /// the region. The pipe, and whatever it is spliced to, refers to the pages themselves: what is
    /// written to them later is what is read from it. Nothing ever says that they are done with.
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

/// The flags of splice(2) for what may have more of the message behind it.
#[inline]
pub fn moving(more: bool) -> SpliceFlags {
    match more {
        true => SpliceFlags::MOVE | SpliceFlags::MORE,
        false => SpliceFlags::MOVE,
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
