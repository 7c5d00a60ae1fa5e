//! What a transport that is made for a run lies on.

/// The most that can be asked of a device in one packet, in bytes, and the least: the kernel's
/// GSO_MAX_SIZE (include/linux/netdevice.h), and what IPv4 allows as an MTU.
pub const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 576..=524_280;

choice! {
    /// What takes the packets of a wire.
    pub enum Device {
        /// A tun device: packets of IP, without frames.
        #[default]
        Tun,
        /// One end of a veth pair: frames of Ethernet, as a card has.
        Veth,
    }
}

impl Device {
    /// What it is, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Device::Tun => "a tun device",
            Device::Veth => "one end of a veth pair",
        }
    }
}
