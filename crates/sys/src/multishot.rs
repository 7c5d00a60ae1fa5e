//! io_uring for a server of many connections: one request takes all connections, one request a
//! connection takes all that comes on it, and what comes lies in buffers that all share.
//!
//! Multishot accept and a ring of provided buffers need Linux 5.19, multishot receive 6.0;
//! io_uring_prep_multishot_accept(3), io_uring_register_buf_ring(3), io_uring_prep_recv(3).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

mod pool;

pub(crate) use pool::Pool;

/// The one group of buffers.
const GROUP: u16 = 0;
/// Completions for each request that there is room for: one request leads to many.
const COMPLETIONS: u32 = 4;
/// How long the kernel may take to give memory back at the end.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// What a request was; the upper half of its tag.
const ACCEPT: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;
const WATCH: u64 = 4 << 32;
const CANCEL: u64 = 5 << 32;

/// What the ring tells.
#[derive(Debug)]
pub enum Happened {
    /// A connection came, or could not be taken. Unless `goes_on`, none is taken any more until
    /// [`Multishot::accept`] is called again.
    Accepted {
        /// The connection.
        socket: io::Result<OwnedFd>,
        /// Whether more will be taken.
        goes_on: bool,
    },
    /// Something came on a connection: bytes, or none where the stream has ended. Unless
    /// `goes_on`, nothing more is taken until [`Multishot::receive`] is called again.
    Received {
        /// The connection's token.
        token: u32,
        /// What came.
        piece: io::Result<Option<Piece>>,
        /// Whether more will be taken.
        goes_on: bool,
    },
    /// What was to be sent is sent, so many bytes of it, or cannot be.
    Sent {
        /// The connection's token.
        token: u32,
        /// Bytes.
        sent: io::Result<usize>,
        /// The memory, which is the caller's again.
        buffer: Vec<u8>,
    },
    /// A descriptor that was watched is ready.
    Ready {
        /// Its token.
        token: u32,
    },
}

/// Bytes that came, in one of the ring's buffers. It is to be given back with
/// [`Multishot::give_back`], or the ring has one buffer less.
#[derive(Debug)]
pub struct Piece {
    /// Where the pool is that the buffer belongs to.
    pool: u64,
    buffer: u16,
    length: usize,
}

impl Piece {
    /// One of that pool, as a completion of its ring tells it.
    pub(crate) fn new(pool: u64, buffer: u16, length: usize) -> Piece {
        Piece {
            pool,
            buffer,
            length,
        }
    }
}

/// The ring.
pub struct Multishot {
    // Dropped first, so that no request outlives the memory that it uses.
    ring: IoUring,
    pool: Option<Pool>,
    /// What is being sent, by the number of the slot.
    sending: Vec<Option<(u32, Vec<u8>)>>,
    free: Vec<usize>,
    /// Requests that use memory of this ring.
    outstanding: usize,
}

impl Multishot {
    /// A ring for `entries` requests at a time, with `buffers` (a power of two) of `bytes_each`
    /// for what comes in. It is to be used by the thread that made it.
    ///
    /// # Errors
    /// `InvalidInput` for numbers that the kernel does not take, also where it is too old; what
    /// io_uring_setup(2) answers: EPERM or ENOSYS where io_uring is forbidden or missing.
    pub fn new(entries: u32, buffers: u16, bytes_each: usize) -> io::Result<Multishot> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(entries.saturating_mul(COMPLETIONS))
            .build(entries)?;
        let mut pool = Pool::new(buffers, bytes_each)?;
        let address = pool.address();
        // SAFETY: the array has this many entries, and lives until after the ring.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(address, buffers, GROUP, 0)?;
        }
        (0..buffers).for_each(|buffer| pool.provide(buffer));
        Ok(Multishot {
            ring,
            pool: Some(pool),
            sending: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
        })
    }

    /// Takes connections from a listener that blocks, one after the other, without end.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC)
            .build();
        self.push(entry, ACCEPT)
    }

    /// Has [`Multishot::accept`] end. Connections that have been taken already are still told.
    ///
    /// # Errors
    /// As [`Multishot::accept`].
    pub fn stop_accepting(&mut self) -> io::Result<()> {
        let builder = CancelBuilder::user_data(ACCEPT);
        self.push(opcode::AsyncCancel2::new(builder).build(), CANCEL)
    }

    /// Takes in what comes on a socket that blocks, piece by piece, without end.
    ///
    /// # Errors
    /// As [`Multishot::accept`].
    pub fn receive(&mut self, token: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.push(entry, RECEIVE | u64::from(token))?;
        self.outstanding += 1;
        Ok(())
    }

    /// Has [`Multishot::receive`] of that token end.
    ///
    /// # Errors
    /// As [`Multishot::accept`].
    pub fn pause(&mut self, token: u32) -> io::Result<()> {
        let builder = CancelBuilder::user_data(RECEIVE | u64::from(token));
        self.push(opcode::AsyncCancel2::new(builder).build(), CANCEL)
    }

    /// Sends all of `bytes`, which the ring keeps until it is done.
    ///
    /// # Errors
    /// As [`Multishot::accept`].
    pub fn send(&mut self, token: u32, socket: BorrowedFd<'_>, bytes: Vec<u8>) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sending.push(None);
            self.sending.len() - 1
        });
        // In its place first: from the push on the kernel may read it.
        self.sending[slot] = Some((token, bytes));
        if let Err(e) = self.push(entry, SEND | slot as u64) {
            self.sending[slot] = None;
            self.free.push(slot);
            return Err(e);
        }
        self.outstanding += 1;
        Ok(())
    }

    /// Tells once when a descriptor can be read.
    ///
    /// # Errors
    /// As [`Multishot::accept`].
    pub fn watch(&mut self, token: u32, fd: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(entry, WATCH | u64::from(token))
    }

    fn push(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        let entry = entry.user_data(tag);
        loop {
            // SAFETY: a request uses only memory that this ring owns: the pool, and what is kept
            // in `sending` until its completion has been seen.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            match self.ring.submit() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => drop(result?),
            }
        }
    }

    /// Hands over what was asked for, and waits until something has happened. One system call.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn wait(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result.map(drop),
        }
    }

    /// The next thing that has happened already.
    pub fn next_happened(&mut self) -> Option<Happened> {
        loop {
            let entry = self.ring.completion().next()?;
            let (what, token) = (entry.user_data() & !0xffff_ffff, entry.user_data() as u32);
            let goes_on = cqueue::more(entry.flags());
            let result = match entry.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                number => Ok(number as usize),
            };
            return Some(match what {
                ACCEPT => Happened::Accepted {
                    // SAFETY: the kernel has just opened it for us, and nobody else has it.
                    socket: result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) }),
                    goes_on,
                },
                RECEIVE => {
                    self.outstanding -= usize::from(!goes_on);
                    let buffer = cqueue::buffer_select(entry.flags());
                    let pool = self.pool.as_ref().map_or(0, Pool::address);
                    let piece =
                        result.map(|length| buffer.map(|buffer| Piece::new(pool, buffer, length)));
                    let piece = piece.map(|piece| self.unless_empty(piece));
                    Happened::Received {
                        token,
                        piece,
                        goes_on,
                    }
                }
                SEND => {
                    self.outstanding -= 1;
                    let slot = token as usize;
                    let Some((token, buffer)) = self.sending.get_mut(slot)?.take() else {
                        continue;
                    };
                    self.free.push(slot);
                    Happened::Sent {
                        token,
                        sent: result,
                        buffer,
                    }
                }
                WATCH => Happened::Ready { token },
                _ => continue,
            });
        }
    }

    /// Gives the buffer of a piece without bytes back: it stands for the end as well.
    fn unless_empty(&mut self, piece: Option<Piece>) -> Option<Piece> {
        match piece {
            Some(piece) if piece.length == 0 => {
                self.give_back(piece);
                None
            }
            other => other,
        }
    }

    /// The bytes of a piece.
    #[must_use]
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.pool.as_ref().map_or(&[], |pool| pool.bytes(piece))
    }

    /// Gives a piece's buffer back to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        if let Some(pool) = &mut self.pool {
            pool.take_back(piece);
        }
    }
}

impl Drop for Multishot {
    /// Has every request end, and takes the last completions, so that connections that were
    /// taken and not seen are closed. Memory that the kernel still uses after a second, which
    /// would be its fault, is left to it.
    fn drop(&mut self) {
        let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        let time = Timespec::from(LAST_WAIT);
        let mut goes_on = self.push(all, CANCEL).is_ok();
        while goes_on {
            let wanted = usize::from(self.outstanding > 0);
            let args = SubmitArgs::new().timespec(&time);
            goes_on = self.outstanding > 0
                && self
                    .ring
                    .submitter()
                    .submit_with_args(wanted, &args)
                    .is_ok();
            while let Some(happened) = self.next_happened() {
                drop(happened);
            }
        }
        if self.outstanding > 0 {
            std::mem::forget(self.pool.take());
            std::mem::forget(std::mem::take(&mut self.sending));
        }
    }
}

#[cfg(test)]
mod tests;
