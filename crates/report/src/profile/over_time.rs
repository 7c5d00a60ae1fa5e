//! A drawing of how many bytes each way moved a second, over the time of a profile.

use askama::Template;
use bytecost_spec::profile::Profile;
use bytecost_spec::units;

use super::rows::Row;
use crate::scale::Scale;

/// Ways that have a line: those that moved most.
const MOST_LINES: usize = 6;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 630.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 260.0;

#[derive(Template)]
#[template(path = "over_time.html", whitespace = "minimize")]
struct OverTime {
    rows: Vec<Tick>,
    columns: Vec<Tick>,
    lines: Vec<Line>,
}

struct Tick {
    at: f64,
    label: String,
}

struct Line {
    name: String,
    path: String,
}

/// The rate of a row between two moments.
struct Rate {
    from_s: f64,
    to_s: f64,
    bytes_per_s: f64,
}

/// The drawing as HTML; empty where nothing was moved, or all within one reading.
pub(super) fn over_time(profile: &Profile, rows: &[Row<'_>]) -> String {
    let mut moving: Vec<&Row<'_>> = rows.iter().filter(|row| row.bytes() > 0).collect();
    moving.sort_by_key(|row| std::cmp::Reverse(row.bytes()));
    moving.truncate(MOST_LINES);
    let rates: Vec<Vec<Rate>> = moving.iter().map(|row| rates(profile, row)).collect();
    let end = profile.moments.last().map_or(0.0, |m| m.at_ms as f64 / 1e3);
    if moving.is_empty() || profile.moments.len() < 2 || end <= 0.0 {
        return String::new();
    }
    let values = rates.iter().flatten().map(|rate| rate.bytes_per_s);
    let height = Scale::of(values.chain([0.0]));
    let width = Scale::of([0.0, end].into_iter());
    let x = |seconds: f64| LEFT + seconds / end * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - height.share(value) * (BOTTOM - TOP);
    let lines = moving.iter().zip(&rates).map(|(row, rates)| Line {
        name: row.name.clone(),
        path: path(rates, x, y),
    });
    let drawing = OverTime {
        rows: height
            .ticks
            .iter()
            .map(|value| Tick {
                at: y(*value),
                label: format!("{}/s", units::short_bytes(*value as u64)),
            })
            .collect(),
        columns: width
            .ticks
            .iter()
            .filter(|seconds| **seconds <= end)
            .map(|seconds| Tick {
                at: x(*seconds),
                label: units::short_number(*seconds),
            })
            .collect(),
        lines: lines.collect(),
    };
    drawing.render().expect("a drawing is only text")
}

fn rates(profile: &Profile, row: &Row<'_>) -> Vec<Rate> {
    let bytes_at = |at: usize| -> u64 {
        let moment = profile.moments.get(at);
        let of = |position: &usize| moment.and_then(|m| m.bytes.get(*position)).copied();
        row.positions.iter().filter_map(of).sum()
    };
    let mut before_s = 0.0;
    let mut before = 0;
    let mut rates = Vec::new();
    for (at, moment) in profile.moments.iter().enumerate() {
        let now_s = moment.at_ms as f64 / 1e3;
        let now = bytes_at(at);
        if now_s > before_s {
            rates.push(Rate {
                from_s: before_s,
                to_s: now_s,
                bytes_per_s: now.saturating_sub(before) as f64 / (now_s - before_s),
            });
        }
        (before_s, before) = (now_s, now);
    }
    rates
}

/// Steps: each rate is that of the whole time between two readings.
fn path(rates: &[Rate], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    for rate in rates {
        let (from, to, at) = (x(rate.from_s), x(rate.to_s), y(rate.bytes_per_s));
        let command = if path.is_empty() { 'M' } else { 'L' };
        path += &format!("{command}{from:.1} {at:.1}L{to:.1} {at:.1}");
    }
    path
}
