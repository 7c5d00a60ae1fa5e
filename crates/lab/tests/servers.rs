//! All servers and services under every load: requests are answered rightly and in order, and no
//! client makes them hang, crash, leak or starve. Servers are processes of this program, so that
//! descriptors can be counted, limits set, and one that forks has no threads.

use std::process::ExitCode;

use bytecost_engine::{SERVERS, SERVICES};
use libtest_mimic::Arguments;

#[path = "servers_host/conformance.rs"]
mod conformance;
#[path = "servers_host/faults.rs"]
mod faults;
mod harness;
#[path = "servers_host/holding.rs"]
mod holding;
#[path = "servers_host/process.rs"]
mod process;
#[path = "servers_host/stops.rs"]
mod stops;

use harness::case;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|w| w == "serve") {
        return process::serve(&words[1..]);
    }
    let mut trials = Vec::new();
    for server in SERVERS {
        for service in SERVICES {
            trials.extend(conformance::LOADS.iter().map(|way| {
                let name = format!("{}/{}/{}", server.name, service.name, way.0);
                case(name, move || conformance::check(server, service, *way))
            }));
        }
        for (name, check) in faults::FAULTS.iter().chain(stops::STOPS) {
            trials.push(case(format!("{}/{name}", server.name), || check(server)));
        }
        if holding::HOLDERS.contains(&server.name) {
            let name = format!("{}/ten thousand are held and served", server.name);
            trials.push(case(name, || holding::check(server)));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
