//! Answers, loads and tallies for programs: one JSON object a line.

use std::collections::BTreeMap;

use bytecost_spec::service::{Asked, Asking, Fairness, Pace, Response, ServerTally};
use serde_json::json;

use crate::text::line;

/// The answer to one question as one line of JSON, with its line feed.
pub fn answer_json(asking: &Asking, answer: &Response) -> String {
    let mut object = json!({
        "kind": "answer",
        "address": asking.address,
        "service": asking.service,
    });
    match answer {
        Response::Busiest(processes) => object["processes"] = json!(processes),
        Response::Content { bytes } => object["bytes"] = (*bytes).into(),
    }
    line(&object)
}

/// Report of a load as one line of JSON. Fields that are not available are `null`; so is
/// `generator_limit` where the generator was not the limit.
pub fn asked_json(asked: &Asked) -> String {
    let Asking { pace, arrivals, .. } = asked.asking;
    let (think_s, rate_per_s, arrivals) = match pace {
        Pace::Closed { think } => (Some(think.as_secs_f64()), None, None),
        Pace::Open { per_s } => (None, Some(per_s), Some(arrivals.name())),
    };
    let errors: BTreeMap<_, _> = asked.errors.iter().copied().collect();
    let latency = asked.latency.as_ref();
    let Fairness {
        least,
        median,
        most,
    } = asked.fairness;
    line(&json!({
        "kind": "load",
        "address": asked.asking.address,
        "service": asked.asking.service,
        "size_bytes": asked.asking.size_bytes,
        "connections": asked.asking.connections,
        "connections_idle": asked.asking.idle,
        "kept": asked.asking.kept,
        "depth": asked.asking.depth,
        "threads": asked.asking.threads,
        "think_s": think_s,
        "rate_per_s": rate_per_s,
        "arrivals": arrivals,
        "interrupted": asked.interrupted,
        "server_gone_s": asked.server_gone_s,
        "elapsed_s": asked.elapsed_s,
        "answers": asked.answers,
        "answers_per_s": asked.answers_per_s,
        "unanswered": asked.unanswered,
        "latency_count": latency.map_or(0, |l| l.count),
        "latency_us_p50": latency.map(|l| l.us_p50),
        "latency_us_p90": latency.map(|l| l.us_p90),
        "latency_us_p99": latency.map(|l| l.us_p99),
        "latency_us_p999": latency.map(|l| l.us_p999),
        "latency_us_max": latency.map(|l| l.us_max),
        "errors": errors,
        "connections_opened": asked.opened,
        "connection_answers_min": least,
        "connection_answers_median": median,
        "connection_answers_max": most,
        "generator_busy_share": asked.generator.busy_share,
        "generator_cpu_s": asked.generator.cpu_s,
        "generator_late_us_p99": asked.generator.late_us_p99,
        "generator_limit": asked.generator.limit,
        "generator_way": asked.generator.way,
    }))
}

/// Summary of a server's work as one line of JSON.
pub fn tally_json(model: &str, service: &str, tally: &ServerTally) -> String {
    let mut object = json!(tally);
    for (key, value) in [("kind", "tally"), ("model", model), ("service", service)] {
        object[key] = value.into();
    }
    line(&object)
}
