/// The processes and the connection of a trial, whose work is counted or sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// The port of TCP at which one side listens; none where there is none.
    pub port: Option<u16>,
    /// True if that side is the sender; else it is the receiver.
    pub sender_listens: bool,
    /// The network namespace of the sockets that send there, by the inode of its file; none is any.
    pub network: Option<u64>,
    /// The process that sends, or works on a file; those that it has started count too.
    pub sender: u32,
    /// The process that receives, where there is one.
    pub receiver: Option<u32>,
}

impl Parties {
    /// The port as `bpf/kernel.h` compares it.
    pub(crate) fn port_word(self) -> u64 {
        let of_sender = u64::from(self.sender_listens) << 16;
        self.port.map_or(0, |port| u64::from(port) | of_sender)
    }
}
