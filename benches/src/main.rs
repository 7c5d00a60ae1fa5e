//! explore
use bytecost_lab::protocol::Check;
use bytecost_lab::trial::Settings;
use bytecost_lab::{Lab, Outcome};
use bytecost_meter::MachineMeter;
use bytecost_spec::*;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.get(1).map(String::as_str) == Some("endpoint") {
        bytecost_lab::endpoint::run(
            io::stdin().as_fd().try_clone_to_owned().unwrap(),
            a[2].parse().unwrap(),
        )
        .unwrap();
        return;
    }
    let win: u64 = a[1].parse().unwrap();
    let movers: Vec<&str> = a[2].split(',').collect();
    let sizes: Vec<&str> = a[3].split(',').collect();
    let extra: Vec<(Axis, &str)> = a[4..]
        .iter()
        .map(|x| {
            let (k, v) = x.split_once('=').unwrap();
            (Axis::named(k).unwrap(), v)
        })
        .collect();
    let mut lab = Lab::new(
        Settings {
            program: std::env::current_exe().unwrap(),
            warmup: Duration::from_millis(20),
            window: Duration::from_millis(win),
            check: Check::Quick,
            port: None,
            neighbour_bound: 1.0,
            repeats_most: 0,
            earlier: Duration::ZERO,
        },
        MachineMeter::open(Path::new("/")),
    );
    for m in &movers {
        for s in &sizes {
            let mut cell = Cell::default();
            cell.set(Axis::Mover, m).unwrap();
            cell.set(Axis::Size, s).unwrap();
            for (k, v) in &extra {
                cell.set(*k, v).unwrap();
            }
            let mut out = vec![];
            for i in 0..3 {
                match lab.trial(
                    TrialKey {
                        block: i,
                        cell: 0,
                        attempt: 0,
                    },
                    &cell,
                    false,
                    &AtomicBool::new(false),
                ) {
                    Outcome::Ended(r) => match *r {
                        Record::Sample(x) => {
                            let g = |r: &Readings, c| {
                                r.get(&c).and_then(Reading::measured).unwrap_or(0) as f64
                            };
                            let sr = &x.sender.readings;
                            let rx = x.receiver.as_ref();
                            let rr = rx.map(|r| &r.readings).unwrap_or(sr);
                            let bytes = g(rr, Counter::Bytes);
                            out.push(format!(
                                "{:6.1} {:.3}/{:.3} {}ms m/s={:.0} ns/m={:.2}",
                                bytes * 8.0 / g(rr, Counter::ElapsedNs),
                                g(sr, Counter::CpuNs) / g(sr, Counter::Bytes),
                                g(rr, Counter::CpuNs) / bytes,
                                x.trial_ms,
                                g(sr, Counter::Messages) / g(sr, Counter::ElapsedNs) * 1e9,
                                g(sr, Counter::ElapsedNs) / g(sr, Counter::Messages)
                            ));
                            if i == 2 {
                                out.push(format!(
                                    "copied {:.2} busy {:.0}ms enobufs {} cs {}",
                                    g(sr, Counter::CompletionsCopied) / g(sr, Counter::Completions),
                                    g(&x.machine, Counter::MachineBusyNs) / 1e6,
                                    g(sr, Counter::Enobufs),
                                    g(sr, Counter::ContextSwitchesVoluntary)
                                ));
                            }
                        }
                        Record::Failure(f) => out.push(f.reason),
                    },
                    Outcome::Interrupted => {}
                }
            }
            println!("{m:14} {s:6} {}", out.join(" | "));
        }
    }
}
