//! io_uring for a server of many connections: one request takes all connections, one request a
//! connection takes all that comes on it, and what comes lies in buffers that all share.
//!
//! UringServer accept and a ring of provided buffers need Linux 5.19, multishot receive 6.0;
//! io_uring_prep_multishot_accept(3), io_uring_register_buf_ring(3), io_uring_prep_recv(3).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{cqueue, opcode, squeue};

pub use crate::buffer_ring::Piece;
use crate::buffer_ring::{BufferRing, answer};

/// Completions for each request that there is room for: one request leads to many.
const COMPLETIONS: u32 = 4;

/// What a request was; the upper half of its tag.
const ACCEPT: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;
const WATCH: u64 = 4 << 32;
const CANCEL: u64 = 5 << 32;

/// What the ring tells.
#[derive(Debug)]
pub enum ServerEvent {
    /// A connection came, or could not be taken. Unless `goes_on`, none is taken any more until
    /// [`UringServer::accept`] is called again.
    Accepted {
        /// The connection.
        socket: io::Result<OwnedFd>,
        /// Whether more will be taken.
        goes_on: bool,
    },
    /// Something came on a connection: bytes, or none where the stream has ended. Unless
    /// `goes_on`, nothing more is taken until [`UringServer::receive`] is called again.
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

/// The ring.
pub struct UringServer {
    // Dropped first, so that no request outlives the memory that it uses.
    ring: BufferRing,
    /// What is being sent, by the number of the slot.
    sending: Vec<Option<(u32, Vec<u8>)>>,
    free: Vec<usize>,
}

impl UringServer {
    /// A ring for `entries` requests at a time, with `buffers` (a power of two) of `bytes_each`
    /// for what comes in. It is to be used by the thread that made it.
    ///
    /// # Errors
    /// `InvalidInput` for numbers that the kernel does not take, also where it is too old; what
    /// io_uring_setup(2) answers: EPERM or ENOSYS where io_uring is forbidden or missing.
    pub fn new(entries: u32, buffers: u16, bytes_each: usize) -> io::Result<UringServer> {
        let completions = entries.saturating_mul(COMPLETIONS);
        Ok(UringServer {
            ring: BufferRing::new(entries, completions, buffers, bytes_each)?,
            sending: Vec::new(),
            free: Vec::new(),
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

    /// Has [`UringServer::accept`] end. Connections that have been taken already are still told.
    ///
    /// # Errors
    /// As [`UringServer::accept`].
    pub fn stop_accepting(&mut self) -> io::Result<()> {
        let builder = CancelBuilder::user_data(ACCEPT);
        self.push(opcode::AsyncCancel2::new(builder).build(), CANCEL)
    }

    /// Takes in what comes on a socket that blocks, piece by piece, without end.
    ///
    /// # Errors
    /// As [`UringServer::accept`].
    pub fn receive(&mut self, token: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), BufferRing::GROUP).build();
        self.push(entry, RECEIVE | u64::from(token))?;
        self.ring.outstanding += 1;
        Ok(())
    }

    /// Has [`UringServer::receive`] of that token end.
    ///
    /// # Errors
    /// As [`UringServer::accept`].
    pub fn pause(&mut self, token: u32) -> io::Result<()> {
        let builder = CancelBuilder::user_data(RECEIVE | u64::from(token));
        self.push(opcode::AsyncCancel2::new(builder).build(), CANCEL)
    }

    /// Sends all of `bytes`, which the ring keeps until it is done.
    ///
    /// # Errors
    /// As [`UringServer::accept`].
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
        self.ring.outstanding += 1;
        Ok(())
    }

    /// Tells once when a descriptor can be read.
    ///
    /// # Errors
    /// As [`UringServer::accept`].
    pub fn watch(&mut self, token: u32, fd: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(entry, WATCH | u64::from(token))
    }

    fn push(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        // SAFETY: a request uses only memory that this ring owns: the pool, and what is kept
        // in `sending` until its completion has been seen.
        unsafe { self.ring.push(&entry.user_data(tag)) }
    }

    /// Hands over what was asked for, and waits until something has happened. One system call.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn wait(&mut self) -> io::Result<()> {
        self.ring.wait(None)
    }

    /// The next thing that has happened already.
    pub fn next_happened(&mut self) -> Option<ServerEvent> {
        loop {
            let entry = self.ring.next()?;
            let (what, token) = (entry.user_data() & !0xffff_ffff, entry.user_data() as u32);
            let goes_on = cqueue::more(entry.flags());
            let result = answer(&entry);
            return Some(match what {
                ACCEPT => ServerEvent::Accepted {
                    // SAFETY: the kernel has just opened it for us, and nobody else has it.
                    socket: result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) }),
                    goes_on,
                },
                RECEIVE => {
                    self.ring.outstanding -= usize::from(!goes_on);
                    let piece = result.map(|length| self.ring.piece(entry.flags(), length));
                    ServerEvent::Received {
                        token,
                        piece,
                        goes_on,
                    }
                }
                SEND => {
                    self.ring.outstanding -= 1;
                    let slot = token as usize;
                    let Some((token, buffer)) = self.sending.get_mut(slot)?.take() else {
                        continue;
                    };
                    self.free.push(slot);
                    ServerEvent::Sent {
                        token,
                        sent: result,
                        buffer,
                    }
                }
                WATCH => ServerEvent::Ready { token },
                _ => continue,
            });
        }
    }

    /// The bytes of a piece.
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.ring.bytes(piece)
    }

    /// Gives a piece's buffer back to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        self.ring.give_back(piece);
    }
}

impl Drop for UringServer {
    /// Has every request end, and takes the last completions, so that connections that were
    /// taken and not seen are closed. Memory that the kernel still uses after a second, which
    /// would be its fault, is left to it.
    fn drop(&mut self) {
        let mut goes_on = self.ring.cancel_all();
        while goes_on {
            goes_on = self.ring.wait_at_the_end();
            while let Some(happened) = self.next_happened() {
                drop(happened);
            }
        }
        if self.ring.leave_what_is_used() {
            std::mem::forget(std::mem::take(&mut self.sending));
        }
    }
}

#[cfg(test)]
mod tests;
