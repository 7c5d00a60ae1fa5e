//! The command lines of `live server` and `live load`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytecost_engine::servers::Addresses;
use bytecost_engine::{SERVERS, SERVICES, Service};
use bytecost_lab::live::PORT;
use bytecost_spec::{Arrivals, Axis, Cell, units};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

/// The service of `live server`: a row of the table of services, and its options.
#[derive(Debug)]
pub struct ServedService {
    pub service: &'static Service,
    pub args: ServiceArgs,
}

/// Parses a value of the axis of arrivals.
fn arrivals(text: &str) -> Result<Arrivals, String> {
    let mut cell = Cell::default();
    cell.set(Axis::Arrivals, text).map_err(|e| e.to_string())?;
    Ok(cell.serving.arrivals)
}

#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// Concurrency model, see below
    #[arg(long, value_name = "NAME", default_value = "epoll")]
    pub model: String,
    /// Bytes of a message; clients need the same --size [default: 64]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub size: Option<u64>,
    /// Address to listen at; one beyond loopback needs --allow
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// Addresses that may connect, for example 192.0.2.7 or 192.0.2.0/24 [default: on loopback all]
    #[arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ',')]
    pub allow: Vec<Addresses>,
    /// TCP port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub port: u16,
    /// CPUs to run on, with all threads and children, for example 0 or 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Worker threads of the model `pool` [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Maximum number of connections at one time; others wait [default: the limit of open files and half of the available memory, at most 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: Option<u32>,
    /// Maximum time for a client to send a request, or to receive a response
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "5s", allow_hyphen_values = true)]
    pub patience: Duration,
    /// Maximum time between the requests of a connection [default: 60s, on loopback no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub idle_timeout: Option<Duration>,
    /// Maximum time from the first request of a connection to its end [default: 60s where others than this
    /// machine can connect, else no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub max_duration: Option<Duration>,
    /// Maximum rate of all responses in bytes a second, for example 100MiB, of which each of
    /// --connections has an equal share [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, requires = "connections", allow_hyphen_values = true)]
    pub max_rate: Option<u64>,
    /// Maximum number of connections from one address; further ones are closed [default: 256, on
    /// loopback no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub per_address: Option<u32>,
    /// Print the totals as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LoadArgs {
    /// IP address of the server, or IP:PORT
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    /// Service of the server: top, echo or fixed
    #[arg(value_name = "SERVICE", default_value = "top")]
    pub service: String,
    /// TCP port of the server
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Bytes of a message, the same as of the server [default: 64]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub size: Option<u64>,
    /// Connections that send requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: u32,
    /// Additional connections that are idle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle: u32,
    /// Requests of each connection [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// How long to send requests, for example 5s, when all are connected
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Warm-up before it, which does not count
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, requires = "duration", allow_hyphen_values = true)]
    pub warmup: Option<Duration>,
    /// Closed loop: time from a response to the next request
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, conflicts_with = "rate", allow_hyphen_values = true)]
    pub think: Option<Duration>,
    /// Open loop: requests per second of all connections, due whatever the server does; latency
    /// counts from the time at which a request is due
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub rate: Option<f64>,
    /// When they are due: poisson, as the requests of many independent clients, or fixed, at even
    /// distances [default: poisson]
    #[arg(long, value_name = "NAME", value_parser = arrivals, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Open a new connection for each request
    #[arg(long)]
    pub new_connections: bool,
    /// Time over which the connections are opened
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub ramp: Option<Duration>,
    /// Maximum number of requests in flight on a connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: u32,
    /// Threads of the load generator, which share the connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u32,
    /// Maximum time for a response; its connection is then closed
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "5s", allow_hyphen_values = true)]
    pub patience: Duration,
    /// CPUs to run on, with all threads, for example 1 or 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Print a JSON object for the first response, and one for the load
    #[arg(long)]
    pub json: bool,
}

/// One subcommand for each service, so that each has the options that it takes.
impl Subcommand for ServedService {
    fn augment_subcommands(command: Command) -> Command {
        let sub = |service: &Service| {
            ServiceArgs::augment_args(Command::new(service.name))
                .about(format!("A server that {}", service.summary))
                .mut_arg("size", |size| size.hide(service.sizes.is_none()))
                .after_help(models())
        };
        command
            .subcommands(SERVICES.iter().map(sub))
            .after_help(models())
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Service::named(name).is_some()
    }
}

/// The table of concurrency models under the help.
fn models() -> String {
    let longest = SERVERS.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let lines = SERVERS
        .iter()
        .map(|s| format!("  {:<longest$}  {}\n", s.name, s.summary))
        .collect::<String>();
    format!(
        "Models:\n{lines}\nLoad it with `bytecost live load`. Ctrl-C ends it after the responses in flight."
    )
}

impl FromArgMatches for ServedService {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ServedService, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        Ok(ServedService {
            service: Service::named(name).ok_or_else(missing)?,
            args: ServiceArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
