//! What a cell asks of a server, where it has one: who serves what to how many.

/// The most connections, and the most idle ones beside them.
pub const MAX_CONNECTIONS: u32 = 100_000;
/// The most requests per second of an open loop.
pub const MAX_RATE_PER_S: u64 = 100_000_000;
/// The longest time that a client thinks, in ns.
pub const MAX_THINK_NS: u64 = 1_000_000_000;

choice! {
    /// How a client comes to its connection.
    pub enum Connect {
        /// It has one and keeps it.
        #[default]
        Kept,
        /// It opens a new one for each request.
        New,
    }
}

choice! {
    /// When requests of an open loop are due.
    pub enum Arrivals {
        /// At even distances, as a metronome beats: all there was in manifests of old.
        #[default]
        Fixed,
        /// As those of many independent clients are: gaps are exponential.
        Poisson,
    }
}
