//! The options of a run on two hosts.

use std::net::IpAddr;

use clap::Args;

/// The other host of a run, and how it is reached.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Two hosts")]
pub struct PeerArgs {
    /// The other host, on which one side of each trial runs: ssh:HOST or ssh:USER@HOST:PORT, or a
    /// command that runs a program there, such as 'docker exec -i b', 'kubectl exec -i b --' or 'ip
    /// netns exec b'. A run records its program and the host, and no other words
    #[arg(long, value_name = "COMMAND")]
    pub peer: Option<String>,
    /// What bytecost is called on the other host [default: bytecost]
    #[arg(long, value_name = "PROGRAM", requires = "peer")]
    pub peer_program: Option<String>,
    /// The address for data connections: of the host that listens [default: the first of its
    /// addresses that can be reached]
    #[arg(long, value_name = "ADDRESS", requires = "peer")]
    pub address: Option<IpAddr>,
    /// Which host listens for data connections: `here` where only the other host can connect
    /// [default: there]
    #[arg(
        long,
        value_name = "HOST",
        requires = "peer",
        hide_possible_values = true
    )]
    pub data_from: Option<DataFrom>,
    /// Send from the other host to this one; with servers, serve here and ask from there
    #[arg(long, requires = "peer")]
    pub reverse: bool,
    /// Put this program on the other host for the run, where there is none of the same build
    #[arg(long, requires = "peer")]
    pub copy_program: bool,
}

/// Which host listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DataFrom {
    /// The other one
    There,
    /// This one
    Here,
}
