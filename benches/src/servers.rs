//! `servers`: rates and CPU time of `epoll` and `uring`, next to those of sockperf's TCP server and a
//! bare epoll loop in C.
//!
//! All four echo messages of 64 bytes on one CPU, and bytecost's own load generator on the other
//! CPUs sends all four the same requests. sockperf's server reads a header of its own, so that every message
//! begins with one, for each of the four (`message.rs`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use bytecost_lab::descriptors;
use bytecost_lab::load::{Limit, Load, LoadOutcome, LoadSpan, Pace};
use bytecost_spec::service::is_saturated;
use bytecost_spec::units;
use bytecost_stats::quantile;
use bytecost_sys::process;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Blocks, Subject, alternate};
use crate::ours::WARMUP;
use crate::peer::{self, Peer};
use crate::result::{Row, Target};

mod contenders;
mod edges;
mod message;

pub use contenders::play;
use contenders::{Rival, echo, ours, rivals, setup};
use edges::Edges;

pub const BENCH: Bench = Bench {
    name: "servers",
    question: "Do `epoll` and `uring` serve as much as sockperf's TCP server and a bare C loop?",
    target: "requests/s at least as high, CPU per request at most as high; echo of 64 bytes",
    by_name_alone: false,
    run,
};

const SIZE: usize = 64;
const CONNECTIONS: [u32; 2] = [64, 1000];
const OURS: [&str; 2] = ["epoll", "uring"];
/// The longest time of a response.
const PATIENCE: Duration = Duration::from_secs(10);
/// More threads send no more requests than these.
const MOST_THREADS: usize = 4;

/// Answers and CPU time of one server in a window.
#[derive(Clone, Debug)]
struct Served {
    per_s: f64,
    cpu_us: f64,
    /// CPU time of the generator for one request.
    generator_us: f64,
    busy_share: f64,
    /// Share of the time in which the server ran on its one CPU or waited for it.
    server_share: f64,
    /// The reason if the generator may have been the bottleneck.
    limit: Option<String>,
}

/// Where what runs, and what the machine did meanwhile.
struct Place {
    server: u32,
    generator: Vec<u32>,
    window: Duration,
    others: Mutex<Vec<f64>>,
}

fn run(context: &Context) -> Result<BenchOutcome> {
    let directory = tempfile::tempdir()?;
    let mut found = BenchResults::default();
    let rivals = rivals(context.cpus.0, directory.path(), &mut found)?;
    if rivals.is_empty() {
        return Ok(BenchOutcome::NotRun(found.notes.join("; ")));
    }
    let place = Place::new(context)?;
    found.notes.push(format!(
        "servers on CPU {}, the load generator with {} on CPUs {}",
        place.server,
        match place.generator.len() {
            1 => "1 thread".to_owned(),
            n => format!("{n} threads"),
        },
        bytecost_spec::cpulist::write(&place.generator),
    ));
    for connections in CONNECTIONS {
        let mut subjects: Vec<Subject<'_, Served>> = OURS
            .iter()
            .map(|model| {
                let (place, start) = (&place, move |port| ours(model, port, place.server));
                Subject::new(*model, move || place.measure(connections, &start))
            })
            .collect();
        for rival in &rivals {
            let place = &place;
            subjects.push(Subject::new(rival.name, move || {
                place.measure(connections, &rival.start)
            }));
        }
        let blocks = alternate(subjects, context.blocks, context.seed)?;
        judge(connections, blocks, &rivals, &mut found);
    }
    let others = place.others.into_inner().unwrap_or_default();
    found.others.extend(quantile(&others, 0.5));
    Ok(BenchOutcome::Ran(found))
}

/// The rows and notes of one number of connections.
fn judge(connections: u32, blocks: Blocks<Served>, rivals: &[Rival], found: &mut BenchResults) {
    let names: Vec<&str> = OURS
        .into_iter()
        .chain(rivals.iter().map(|r| r.name))
        .collect();
    for (i, name) in names.iter().enumerate() {
        found.notes.push(format!(
            "{connections} connections, {name}: {} requests/s, {} µs of CPU each, busy {}; generator {} µs, busy {}",
            units::number(blocks.typical(i, |s| s.per_s)),
            units::number(blocks.typical(i, |s| s.cpu_us)),
            units::percent(blocks.typical(i, |s| s.server_share)),
            units::number(blocks.typical(i, |s| s.generator_us)),
            units::percent(blocks.typical(i, |s| s.busy_share)),
        ));
    }
    let limited = |i: usize| blocks.whole.iter().filter_map(move |b| b[i].limit.as_ref());
    // No verdict where in more than half of the trials the figures are the generator's.
    let is_limited = |i: usize| limited(i).count() * 2 > blocks.whole.len();
    if let Some(i) = (0..names.len()).find(|i| is_limited(*i)) {
        let why = limited(i).next_back().map_or("", String::as_str);
        found.notes.push(format!(
            "{connections} connections: no verdict where the load generator was the bottleneck: {why}"
        ));
    }
    for (ours, model) in OURS.iter().enumerate() {
        // On as many CPUs as the server has, it sustains more where a request costs it less.
        found.rows.push(Row::new(
            format!("{connections}, generator/{model}: CPU/request"),
            blocks.log_value(ours, |s| s.generator_us / s.cpu_us),
            Target::AtMost(1.0),
        ));
        for (nth, rival) in rivals.iter().enumerate() {
            let theirs = OURS.len() + nth;
            let judged = |target| {
                if is_limited(ours) || is_limited(theirs) {
                    Target::Shown
                } else {
                    target
                }
            };
            let what = |measure: &str| format!("{connections}, {model}/{}: {measure}", rival.name);
            found.rows.push(Row::new(
                what("requests/s"),
                blocks.log_ratio(ours, theirs, |s| s.per_s),
                judged(Target::AtLeast(1.0)),
            ));
            found.rows.push(Row::new(
                what("CPU/request"),
                blocks.log_ratio(ours, theirs, |s| s.cpu_us),
                judged(Target::AtMost(1.0)),
            ));
        }
    }
    found.failures.extend(blocks.failures);
}

impl Place {
    /// The server has the first CPU for itself, the generator the others, where there are any.
    fn new(context: &Context) -> Result<Place> {
        let server = context.cpus.0;
        let mut generator = process::affinity()?;
        generator.retain(|cpu| *cpu != server);
        generator.truncate(MOST_THREADS);
        if generator.is_empty() {
            generator.push(server);
        }
        Ok(Place {
            server,
            generator,
            window: context.window,
            others: Mutex::default(),
        })
    }

    /// A load on the server at a port.
    fn load(&self, connections: u32, port: u16) -> Load {
        let mut load = Load::once(
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            message::service(),
            setup(),
        );
        load.connections = connections;
        load.threads = self.generator.len() as u32;
        load.timeout = PATIENCE;
        load.pace = Pace::Closed {
            think: Duration::ZERO,
        };
        load.span = LoadSpan::Time {
            warmup: WARMUP,
            window: self.window,
        };
        load
    }

    /// Starts a server, loads it for a window, and ends it.
    fn measure(&self, connections: u32, start: &dyn Fn(u16) -> Result<Peer>) -> Result<Served> {
        let port = peer::free_port()?;
        let load = self.load(connections, port);
        // Before the server is started, which inherits the limit.
        descriptors::make_room(load.descriptors())?;
        let mut server = start(port)?;
        peer::wait_for_listener(port, &mut server)?;
        let edges = Edges::new(server.child().id());
        let outcome = self.run_load(&load, &edges)?;
        let errors = outcome.errors.all();
        ensure!(errors == 0, "{errors} errors: {:?}", outcome.errors);
        ensure!(outcome.answers_in_window > 0, "there was no response");
        let cpu_ns = edges.cpu_ns()?;
        let generator_ns = outcome.generator.cpu_ns as f64;
        let own_ns = cpu_ns + generator_ns;
        let answers = outcome.answers_in_window as f64;
        let window_ns = outcome.window_ns as f64;
        let wanted_ns = edges.wanted_ns()?;
        // A server without idle time serves as much as it can, however busy the generator is.
        let is_idle = !is_saturated(wanted_ns, window_ns, 1.0);
        let holds = |limit: &Limit| is_idle || matches!(limit, Limit::Late(_));
        let limit = outcome.generator_limit().filter(holds);
        if let (Some(share), Ok(mut others)) = (edges.others(own_ns), self.others.lock()) {
            others.push(share);
        }
        Ok(Served {
            per_s: outcome.answers_per_s(),
            cpu_us: cpu_ns / 1e3 / answers,
            generator_us: generator_ns / 1e3 / answers,
            busy_share: outcome.generator.busy_share,
            server_share: wanted_ns / window_ns,
            limit: limit.map(|l| l.to_string()),
        })
    }

    /// Runs the load in a thread of its own, since it binds its thread to the generator's CPUs.
    fn run_load(&self, load: &Load, edges: &Edges) -> Result<LoadOutcome> {
        thread::scope(|scope| {
            let generator = scope.spawn(|| {
                process::set_affinity(&self.generator)?;
                load.run(&AtomicBool::new(false), &|stage| edges.pass(stage))
            });
            generator
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the generator panicked")))
        })
        .map_err(|e| anyhow!("the load generator: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_verdict_is_given_where_the_generator_was_the_bottleneck() {
        let served = |per_s, limited: bool| Served {
            per_s,
            cpu_us: 3.0,
            generator_us: 3.0,
            busy_share: 0.5,
            server_share: 0.9,
            limit: limited.then(|| "it was busy".to_owned()),
        };
        let rival = Rival {
            name: "rival",
            start: Box::new(|_| Err(anyhow!("not started"))),
        };
        let judged = |limited: [bool; 3]| {
            let block = |per_s: f64| {
                let [a, b, c] = limited;
                vec![served(per_s, a), served(2.0 * per_s, b), served(per_s, c)]
            };
            let blocks = Blocks {
                whole: [1e5, 1.01e5, 0.99e5, 1e5].map(block).to_vec(),
                failures: Vec::new(),
            };
            let mut found = BenchResults::default();
            judge(64, blocks, std::slice::from_ref(&rival), &mut found);
            let shown = |row: &Row| row.verdict() == crate::result::Verdict::Shown;
            let own = |row: &&Row| !row.label().contains("generator");
            let rows: Vec<bool> = found.rows.iter().filter(own).map(shown).collect();
            (rows, found.notes.iter().any(|n| n.contains("it was busy")))
        };
        assert_eq!(judged([false; 3]), (vec![false; 4], false));
        assert_eq!(
            judged([true, false, false]),
            (vec![true, true, false, false], true)
        );
        assert_eq!(judged([false, false, true]), (vec![true; 4], true));
    }
}
