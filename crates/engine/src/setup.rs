//! The parts that a mover is made from: its socket, its file, its payload.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use bytecost_spec::cell::{HugePages, Reaping};

use crate::block_order::BlockOrder;
use crate::pattern::PayloadPattern;

/// The socket, the file and the options of a mover.
#[derive(Debug)]
pub struct Setup {
    /// A connected, blocking stream socket; none for a mover without a peer.
    pub socket: Option<OwnedFd>,
    /// The file, for movers of files. Without it a mover that sends a file makes one in memory.
    pub file: Option<FileWork>,
    /// The directory of the compiled Java program, for movers that start it. Without it each compiles it.
    pub java: Option<PathBuf>,
    /// Bytes of a message.
    pub size: usize,
    /// Pieces of a message, for movers that use fields.
    pub fields: usize,
    /// Messages in the payload ring.
    pub slots: usize,
    /// Number of the flow, which decides the content.
    pub flow: u32,
    /// Write each message anew before it is sent, where [`bytecost_spec::survey::Release`] lets it.
    pub fresh: bool,
    /// Fill every field with one byte before each message is sent.
    pub refill: bool,
    /// The handling of zero-copy completions, where there are any.
    pub reaping: Reaping,
    /// Pages of the memory that work is done on.
    pub huge_pages: HugePages,
    /// The longest time of a call without progress before it fails.
    pub patience: Duration,
}

/// A file and the requests that a mover makes to it.
#[derive(Debug)]
pub struct FileWork {
    /// The file, opened for this mover alone with the flags that the cell needs.
    pub file: OwnedFd,
    /// The offsets of the requests, in their order.
    pub order: BlockOrder,
    /// Requests in flight at most; at least 1.
    pub depth: usize,
    /// Bytes of one call, for movers that move a message or a request piece by piece.
    pub block: usize,
    /// The file that is written, for movers that have two: as long as the part of the file that is read.
    pub target: Option<OwnedFd>,
}

impl Setup {
    /// The setup for messages of `size` bytes in one piece, without a socket or a file.
    pub fn new(size: usize, patience: Duration) -> Setup {
        Setup {
            socket: None,
            file: None,
            java: None,
            size,
            fields: 1,
            slots: 1,
            flow: 0,
            fresh: false,
            refill: false,
            reaping: Reaping::Full,
            huge_pages: HugePages::Auto,
            patience,
        }
    }

    pub(crate) fn take_file(&mut self) -> io::Result<FileWork> {
        let file = self.file.take();
        file.ok_or_else(|| wrong("this mover needs a file"))
    }

    /// The content of the stream. A mover whose buffers never come back cannot write them anew.
    pub fn pattern(&self, fresh: bool) -> PayloadPattern {
        if self.refill {
            return PayloadPattern::constant(self.flow);
        }
        let ring = self.size as u64 * self.slots as u64;
        PayloadPattern::new(self.flow, if fresh { 0 } else { ring })
    }

    /// For movers whose payload must not change in flight: no refill before each message.
    pub(crate) fn write_once(&mut self) -> io::Result<()> {
        self.fresh = false;
        if self.refill {
            let why = "this mover cannot refill its messages: nothing reports when they were read";
            return Err(wrong(why));
        }
        Ok(())
    }

    pub(crate) fn take_socket(&mut self) -> io::Result<OwnedFd> {
        let socket = self.socket.take();
        socket.ok_or_else(|| wrong("this mover needs a socket"))
    }
}

fn wrong(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
