/// The processes and the connection of a trial, whose work is counted or sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// The port of TCP or UDP that is sent to; none where there is none.
    pub port: Option<u16>,
    /// The network namespace of the sockets that send there, by the inode of its file; none is any.
    pub network: Option<u64>,
    /// The process that sends, or works on a file; those that it has started count too.
    pub sender: u32,
    /// The process that receives, where there is one.
    pub receiver: Option<u32>,
}
