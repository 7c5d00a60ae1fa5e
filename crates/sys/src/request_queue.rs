//! What carries out requests to a file while others are asked for.

use std::io;
use std::time::Duration;

use crate::io_buffers::IoBuffers;

/// Requests to a file, each of which moves all of a place of memory. How that goes is what its
/// implementations differ in.
pub trait RequestQueue {
    /// Calls that it takes to start a request, beside those that hand several over.
    const CALLS_TO_START: u64 = 0;

    /// The memory of the requests.
    fn places(&self) -> &IoBuffers;

    /// Queues or starts a request for all of a place at an offset of the file.
    ///
    /// # Errors
    /// `WouldBlock` while another request uses the place; what the call answers that starts it.
    fn start(&mut self, place: usize, offset: u64) -> io::Result<()>;

    /// Hands over what is queued and waits for at least `want` requests: how many system calls
    /// that took, or none when `timeout` ran out before.
    ///
    /// # Errors
    /// What the calls answer. Requests that were not taken are given up.
    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>>;

    /// The next request that is over: its place, which is free again, and its bytes or a negative
    /// error number.
    fn finished(&mut self) -> Option<(usize, i32)>;
}
