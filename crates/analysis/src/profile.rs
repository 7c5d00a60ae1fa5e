//! Advice for a profile: the share of each way in the program's CPU time, and patterns that another
//! way would do for less. Facts; their words are the report's.
//!
//! A new pattern is a function that finds it, its row in [`PATTERNS`] with the study and the two movers that
//! price it, and its words in `pattern` of `crates/report/src/profile.rs`. `tests/profile.rs` has profiles to
//! plant it in.

use bytecost_spec::profile::{CallFlag, Descriptor, DescriptorKind, OtherEnd, Profile, Way};
use bytecost_spec::{Side, Transport};
use serde::{Deserialize, Serialize};

use crate::result::CaveatKind;

mod measured_price;
mod price;

pub use measured_price::measured_price;
pub use price::{CallLength, Price, Priced};

/// The least share of the program's CPU time (of its elapsed time, where a pattern costs waiting) that
/// makes a pattern worth a word.
pub const LEAST_SHARE: f64 = 0.03;
/// The length of the reads that small ones are compared with, in bytes.
const LARGE_READ: u64 = 65_536;
const SPLICE_REFUSED: &str = "splice-refused";
/// Calls below which a pattern may be chance.
const LEAST_CALLS: u64 = 50;

/// The kind of cost of a pattern for its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Costs {
    /// CPU time.
    CpuTime,
    /// Time in which a thread waits.
    Waiting,
}

/// A pattern: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct PatternRow {
    /// Its name in files.
    pub name: &'static str,
    /// The kind of its cost.
    pub costs: Costs,
    /// The comparison that prices it; none where no study measures both ways.
    pub price: Option<Price>,
    /// Looks for it in a profile.
    find: fn(&Profile) -> Vec<Match>,
}

#[derive(Clone, Debug, PartialEq)]
struct Match {
    ways: Vec<usize>,
    calls: u64,
    bytes: u64,
    /// Calls of the pattern for each that would do.
    calls_for_one: f64,
    /// Known by the sums of bytes alone.
    is_by_sums: bool,
    /// CPU time, or time of waiting.
    ns: u64,
}

/// A pattern that a profile has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PatternFound {
    /// Its name in [`PATTERNS`].
    pub pattern: String,
    /// Positions of its ways in the profile.
    pub ways: Vec<usize>,
    /// Its calls.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of the pattern for each that would do.
    pub calls_for_one: f64,
    /// The ways moved the same bytes in all; that a call passes on what the one before it has read was
    /// not seen, as where several reads are gathered into one write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_sums: bool,
    /// The kind of its cost.
    pub costs: Costs,
    /// Its share of the program's CPU time; of elapsed time where it costs waiting, which many
    /// threads may do at once.
    pub share: f64,
}

/// The CPU time that another way would save: predicted from a run of a study, not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Prediction {
    /// A share of the program's CPU time.
    Saves {
        /// The cost of the other way over that of the program's.
        price: Priced,
        /// The share.
        share: f64,
        /// The interval in which it lies.
        low: f64,
        /// Its other end.
        high: f64,
        /// The run that measured both.
        run: String,
        /// The other end of the sockets is another machine, whose network card may change it.
        is_network: bool,
    },
    /// None: no run on this machine and kernel has measured both ways, or the price of the one that has is
    /// withheld.
    NotMeasured {
        /// The newest such run; none if there is no run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld: Option<WithheldPrice>,
        /// The command that measures both ways.
        command: String,
    },
    /// No study measures both ways.
    NoStudy,
}

/// A run that has measured both ways, and whose price a caveat withholds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WithheldPrice {
    /// The id of the run.
    pub run: String,
    /// The name of the caveat, as in `findings.json`.
    pub caveat: String,
}

/// A pattern, and what is predicted of another way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// The pattern.
    #[serde(flatten)]
    pub found: PatternFound,
    /// The saving of another way.
    pub prediction: Prediction,
}

/// Finds the newest run that has measured both ways, with its id: the price, or the caveat that withholds it.
pub type PriceOfRun<'r> =
    dyn FnMut(&Price, f64, Transport) -> Option<(String, Result<Priced, CaveatKind>)> + 'r;

/// The savings for a profile's patterns, by the newest run that has measured them. One that would save
/// less than [`LEAST_SHARE`] of the program's CPU time is left out.
pub fn advice(profile: &Profile, price_of_run: &mut PriceOfRun<'_>) -> Vec<Advice> {
    let found = patterns(profile).into_iter();
    let advice = found.map(|found| Advice {
        prediction: predict(profile, &found, price_of_run),
        found,
    });
    advice
        .filter(|advice| match advice.prediction {
            Prediction::Saves { share, .. } => share >= LEAST_SHARE,
            Prediction::NotMeasured { .. } | Prediction::NoStudy => true,
        })
        .collect()
}

fn predict(
    profile: &Profile,
    found: &PatternFound,
    price_of_run: &mut PriceOfRun<'_>,
) -> Prediction {
    let row = PATTERNS.iter().find(|row| row.name == found.pattern);
    let way_at = |at: &usize| profile.ways.get(*at);
    let ways: Vec<&Way> = found.ways.iter().filter_map(way_at).collect();
    let mean = ways.last().and_then(|way| mean_bytes(way));
    let (Some(price), Some(mean)) = (row.and_then(|row| row.price), mean) else {
        return Prediction::NoStudy;
    };
    let ends = || ways.iter().flat_map(|way| way.from.iter().chain(&way.to));
    let transport = if ends().any(|end| end.kind == DescriptorKind::Unix) {
        Transport::Unix
    } else {
        Transport::Loopback
    };
    let command = || price.command(mean.round() as u64, transport);
    match price_of_run(&price, mean, transport) {
        None => Prediction::NotMeasured {
            withheld: None,
            command: command(),
        },
        Some((run, Err(kind))) => Prediction::NotMeasured {
            withheld: Some(WithheldPrice {
                run,
                caveat: kind.0.to_owned(),
            }),
            command: command(),
        },
        Some((run, Ok(price))) => Prediction::Saves {
            price,
            share: found.share * (1.0 - price.ratio),
            low: found.share * (1.0 - price.high),
            high: found.share * (1.0 - price.low),
            run,
            is_network: ends().any(|end| end.other_end == Some(OtherEnd::Network)),
        },
    }
}

/// A copy in place of MSG_ZEROCOPY.
const WITHOUT_ZERO_COPY: Price = Price {
    study: "send-copies",
    now: "send-zerocopy",
    instead: "send",
    length: CallLength::Size,
    instead_bytes: None,
    side: Side::Sender,
};

/// All patterns, in the order in which they are looked for.
pub const PATTERNS: &[PatternRow] = &[
    PatternRow {
        name: "file-to-socket-by-copies",
        costs: Costs::CpuTime,
        price: Some(Price {
            study: "send-copies",
            now: "read-write",
            instead: "sendfile",
            length: CallLength::Size,
            instead_bytes: None,
            side: Side::Sender,
        }),
        find: files_to_sockets,
    },
    PatternRow {
        name: "file-to-file-by-copies",
        costs: Costs::CpuTime,
        price: Some(Price {
            study: "file-copy",
            now: "read-write-file",
            instead: "copy_file_range",
            length: CallLength::Block,
            instead_bytes: None,
            side: Side::Both,
        }),
        find: |p| copy_loops(p, is_stored, |to| to.kind == DescriptorKind::File),
    },
    PatternRow {
        name: "socket-to-socket-by-copies",
        costs: Costs::CpuTime,
        price: None,
        find: |p| copy_loops(p, is_stream_socket, is_stream_socket),
    },
    PatternRow {
        name: "small-writes-in-a-row",
        costs: Costs::CpuTime,
        price: Some(Price {
            study: "send-copies",
            now: "send-fields",
            instead: "sendmsg",
            length: CallLength::Field,
            instead_bytes: None,
            side: Side::Sender,
        }),
        find: small_writes,
    },
    PatternRow {
        name: "write-write-read-stall",
        costs: Costs::Waiting,
        price: None,
        find: stalls,
    },
    PatternRow {
        name: "zero-copy-copied",
        costs: Costs::CpuTime,
        price: Some(WITHOUT_ZERO_COPY),
        find: zero_copy_copied,
    },
    PatternRow {
        name: "zero-copy-one-at-a-time",
        costs: Costs::CpuTime,
        price: None,
        find: zero_copy_one_at_a_time,
    },
    PatternRow {
        name: "zero-copy-of-little",
        costs: Costs::CpuTime,
        price: Some(WITHOUT_ZERO_COPY),
        find: zero_copy_of_little,
    },
    PatternRow {
        name: SPLICE_REFUSED,
        costs: Costs::CpuTime,
        price: None,
        find: splice_refused,
    },
    PatternRow {
        name: "one-event-a-wake-up",
        costs: Costs::CpuTime,
        price: None,
        find: one_event,
    },
    PatternRow {
        name: "small-sequential-reads",
        costs: Costs::CpuTime,
        price: Some(Price {
            study: "file-read",
            now: "read",
            instead: "read",
            length: CallLength::Size,
            instead_bytes: Some(LARGE_READ),
            side: Side::Both,
        }),
        find: small_sequential_reads,
    },
    PatternRow {
        name: "direct-one-at-a-time",
        costs: Costs::Waiting,
        price: None,
        find: direct_one_at_a_time,
    },
];

/// The patterns that a profile has, those that cost most first.
pub fn patterns(profile: &Profile) -> Vec<PatternFound> {
    let mut found: Vec<PatternFound> = PATTERNS
        .iter()
        .flat_map(|row| {
            let matches = (row.find)(profile).into_iter();
            matches.map(|found| pattern(row, found, profile))
        })
        .filter(|found| found.share >= LEAST_SHARE)
        .collect();
    // Copies that take the place of a refused splice have that one remedy.
    let refused = found.iter().find(|f| f.pattern == SPLICE_REFUSED).cloned();
    found.retain(|f| {
        let is_within = |whole: &PatternFound| f.ways.iter().all(|way| whole.ways.contains(way));
        f.pattern == SPLICE_REFUSED || !refused.as_ref().is_some_and(is_within)
    });
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

fn pattern(row: &PatternRow, found: Match, profile: &Profile) -> PatternFound {
    let of = match row.costs {
        Costs::CpuTime => profile.cpu_ns,
        Costs::Waiting => profile.elapsed_ns,
    };
    PatternFound {
        pattern: row.name.to_owned(),
        ways: found.ways,
        calls: found.calls,
        bytes: found.bytes,
        calls_for_one: found.calls_for_one,
        is_by_sums: found.is_by_sums,
        costs: row.costs,
        // Threads may wait at once, and the CPU time of short calls is known to some tens of ns each.
        share: match (of, row.costs) {
            (0, _) => 0.0,
            (_, Costs::CpuTime) => (found.ns as f64 / of as f64).min(1.0),
            (_, Costs::Waiting) => found.ns as f64 / of as f64,
        },
    }
}

/// The mean bytes of the calls of a way that moved some; none where none did.
pub fn mean_bytes(way: &Way) -> Option<f64> {
    let moved: u64 = way.lengths.iter().sum();
    (moved > 0 && way.bytes > 0).then(|| way.bytes as f64 / moved as f64)
}

fn is_stored(end: &Descriptor) -> bool {
    matches!(end.kind, DescriptorKind::File | DescriptorKind::Block)
}

fn is_stream_socket(end: &Descriptor) -> bool {
    matches!(end.kind, DescriptorKind::Tcp | DescriptorKind::Unix)
}

fn has(way: &Way, flag: CallFlag) -> bool {
    way.flags.contains(&flag)
}

/// A part of a way's CPU time.
fn part_of_cpu(way: &Way, part: u64, of: u64) -> u64 {
    let cpu_ns = way.cpu_ns.unwrap_or(0) as f64;
    (cpu_ns * part as f64 / of.max(1) as f64) as u64
}

/// Each pair of a reading and a writing way between such descriptors, with its part of both ways'
/// CPU time. A way that writes mostly something else than was just read has none.
fn copy_loops(
    profile: &Profile,
    is_from: fn(&Descriptor) -> bool,
    is_to: fn(&Descriptor) -> bool,
) -> Vec<Match> {
    let found = profile.copy_loops.iter().filter_map(|pair| {
        let (read, write) = (profile.ways.get(pair.read)?, profile.ways.get(pair.write)?);
        let is_meant =
            read.from.as_ref().is_some_and(is_from) && write.to.as_ref().is_some_and(is_to);
        let is_much = 3 * pair.bytes > write.bytes;
        (is_meant && is_much && pair.calls >= LEAST_CALLS).then(|| Match {
            ways: vec![pair.read, pair.write],
            calls: pair.calls,
            bytes: pair.bytes,
            calls_for_one: 2.0,
            is_by_sums: false,
            ns: part_of_cpu(read, pair.bytes, read.bytes)
                + part_of_cpu(write, pair.bytes, write.bytes),
        })
    });
    found.collect()
}

/// Copies of a file to sockets: pairs of calls, or without one of these ways that moved the same sum of bytes.
/// (A process may send to itself, or write a file and read it again: that takes pairs.)
fn files_to_sockets(profile: &Profile) -> Vec<Match> {
    let pairs = copy_loops(profile, is_stored, is_stream_socket);
    if pairs.is_empty() {
        same_sums(profile).into_iter().collect()
    } else {
        pairs
    }
}

/// The way that reads most bytes of files and the one that writes most to sockets, if they moved the same sum.
fn same_sums(profile: &Profile) -> Option<Match> {
    const LEAST_BYTES: u64 = 1 << 20;
    // Headers are sent besides; records of TLS add more.
    const MOST_APART: u64 = 1000;
    let most = |is_meant: &dyn Fn(&Way) -> bool| {
        let ways = profile.ways.iter().enumerate();
        ways.filter(|(_, way)| is_meant(way))
            .max_by_key(|(_, way)| way.bytes)
    };
    let (read, from) = most(&|way| way.to.is_none() && way.from.as_ref().is_some_and(is_stored))?;
    let (write, to) =
        most(&|way| way.from.is_none() && way.to.as_ref().is_some_and(is_stream_socket))?;
    let is_same = from.bytes.abs_diff(to.bytes) <= to.bytes / MOST_APART;
    let is_much = to.bytes >= LEAST_BYTES && to.calls >= LEAST_CALLS;
    (is_same && is_much && from.calls >= LEAST_CALLS).then(|| Match {
        ways: vec![read, write],
        calls: to.calls,
        bytes: to.bytes,
        calls_for_one: (from.calls + to.calls) as f64 / to.calls as f64,
        is_by_sums: true,
        ns: from.cpu_ns.unwrap_or(0) + to.cpu_ns.unwrap_or(0),
    })
}

fn each(profile: &Profile, find: impl Fn(&Way) -> Option<Match>) -> Vec<Match> {
    let numbered = profile.ways.iter().enumerate();
    let found = numbered.filter_map(|(position, way)| {
        let ways = vec![position];
        find(way).map(|found| Match { ways, ..found })
    });
    found.collect()
}

fn of_way(way: &Way) -> Match {
    Match {
        ways: Vec::new(),
        calls: way.calls,
        bytes: way.bytes,
        calls_for_one: 1.0,
        is_by_sums: false,
        ns: way.cpu_ns.unwrap_or(0),
    }
}

/// Writes of less than a page, most of which follow another.
fn small_writes(profile: &Profile) -> Vec<Match> {
    const SMALL: f64 = 4096.0;
    each(profile, |way| {
        let to = way.to.as_ref()?;
        let goes_on = is_stream_socket(to) || to.kind == DescriptorKind::Pipe;
        let is_small = mean_bytes(way)? < SMALL && !has(way, CallFlag::ZeroCopy);
        let is_found =
            goes_on && is_small && way.follows >= LEAST_CALLS && 2 * way.follows > way.calls;
        let alone = way.calls.saturating_sub(way.follows).max(1);
        is_found.then(|| Match {
            calls_for_one: way.calls as f64 / alone as f64,
            ..of_way(way)
        })
    })
}

fn stalls(profile: &Profile) -> Vec<Match> {
    const LEAST_STALLS: u64 = 3;
    each(profile, |way| {
        let from = way.from.as_ref()?;
        // Fewer may be pauses of the other end that happen to be as long.
        let is_often = way.delayed_reads >= LEAST_STALLS && 20 * way.delayed_reads > way.calls;
        let is_found = from.kind == DescriptorKind::Tcp && is_often;
        is_found.then(|| Match {
            calls: way.delayed_reads,
            ns: way.delayed_ns,
            ..of_way(way)
        })
    })
}

fn zero_copy_copied(profile: &Profile) -> Vec<Match> {
    each(profile, |way| {
        let sent = way.notifications;
        let is_found = has(way, CallFlag::ZeroCopy)
            && !is_zero_copy_of_little(way)
            && sent.read >= LEAST_CALLS
            && 2 * sent.copied > sent.read;
        is_found.then(|| of_way(way))
    })
}

fn zero_copy_one_at_a_time(profile: &Profile) -> Vec<Match> {
    each(profile, |way| {
        let one = way.notifications.one_at_a_time;
        let is_found = has(way, CallFlag::ZeroCopy) && one >= LEAST_CALLS && 2 * one > way.calls;
        is_found.then(|| of_way(way))
    })
}

fn zero_copy_of_little(profile: &Profile) -> Vec<Match> {
    each(profile, |way| {
        (is_zero_copy_of_little(way) && way.calls >= LEAST_CALLS).then(|| of_way(way))
    })
}

fn is_zero_copy_of_little(way: &Way) -> bool {
    // Zero-copy saves CPU time from about this size (Documentation/networking/msg_zerocopy.rst), in bytes.
    const LITTLE: f64 = 10_000.0;
    has(way, CallFlag::ZeroCopy) && mean_bytes(way).is_some_and(|mean| mean < LITTLE)
}

/// Calls between descriptors that the kernel refuses, with the copies that took their place.
fn splice_refused(profile: &Profile) -> Vec<Match> {
    let is_refused = |(_, way): &(usize, &Way)| {
        let moves = ["splice", "sendfile", "copy_file_range", "tee"];
        moves.contains(&way.call.as_str()) && way.failed.invalid > 0
    };
    let refused: Vec<usize> = (profile.ways.iter().enumerate())
        .filter(is_refused)
        .map(|(position, _)| position)
        .collect();
    if refused.is_empty() {
        return Vec::new();
    }
    let mut loops = copy_loops(profile, |_| true, |_| true);
    for found in &mut loops {
        found.ways.splice(0..0, refused.iter().copied());
    }
    loops
}

fn one_event(profile: &Profile) -> Vec<Match> {
    const WAKE_UPS: u64 = 1000;
    each(profile, |way| {
        let is_wait = way.call.starts_with("epoll_");
        let woken: u64 = way.lengths.iter().sum();
        let one = way.lengths.first().copied().unwrap_or(0);
        (is_wait && woken >= WAKE_UPS && 10 * one > 9 * woken).then(|| Match {
            calls: woken,
            ..of_way(way)
        })
    })
}

fn small_sequential_reads(profile: &Profile) -> Vec<Match> {
    const SMALL: f64 = 8192.0;
    each(profile, |way| {
        let from = way.from.as_ref()?;
        let is_small = mean_bytes(way)? <= SMALL;
        let is_found = is_stored(from)
            && from.is_large
            && !from.is_direct
            && is_small
            && way.sequential >= LEAST_CALLS
            && 5 * way.sequential > 4 * way.calls;
        is_found.then(|| of_way(way))
    })
}

fn direct_one_at_a_time(profile: &Profile) -> Vec<Match> {
    const SMALL: f64 = 131_072.0;
    each(profile, |way| {
        let end = way.from.as_ref().or(way.to.as_ref())?;
        let is_small = mean_bytes(way)? < SMALL;
        let waits = way.elapsed_ns.saturating_sub(way.cpu_ns?);
        let is_found = end.is_direct && is_stored(end) && is_small && way.calls >= LEAST_CALLS;
        is_found.then(|| Match {
            ns: waits,
            ..of_way(way)
        })
    })
}
