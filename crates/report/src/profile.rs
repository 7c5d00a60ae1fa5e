//! A profile of a running program: its screen, its page, its JSON.

use bytecost_analysis::profile::{
    Advice, Costs, LEAST_SHARE as LEAST_ADVISED_SHARE, PATTERNS, PatternFound, Prediction,
    mean_bytes,
};
use bytecost_spec::profile::{ProcessIo, Profile, Way};
use bytecost_spec::{Reading, units};
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::caveats::reason_by_name;
use crate::document::{DocBlock, DocColumn, DocEntry, DocLine, DocTable, Document};
use crate::json_lines::by_lines;
use crate::numbers::{percent, ratio};
use crate::style::{Ink, Style};
use crate::text::count;
use crate::{page, terminal};

mod over_time;
mod rows;

use over_time::over_time;
use rows::{Row, name, rows};

const FORMAT: u32 = 1;
/// Rows of the screen's table; the page has all.
const SCREEN_ROWS: usize = 12;
/// Shares of CPU time and of bytes below both of which a way is joined with others on the screen.
const LEAST_SHARE: f64 = 0.005;
/// Kinds of work below this share of the samples are not named.
const LEAST_SHARE_OF_WORK: f64 = 0.02;
/// Fewer samples give no shares of kinds of work.
const LEAST_SAMPLES: u64 = 100;
/// CPU time below which shares are rough.
const LITTLE_CPU_NS: u64 = 100_000_000;

/// A profile with advice: `profile.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileReport {
    /// The version of this form: 1.
    pub format: u32,
    /// The profile of a program: the ways in which it moved bytes while it was observed.
    pub profile: Profile,
    /// Predictions for other ways, the largest saving first.
    pub advice: Vec<Advice>,
}

impl ProfileReport {
    /// A profile with advice.
    pub fn new(profile: Profile, advice: Vec<Advice>) -> ProfileReport {
        ProfileReport {
            format: FORMAT,
            profile,
            advice,
        }
    }

    /// Reads `profile.json`. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<ProfileReport, String> {
        let report: ProfileReport = serde_json::from_str(text).map_err(|e| e.to_string())?;
        match report.format {
            FORMAT => Ok(report),
            other => Err(format!(
                "format {other}; this bytecost reads format {FORMAT}"
            )),
        }
    }

    /// Renders `profile.json`.
    pub fn json(&self) -> String {
        by_lines(self)
    }

    /// Renders it for a terminal.
    pub fn screen(&self, style: Style) -> String {
        terminal::print(&document(self, false), style)
    }

    /// Renders it as one HTML page.
    pub fn page(&self) -> String {
        let document = document(self, true);
        let foot = format!(
            "Linux {} · measured with bytecost {}",
            self.profile.kernel, self.profile.bytecost
        );
        let figure = over_time(&self.profile, &rows(&self.profile));
        let is_heading = |block: &DocBlock| matches!(block, DocBlock::Heading(_));
        let answer = document.blocks.iter().position(is_heading);
        let (answer, body) = document
            .blocks
            .split_at(answer.unwrap_or(document.blocks.len()));
        page::plain(&self.profile.program, answer, figure, body, &foot)
    }
}

fn document(report: &ProfileReport, has_all: bool) -> Document {
    let profile = &report.profile;
    let mut document = Document::default();
    document.paragraph(Ink::Strong, heading(profile));
    if let Some(why) = &profile.not_counted {
        document.paragraph(Ink::Warning, format!("Calls were not counted: {why}."));
    }
    if let Some(io) = &profile.process_io {
        document.push(DocBlock::Table(process_io(io)));
    }
    let rows = rows(profile);
    if !rows.is_empty() {
        document.push(DocBlock::Table(table(profile, rows, has_all)));
    }
    if !report.advice.is_empty() {
        document.section(
            "What another way would save (predicted, not measured)",
            "advice",
            "Advice",
        );
        let lines = report.advice.iter().map(|advice| {
            let text = format!("{} {}", pattern(&advice.found, profile), prediction(advice));
            DocLine::of(Ink::Plain, text)
        });
        document.push(DocBlock::List(lines.collect()));
    }
    if report.advice.is_empty() && !profile.ways.is_empty() {
        let none = format!(
            "No pattern for which there is a cheaper way takes {} of its CPU time or more; {} were looked for.",
            percent(LEAST_ADVISED_SHARE),
            PATTERNS.len()
        );
        document.paragraph(Ink::Plain, none);
    }
    if has_all && !profile.ways.is_empty() {
        document.section("Bytes a call", "lengths", "Lengths");
        document.push(DocBlock::Table(lengths(profile)));
    }
    if let Some(work) = kinds_of_work(profile) {
        document.paragraph(Ink::Plain, work);
    }
    for note in notes(profile) {
        document.paragraph(Ink::Faint, note);
    }
    document
}

fn prediction(advice: &Advice) -> String {
    match &advice.prediction {
        Prediction::Saves {
            price,
            share,
            low,
            high,
            run,
            is_network,
        } => {
            let card = if *is_network {
                "; measured over loopback, and a network card may change it"
            } else {
                ""
            };
            format!(
                "The other way costs {} as much here at {} a call ({} to {}): it would save {} of the program's CPU time ({} to {}), by run {run}{card}.",
                ratio(price.ratio),
                units::short_bytes(price.call_bytes),
                ratio(price.low),
                ratio(price.high),
                percent(*share),
                percent(*low),
                percent(*high),
            )
        }
        Prediction::NotMeasured { withheld, command } => {
            let why = match withheld {
                None => "no run on this machine and kernel has measured both ways".to_owned(),
                Some(price) => format!(
                    "run {} says nothing of it: {}",
                    price.run,
                    reason_by_name(&price.caveat)
                ),
            };
            format!("What it would save is not known: {why}; `{command}` measures it.")
        }
        Prediction::NoStudy => "No study measures what it would save.".to_owned(),
    }
}

fn seconds(ns: u64) -> String {
    format!("{} s", units::short_number(ns as f64 / 1e9))
}

fn heading(profile: &Profile) -> String {
    let processes = count(profile.processes as usize, "process", "processes");
    let mut parts = vec![
        format!("{} ({processes})", profile.program),
        seconds(profile.elapsed_ns),
        format!("{} of CPU time", seconds(profile.cpu_ns)),
    ];
    let moving: u64 = profile
        .ways
        .iter()
        .filter(|w| w.bytes > 0)
        .filter_map(|w| w.cpu_ns)
        .sum();
    if !profile.ways.is_empty() && profile.cpu_ns > 0 {
        let share = moving as f64 / profile.cpu_ns as f64;
        parts.push(format!(
            "{} of it in calls that move bytes",
            percent(share.min(1.0))
        ));
    }
    parts.join(" · ")
}

fn table(profile: &Profile, mut rows: Vec<Row<'_>>, has_all: bool) -> DocTable {
    let all_bytes: u64 = profile.ways.iter().map(|way| way.bytes).sum();
    let cpu_ns = profile.cpu_ns.max(1) as f64;
    let is_small = |row: &Row<'_>| {
        let of_cpu = row.cpu_ns() as f64 / cpu_ns;
        let of_bytes = row.bytes() as f64 / all_bytes.max(1) as f64;
        of_cpu < LEAST_SHARE && of_bytes < LEAST_SHARE
    };
    let mut joined = Vec::new();
    if !has_all {
        let (small, shown): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_small);
        joined = small;
        rows = shown;
        if rows.len() > SCREEN_ROWS {
            joined.extend(rows.split_off(SCREEN_ROWS));
        }
    }
    let mut lines: Vec<Vec<DocEntry>> = rows
        .iter()
        .map(|row| line(row, &row.name, profile))
        .collect();
    if !joined.is_empty() {
        let ways = joined.iter().flat_map(|row| &row.ways).copied().collect();
        let name = format!("{} more", joined.len());
        let row = Row {
            name: String::new(),
            positions: Vec::new(),
            ways,
        };
        let mut line = line(&row, &name, profile);
        // The lengths and copies of several ways together say nothing.
        for at in [3, 4, 5] {
            line[at] = DocEntry::default();
        }
        lines.push(line);
    }
    if profile.cpu_ns > 0 {
        let in_calls: u64 = profile.ways.iter().filter_map(|way| way.cpu_ns).sum();
        let outside = profile.cpu_ns.saturating_sub(in_calls) as f64 / cpu_ns;
        let mut line = vec![DocEntry::default(); 7];
        line[0] = "outside of calls".into();
        line[6] = percent(outside).into();
        lines.push(line);
    }
    let columns = DocColumn::numbers(
        "way",
        [
            "bytes", "calls", "a call", "copies/B", "CPU s/GB", "CPU time",
        ],
    );
    DocTable::of(columns, lines)
}

fn line(row: &Row<'_>, name: &str, profile: &Profile) -> Vec<DocEntry> {
    let bytes = row.bytes();
    let cpu_ns = row.cpu_ns();
    let has_cpu = row.ways.iter().any(|way| way.cpu_ns.is_some());
    let moves = bytes > 0;
    let if_moves = |entry: DocEntry| if moves { entry } else { DocEntry::default() };
    let copied = row
        .ways
        .iter()
        .map(|way| &way.copied_bytes)
        .fold(Reading::Measured(0), |sum, copied| sum.plus(copied));
    let per_byte = |count: u64| format!("{:.2}", count as f64 / bytes.max(1) as f64);
    let copies = DocEntry::or_gap(copied.measured().map(per_byte));
    let share = match profile.cpu_ns {
        0 => String::new(),
        of => percent((cpu_ns as f64 / of as f64).min(1.0)),
    };
    let cpu_s_per_gb = units::short_number(cpu_ns as f64 / bytes.max(1) as f64);
    let if_timed = |text: String| DocEntry::from(if has_cpu { text } else { String::new() });
    vec![
        name.into(),
        if_moves(units::short_bytes(bytes).into()),
        units::whole(row.sum(|way| way.calls)).into(),
        if_moves(typical_length(&row.lengths(), row).into()),
        if_moves(copies),
        if_moves(if_timed(cpu_s_per_gb)),
        if_timed(share),
    ]
}

/// The mean where nearly all calls are within a factor of two of each other, else the powers of two
/// between which the middle half lies.
fn typical_length(lengths: &[u64], row: &Row<'_>) -> String {
    let all: u64 = lengths.iter().sum();
    if all == 0 {
        return String::new();
    }
    let quantile = |share: f64| {
        let mut below = 0;
        let found = lengths.iter().position(|n| {
            below += n;
            below as f64 >= share * all as f64
        });
        found.unwrap_or(0)
    };
    let (low, high) = (quantile(0.25), quantile(0.75));
    if low == high {
        return units::short_bytes((row.bytes() as f64 / all as f64).round() as u64);
    }
    format!(
        "{}–{}",
        units::short_bytes(1 << low),
        units::short_bytes(2 << high)
    )
}

fn lengths(profile: &Profile) -> DocTable {
    let moving: Vec<Row<'_>> = rows(profile)
        .into_iter()
        .filter(|row| row.bytes() > 0)
        .collect();
    let counts: Vec<Vec<u64>> = moving.iter().map(Row::lengths).collect();
    let powers = counts.iter().map(Vec::len).max().unwrap_or(0);
    let has_some = |power: &usize| {
        counts
            .iter()
            .any(|of| of.get(*power).is_some_and(|n| *n > 0))
    };
    let powers: Vec<usize> = (0..powers).filter(has_some).collect();
    let headings = powers
        .iter()
        .map(|power| format!("≥ {}", units::short_bytes(1 << power)));
    let line = |(row, of): (&Row<'_>, &Vec<u64>)| -> Vec<String> {
        let numbers = powers.iter().map(|power| match of.get(*power) {
            None | Some(0) => String::new(),
            Some(n) => units::whole(*n),
        });
        std::iter::once(row.name.clone()).chain(numbers).collect()
    };
    let lines = moving.iter().zip(&counts).map(line);
    DocTable::of(DocColumn::numbers("calls of", headings), lines)
}

fn process_io(io: &ProcessIo) -> DocTable {
    let row = |name: &str, bytes: u64, calls: Option<u64>| {
        let each = calls
            .filter(|n| *n > 0)
            .map(|n| units::short_bytes(bytes / n));
        vec![
            name.to_owned(),
            units::short_bytes(bytes),
            calls.map(units::whole).unwrap_or_default(),
            each.unwrap_or_default(),
        ]
    };
    DocTable::of(
        DocColumn::numbers("way", ["bytes", "calls", "a call"]),
        [
            row("all reads", io.read_bytes, Some(io.read_calls)),
            row("all writes", io.written_bytes, Some(io.write_calls)),
            row("from storage", io.storage_read_bytes, None),
            row("to storage", io.storage_written_bytes, None),
        ],
    )
}

/// A pattern of system calls in words: what was seen, and a cheaper equivalent.
fn pattern(found: &PatternFound, profile: &Profile) -> String {
    let ways: Vec<&Way> = found
        .ways
        .iter()
        .filter_map(|at| profile.ways.get(*at))
        .collect();
    let names = ways.iter().map(|way| name(way)).join(" and ");
    let mean = ways.last().and_then(|way| mean_bytes(way));
    let each = mean.map_or(
        String::new(),
        |mean| units::short_bytes(mean.round() as u64),
    );
    let calls = units::whole(found.calls);
    let share = percent(found.share);
    let whose = match found.costs {
        Costs::CpuTime => format!("It takes {share} of its CPU time"),
        Costs::Waiting => format!("Threads wait {share} of the time for it"),
    };
    let pairs = if found.is_by_sums {
        format!("move the same bytes ({})", units::short_bytes(found.bytes))
    } else {
        format!("come in pairs of the same length ({calls} of {each})")
    };
    let text = match found.pattern.as_str() {
        "file-to-socket-by-copies" => format!(
            "{names} {pairs}: it copies a file to a socket. sendfile does so without a copy, if the program does not change the bytes"
        ),
        "file-to-file-by-copies" => format!(
            "{names} {pairs}: it copies a file to a file. copy_file_range does so within the kernel, if the program does not change the bytes"
        ),
        "socket-to-socket-by-copies" => format!(
            "{names} {pairs}: it copies from one socket to another. splice through a pipe does so without a copy, if the program does not change the bytes"
        ),
        "small-writes-in-a-row" => format!(
            "{names}: {calls} calls of {each}, in rows of {} within 20 µs each. One writev or sendmsg for a row, or MSG_MORE, TCP_CORK or io_uring, saves calls",
            units::short_number(found.calls_for_one)
        ),
        "write-write-read-stall" => format!(
            "{names}: {calls} answers came 35 to 80 ms after the last of two or more writes in a row, as long as a delayed acknowledgement takes. One write for the whole message, or TCP_NODELAY, removes the wait"
        ),
        "zero-copy-copied" => format!(
            "{names}: most of its messages were copied after all. Without MSG_ZEROCOPY they are copied once, and no page is pinned"
        ),
        "zero-copy-one-at-a-time" => format!(
            "{names}: it waits for the notification of each message ({calls} of {each}) before it sends the next. Several messages under way hide that wait"
        ),
        "zero-copy-of-little" => format!(
            "{names}: its {calls} messages are small ({each}), so that pinning pages costs more than copying them"
        ),
        "splice-refused" => format!(
            "{names}: the kernel refused (EINVAL), and the bytes were read and written instead. One of its descriptors cannot be spliced"
        ),
        "one-event-a-wake-up" => format!(
            "{names}: {calls} wake-ups brought one event each. io_uring, or a thread that serves more connections, takes several at once under load"
        ),
        "small-sequential-reads" => format!(
            "{names}: {calls} reads of {each} in sequence of a large file. Reads of 64 KiB or more take fewer calls"
        ),
        "direct-one-at-a-time" => format!(
            "{names}: {calls} requests of {each} past the page cache, one at a time. Several at once by io_uring keep the disk busy"
        ),
        other => other.to_owned(),
    };
    format!("{text}. {whose}.")
}

/// The kinds of work that take most of its CPU time, in a sentence; none with too few samples.
fn kinds_of_work(profile: &Profile) -> Option<String> {
    let samples: u64 = profile.work.iter().map(|of| of.samples).sum();
    if samples < LEAST_SAMPLES {
        return None;
    }
    let shares = profile
        .work
        .iter()
        .map(|of| (of.kind.row().title, of.samples as f64 / samples as f64))
        .filter(|(_, share)| *share >= LEAST_SHARE_OF_WORK)
        .map(|(title, share)| format!("{title} {}", percent(share)))
        .join(", ");
    let samples = units::whole(samples);
    Some(format!(
        "Its CPU time by kind of work ({samples} samples): {shares}."
    ))
}

fn notes(profile: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    if !profile.ways.is_empty() {
        notes.push(
            "copies/B: times the kernel copies a byte in the calls of that row. CPU s/GB: of 10⁹ bytes."
                .to_owned(),
        );
        if profile.cpu_ns < LITTLE_CPU_NS {
            notes.push(format!(
                "{} of CPU time is little: shares are rough.",
                seconds(profile.cpu_ns)
            ));
        }
    }
    if profile.skipped_calls > 0 {
        let seen = profile.calls.saturating_sub(profile.skipped_calls);
        notes.push(format!(
            "The program makes so many calls that they were counted in slices of time, {} of about {}: numbers of calls and bytes are estimates.",
            units::whole(seen),
            units::whole(profile.calls),
        ));
    }
    if profile.own_cost_ns > 0 && profile.cpu_ns > 0 {
        let share = profile.own_cost_ns as f64 / profile.cpu_ns as f64;
        notes.push(format!(
            "Counting took about {} as much CPU time, which is in no number above.",
            percent(share)
        ));
    }
    if profile.lost_calls > 0 {
        notes.push(format!(
            "{} were lost, since a table was full.",
            count(profile.lost_calls as usize, "call", "calls")
        ));
    }
    if profile.compat_calls > 0 {
        notes.push(format!(
            "{} of 32-bit programs are not counted: their system calls have other numbers.",
            count(profile.compat_calls as usize, "call", "calls")
        ));
    }
    let all_bytes: u64 = profile.ways.iter().map(|way| way.bytes).sum();
    let unknown_copies = profile
        .ways
        .iter()
        .filter(|way| way.bytes as f64 > LEAST_SHARE * all_bytes as f64)
        .filter_map(|way| match &way.copied_bytes {
            Reading::Absent { absent } => Some(absent),
            Reading::Measured(_) => None,
        })
        .unique()
        .join("; ");
    if !unknown_copies.is_empty() {
        notes.push(format!("– copies are not known: {unknown_copies}."));
    }
    if let Some(why) = &profile.work_absent
        && profile.not_counted.is_none()
    {
        notes.push(format!("The kinds of work are not known: {why}."));
    }
    if let Reading::Measured(bytes @ 1..) = profile.mapped_bytes {
        notes.push(format!(
            "Page faults mapped {} of files into its memory.",
            units::short_bytes(bytes)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use bytecost_analysis::profile::{Costs, PatternFound, WithheldPrice};

    use super::*;

    #[test]
    fn a_saving_that_is_not_known_has_its_reason_and_the_command() {
        let words = |withheld| {
            let command = "bytecost run send-copies".to_owned();
            prediction(&Advice {
                found: PatternFound {
                    pattern: "small-sends".to_owned(),
                    ways: Vec::new(),
                    calls: 0,
                    bytes: 0,
                    calls_for_one: 1.0,
                    is_by_sums: false,
                    costs: Costs::CpuTime,
                    share: 0.1,
                },
                prediction: Prediction::NotMeasured { withheld, command },
            })
        };
        let none = "What it would save is not known: no run on this machine and kernel has measured both ways; `bytecost run send-copies` measures it.";
        assert_eq!(words(None), none);
        let withheld = words(Some(WithheldPrice {
            run: "a-run".to_owned(),
            caveat: "pacing".to_owned(),
        }));
        let why = "run a-run says nothing of it: TCP paces the sender;";
        assert!(withheld.contains(why), "{withheld}");
    }
}
