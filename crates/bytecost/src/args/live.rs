//! The command lines of `live send` and `live receive`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use bytecost_lab::greeters::Addresses;
use bytecost_lab::hand::PORT;
use bytecost_spec::units;
use clap::Args;

use super::axes::{AxisArgs, RECEIVER, SENDER};

#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    pub axes: AxisArgs<SENDER>,
    /// Address to listen at; one that is not loopback needs --key-file or --insecure
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// TCP port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub port: u16,
    #[command(flatten)]
    pub access: AdmissionArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Who may open a session, and what it is granted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who may connect")]
pub struct AdmissionArgs {
    /// File with the key that the receiver must have too; `bytecost key FILE` makes one
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Let anyone connect who can reach an address that is not loopback, without a key
    #[arg(long, conflicts_with = "key_file")]
    pub insecure: bool,
    /// Addresses that may connect, for example 192.0.2.7 or 192.0.2.0/24 [default: all]
    #[arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ',')]
    pub allow: Vec<Addresses>,
    /// The longest session, for example 10s [default: 60s with --insecure, else no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub max_duration: Option<Duration>,
    /// The most bytes a second that a session sends, for example 100MiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub max_rate: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// IP address of the sender, or IP:PORT
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    #[command(flatten)]
    pub axes: AxisArgs<RECEIVER>,
    /// TCP port of the sender
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// File with the sender's key, which both sides must prove to have
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// How long, for example 10s [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print one JSON object each second, and one as summary
    #[arg(long)]
    pub json: bool,
    /// Print the summary only
    #[arg(long, short)]
    pub quiet: bool,
}
