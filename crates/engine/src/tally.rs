//! The counts of a mover.

/// The counts of a mover since it was opened; every number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that the kernel has taken whole.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// System calls, those for completions included.
    pub calls: u64,
    /// Buffers that the kernel kept after it had taken the message, or sends, if none come back.
    pub held: u64,
    /// Buffers of these that were released.
    pub released: u64,
    /// Buffers of these that the kernel reports as copied.
    pub copied: u64,
    /// Sends that the kernel had no room to note (ENOBUFS).
    pub enobufs: u64,
    /// Requests that the page cache could not serve at once and that were made again (EAGAIN).
    pub misses: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    /// The counts since an earlier tally of the same mover.
    pub fn since(&self, earlier: &Tally) -> Tally {
        self.with(earlier, u64::wrapping_sub)
    }

    /// The sums of two tallies.
    pub fn plus(&self, other: &Tally) -> Tally {
        self.with(other, u64::wrapping_add)
    }

    fn with(&self, other: &Tally, f: fn(u64, u64) -> u64) -> Tally {
        Tally {
            messages: f(self.messages, other.messages),
            bytes: f(self.bytes, other.bytes),
            calls: f(self.calls, other.calls),
            held: f(self.held, other.held),
            released: f(self.released, other.released),
            copied: f(self.copied, other.copied),
            enobufs: f(self.enobufs, other.enobufs),
            misses: f(self.misses, other.misses),
        }
    }
}
