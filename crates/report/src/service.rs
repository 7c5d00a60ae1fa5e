//! Live reports of a server and of a load on it, in words and as JSON.

use bytecost_spec::service::{
    Asked, Asking, Fairness, Latencies, Pace, Process, Response, ServerTally,
};
use bytecost_spec::{Arrivals, units};
use itertools::Itertools as _;

use crate::document::{DocBlock, DocColumn, DocTable, Document};
use crate::numbers::{percent, whole};
use crate::style::{Ink, Style};
use crate::terminal::{self, labelled};
use crate::text::count;

mod json;

pub use json::{answer_json, asked_json, tally_json};

/// Number of responses below which there is no verdict on a server.
const FEW_ANSWERS: u64 = 1000;
/// The share of the asked rate that must be answered, for a server to have kept up with it.
const KEPT_UP: f64 = 0.99;

/// The answer to one question.
pub fn answer(asking: &Asking, answer: &Response, style: Style) -> String {
    let title = format!("{} responds to `{}`", asking.address, asking.service);
    let title = style.paint(Ink::Strong, &title);
    let content = match answer {
        Response::Busiest(processes) => busiest(processes, style),
        Response::Content { bytes } => format!("  {}, verified\n", units::bytes_in_words(*bytes)),
    };
    format!("{title}\n{content}")
}

fn busiest(processes: &[Process], style: Style) -> String {
    let columns = DocColumn::numbers("process", ["pid", "user s", "kernel s"]);
    let rows = processes.iter().map(|p| {
        let [user, kernel] = [p.user_s, p.kernel_s].map(|s| format!("{s:.2}"));
        vec![p.name.clone(), p.pid.to_string(), user, kernel]
    });
    let blocks = vec![DocBlock::Table(DocTable::of(columns, rows))];
    terminal::print(&Document { blocks }, style)
}

/// Report of a load that has ended.
pub fn asked(asked: &Asked, style: Style) -> String {
    let here = if asked.interrupted { " here" } else { "" };
    let seconds = units::number(asked.elapsed_s);
    let title = format!("load ended{here} after {seconds} s");
    let mut rows = vec![
        ("requests", requests(&asked.asking)),
        ("responses", responses(asked)),
    ];
    rows.extend(asked.server_gone_s.map(units::number).map(|gone_s| {
        let why = "it refused every connection; the rate is of the time before";
        ("server", format!("gone after {gone_s} s: {why}"))
    }));
    rows.extend(asked.latency.as_ref().map(|l| ("latency", latencies(l))));
    let note = "a single live measurement, without confidence intervals";
    rows.extend([
        ("errors", errors(asked)),
        ("fairness", fairness(asked)),
        ("generator", generator(asked)),
        ("verdict", verdict(asked)),
        ("note", note.to_owned()),
    ]);
    let title = style.paint(Ink::Strong, &title);
    format!("{title}\n{}", labelled(rows, 12, style))
}

fn requests(asking: &Asking) -> String {
    let mut words = format!("`{}`", asking.service);
    if let Some(bytes) = asking.size_bytes {
        words += &format!(" of {}", units::bytes_in_words(bytes));
    }
    let connections = count(asking.connections as usize, "connection", "connections");
    words += &format!(" over {connections}");
    words += if asking.kept {
        ", kept"
    } else {
        " at a time, a new one for each request"
    };
    if asking.idle > 0 {
        words += &format!(", and {} idle ones", whole(asking.idle.into()));
    }
    if asking.depth > 1 {
        words += &format!(", each with {} requests in flight", asking.depth);
    }
    words += &match asking.pace {
        Pace::Open { per_s } => {
            let (per_s, arrivals) = (units::number(per_s), asking.arrivals.name());
            format!("; open loop, {per_s} requests/s, {arrivals} arrivals")
        }
        Pace::Closed { think } if !think.is_zero() => {
            let think_s = units::number(think.as_secs_f64());
            format!("; closed loop, the next request {think_s} s after the response")
        }
        Pace::Closed { .. } => "; closed loop, the next request upon the response".to_owned(),
    };
    words
}

fn responses(asked: &Asked) -> String {
    let requests = count(asked.answers as usize, "request", "requests");
    let rate = match asked.answers_per_s {
        per_s if per_s >= 100.0 => whole(per_s as u64),
        per_s => units::number(per_s),
    };
    let unserved = match asked.unanswered {
        0 => String::new(),
        n => format!("; {} without a response", whole(n)),
    };
    format!("{requests}, {rate} requests/s{unserved}")
}

fn latencies(l: &Latencies) -> String {
    let us = [l.us_p50, l.us_p90, l.us_p99, l.us_p999, l.us_max].map(units::number);
    let [p50, p90, p99, p999, max] = us;
    let requests = count(l.count as usize, "request", "requests");
    format!(
        "p50 {p50} µs, p90 {p90} µs, p99 {p99} µs, p99.9 {p999} µs, max {max} µs, of {requests}"
    )
}

fn errors(asked: &Asked) -> String {
    let failed = asked.errors.iter().filter(|(_, n)| *n > 0);
    let mut words = failed.map(|(kind, n)| {
        let what = match *kind {
            "closed" => "closed by the server",
            "timeout" => "not served in time",
            "wrong" => "with a wrong response",
            "local" => "not opened here (no descriptor, port or memory)",
            kind => kind,
        };
        format!("{} {what}", whole(*n))
    });
    match words.join(", ").as_str() {
        "" => "none".to_owned(),
        errors => errors.to_owned(),
    }
}

fn fairness(asked: &Asked) -> String {
    let Fairness {
        least,
        median,
        most,
    } = asked.fairness;
    let [least, median, most] = [least, median, most].map(whole);
    let opened = count(asked.opened as usize, "connection", "connections");
    format!("{least} to {most} responses a connection, median {median}; {opened} opened")
}

fn generator(asked: &Asked) -> String {
    let generator = &asked.generator;
    let threads = match asked.asking.threads {
        1 => String::new(),
        n => format!(", the busiest of {n} threads"),
    };
    let way = match &generator.no_ring {
        None => generator.way.to_owned(),
        Some(why) => format!("{}, no ring ({why})", generator.way),
    };
    let late = generator.late_us_p99.map_or_else(String::new, |us| {
        let late_us = units::number(us);
        format!("; 99\u{a0}% of requests left at most {late_us} µs late")
    });
    let busy = percent(generator.busy_share);
    let cpu_s = units::number(generator.cpu_s);
    format!("by {way}; busy {busy} of the time{threads}; CPU {cpu_s} s{late}")
}

/// Verdict on the server from the load, or `none` with the reason.
fn verdict(asked: &Asked) -> String {
    if let Some(limit) = &asked.generator.limit {
        return format!("none, the load generator was the limit: {limit}");
    }
    if asked.errors_in_all() > 0 || asked.unanswered > 0 {
        return unserved(asked);
    }
    if asked.answers < FEW_ANSWERS {
        let few = count(asked.answers as usize, "response", "responses");
        return format!("none, {few} are too few to judge the server: use a longer --duration");
    }
    match asked.asking.pace {
        Pace::Open { per_s } if asked.answers_per_s >= KEPT_UP * least_due(per_s, asked) => {
            "the server kept up with the rate".to_owned()
        }
        Pace::Open { per_s } => {
            let share = percent(asked.answers_per_s / per_s);
            format!("the server did not keep up: {share} of the requested rate")
        }
        Pace::Closed { think } if !think.is_zero() => {
            "the clients' pauses set the rate: see the latency".to_owned()
        }
        Pace::Closed { .. } => {
            "the server or the path to it was the limit: the load generator was not busy".to_owned()
        }
    }
}

/// Requests per second that are due at the least: random ones vary by 3 times their square root.
fn least_due(per_s: f64, asked: &Asked) -> f64 {
    match asked.asking.arrivals {
        Arrivals::Fixed => per_s,
        Arrivals::Poisson => per_s - 3.0 * (per_s / asked.elapsed_s.max(1e-9)).sqrt(),
    }
}

fn unserved(asked: &Asked) -> String {
    let Fairness { least, most, .. } = asked.fairness;
    let more = if asked.asking.kept && least == 0 && most > 0 {
        "; some connections got no response: use --new-connections with a model that serves one connection to its end (`single`)"
    } else {
        ""
    };
    format!("the server did not serve all requests{more}")
}

/// Summary of a server's work, when it ends.
pub fn tally(model: &str, service: &str, tally: &ServerTally) -> String {
    let requests = count(tally.requests as usize, "request", "requests");
    let connections = count(tally.connections as usize, "connection", "connections");
    let mut text = format!("`{model}` served {requests} of `{service}` on {connections}");
    for (n, what) in [
        (tally.too_long, "requests refused as too long"),
        (tally.timed_out, "connections closed after a timeout"),
        (tally.idle, "connections closed as idle"),
        (tally.expired, "connections closed after --max-duration"),
        (tally.slow, "connections closed for receiving too slowly"),
        (
            tally.crowded,
            "connections closed for too many of one address",
        ),
        (tally.broken, "connections broken"),
        (tally.put_off, "times a connection had to wait for room"),
    ] {
        if n > 0 {
            text += &format!("; {what}: {}", whole(n));
        }
    }
    text + "\n"
}
