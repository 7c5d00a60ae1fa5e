//! The command lines of a server by hand and of the load on it: `serve SERVICE` and `ask`.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytecost_engine::{SERVERS, SERVICES, Service};
use bytecost_lab::hand::PORT;
use bytecost_spec::units;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

/// What `serve` is to serve, where it is not messages: a row of the table of services.
#[derive(Debug)]
pub struct ServedService {
    /// The word.
    pub service: String,
    /// The row of that name, and its options; none where there is no such row, or where options
    /// of messages stand before the word.
    pub known: Option<(&'static Service, ServiceArgs)>,
}

#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// How many connections are served at once, see below
    #[arg(long, value_name = "NAME", default_value = "epoll")]
    pub model: String,
    /// Bytes of a message, which clients must name as well [default: 64]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub size: Option<u64>,
    /// Address to listen at; any but a loopback address lets others make this machine work
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::LOCALHOST)]
    pub listen: Ipv4Addr,
    /// TCP port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub port: u16,
    /// CPUs to run on, with all threads and children, for example 0 or 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Threads that serve, for the model `pool` [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Most connections at one time, others wait [default: as many as may be open, at most 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: Option<u32>,
    /// How long a client may take over a request, or leave an answer untaken
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "5s", allow_hyphen_values = true)]
    pub patience: Duration,
    /// How long a connection may stay open between requests; for ever where it is left out
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub idle_timeout: Option<Duration>,
    /// Print the tally as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AskArgs {
    /// IP address of the server, or IP:PORT
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    /// What it serves: top, echo or fixed
    #[arg(value_name = "SERVICE", default_value = "top")]
    pub service: String,
    /// TCP port of the server
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Bytes of a message, as the server was told [default: 64]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub size: Option<u64>,
    /// Connections that ask
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: u32,
    /// Connections beside them that are only there
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle: u32,
    /// Requests of each connection [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// How long to ask, for example 5s, once everyone is connected
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Time before it in which nothing counts
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, requires = "duration", allow_hyphen_values = true)]
    pub warmup: Option<Duration>,
    /// Closed loop: time between an answer and the next request
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, conflicts_with = "rate", allow_hyphen_values = true)]
    pub think: Option<Duration>,
    /// Open loop: requests per second of all connections, due at fixed times whatever the server
    /// does; latency counts from then
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub rate: Option<f64>,
    /// Open a new connection for each request
    #[arg(long)]
    pub new_connections: bool,
    /// Time over which the connections are opened
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub ramp: Option<Duration>,
    /// Requests that a connection has under way at most
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: u32,
    /// Threads that ask, which share the connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u32,
    /// How long an answer may take before its connection is given up
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "5s", allow_hyphen_values = true)]
    pub patience: Duration,
    /// CPUs to run on, with all threads, for example 1 or 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Print a JSON object for the answer, and one for the load
    #[arg(long)]
    pub json: bool,
}

/// One subcommand a service, so that each has the options that it takes; any other word is taken
/// too, to be refused in words.
impl Subcommand for ServedService {
    fn augment_subcommands(command: Command) -> Command {
        SERVICES
            .iter()
            .fold(command, |command, service| {
                command.subcommand(service_command(service))
            })
            .allow_external_subcommands(true)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(_name: &str) -> bool {
        true
    }
}

fn service_command(service: &'static Service) -> Command {
    ServiceArgs::augment_args(Command::new(service.name))
        .about(format!("A server that {}", service.summary))
        .mut_arg("size", |size| size.hide(service.sizes.is_none()))
        .after_help(models())
}

/// The table of servers, for help.
fn models() -> String {
    let longest = SERVERS.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let lines = SERVERS
        .iter()
        .map(|s| format!("  {:<longest$}  {}\n", s.name, s.summary));
    format!(
        "Models:\n{}\nAsk it with `bytecost ask`. Ctrl-C ends it: answers under way are finished.",
        lines.collect::<String>()
    )
}

impl FromArgMatches for ServedService {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ServedService, clap::Error> {
        let (name, matches) = matches
            .subcommand()
            .ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        // Behind options of messages the word is taken like any other, and has no options.
        let has_options = matches.try_contains_id("model").is_ok();
        let known = Service::named(name)
            .filter(|_| has_options)
            .map(|service| ServiceArgs::from_arg_matches(matches).map(|args| (service, args)));
        Ok(ServedService {
            service: name.to_owned(),
            known: known.transpose()?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
