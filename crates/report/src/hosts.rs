//! Runs of one study on several hosts, or pairs of hosts: each comparison with the estimate and the
//! verdict of every host, and what differs between the machines. Nothing is pooled, and nothing is
//! judged over hosts: each verdict is that of its own run.

use bytecost_analysis::{Analysis, Finding, Verdict, grouped};
use bytecost_spec::study::Family;
use bytecost_spec::{Cell, Host, Metric, NetworkCard, Unit};
use itertools::Itertools as _;
use serde::Serialize;

use crate::caveats::withholding_reason;
use crate::document::{
    ColumnKind, DocBlock, DocColumn, DocEntry, DocLine, DocMark, DocTable, Document,
};
use crate::numbers::{milliseconds, percent, ratio, ratio_interval};
use crate::run_words;
use crate::style::{Ink, Style};
use crate::text::{count, csv_rows, joined, nonzero};
use crate::{comparisons, descriptions, page};

const FORMAT: u32 = 1;
/// Comparisons at which hosts disagree that a sentence names.
const LISTED: usize = 5;
/// Checks that are settings of a machine; the others are of the moment, or facts of their own.
const SETTINGS: &str = "SMT, NUMA, frequency governor, turbo, mitigations, hardware counters, \
    capabilities, io_uring, loopback, packet filters, control groups, CPU quota, clock source, \
    NUMA balancing, swap";

/// A run on a host, or on a pair of hosts.
#[derive(Clone, Copy, Debug)]
pub struct HostRun<'a> {
    /// Name of the host; of a pair both: `a → b`.
    pub host: &'a str,
    /// Build of bytecost that measured, where that is known.
    pub build: Option<&'a str>,
    /// Results of the run.
    pub analysis: &'a Analysis,
}

/// Runs of one study side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostTable {
    /// The version of this form: 1.
    pub format: u32,
    /// The study's name.
    pub study: String,
    /// Its heading.
    pub title: String,
    /// Unit of one message.
    pub unit: Unit,
    /// The smallest difference that matters, as a share.
    pub smallest_effect: f64,
    /// The run of each host, in the order given.
    pub hosts: Vec<HostLine>,
    /// Every comparison that any of the runs has.
    pub findings: Vec<HostFinding>,
    /// Differences between the machines and between their runs.
    pub differences: Vec<HostDifference>,
}

/// Host of a comparison of hosts, with the run that represents it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostLine {
    /// Name of the host.
    pub host: String,
    /// Name of the other host of a pair.
    pub peer: Option<String>,
    /// The run's name.
    pub run: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// Blocks, trials, time and seed in words.
    pub measured: String,
    /// Why the run ended before its time, where it did.
    pub ended_early: Option<String>,
}

/// A comparison at a place, on every host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFinding {
    /// `metric: cell against baseline value`, the same in every run of the study.
    pub id: String,
    /// Metric of the comparison.
    pub metric: Metric,
    /// The two compared values, in words.
    pub what: String,
    /// The values that both cells share, in words.
    pub place: String,
    /// Family of comparisons that it is tested in.
    pub family: Family,
    /// The finding of each host, from the least ratio to the greatest.
    pub hosts: Vec<HostEstimate>,
    /// Hosts without one.
    pub gaps: Vec<HostGap>,
    /// True if the verdict is better on one host and worse on another.
    pub hosts_disagree: bool,
}

/// The finding of a host's own run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostEstimate {
    /// Name of the host.
    pub host: String,
    /// Finding of the host's run.
    #[serde(flatten)]
    pub finding: Finding,
}

/// A host whose run does not have a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostGap {
    /// Name of the host.
    pub host: String,
    /// Reason why it was not measured.
    pub why: String,
}

/// A fact that is not the same on all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostDifference {
    /// Its name.
    pub fact: String,
    /// Each value with its hosts, in their order.
    pub values: Vec<HostFact>,
}

/// A value of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFact {
    /// The fact in words; none where it is not known.
    pub value: Option<String>,
    /// The hosts that have it.
    pub hosts: Vec<String>,
}

impl HostEstimate {
    fn verdict(&self) -> &'static str {
        match self.finding.withheld {
            Some(_) => "no verdict",
            None => DocMark::from(self.finding.verdict).words,
        }
    }
}

/// Puts runs of one study side by side.
pub fn table(runs: &[HostRun<'_>]) -> HostTable {
    let study = runs.first().map(|run| &run.analysis.study);
    let analyses = runs.iter().map(|run| run.analysis);
    let findings = analyses.flat_map(|a| a.findings.iter().map(move |f| (a, f)));
    HostTable {
        format: FORMAT,
        study: study.map_or_else(String::new, |s| s.name.clone()),
        title: study.map_or_else(String::new, |s| s.title.clone()),
        unit: study.map_or_else(Unit::default, |s| s.unit),
        smallest_effect: study.map_or(0.0, |s| s.smallest_effect),
        hosts: runs.iter().map(line).collect(),
        findings: (findings.unique_by(|(_, f)| f.key()))
            .map(|(a, f)| finding(a, f, runs))
            .collect(),
        differences: differences(runs),
    }
}

fn line(run: &HostRun<'_>) -> HostLine {
    let a = run.analysis;
    HostLine {
        host: run.host.to_owned(),
        peer: a.peer.as_ref().map(|peer| peer.name.clone()),
        run: a.run.id.clone(),
        started: a.run.started.clone(),
        measured: descriptions::run(a),
        ended_early: a.run.ended_early.clone(),
    }
}

fn finding(a: &Analysis, f: &Finding, runs: &[HostRun<'_>]) -> HostFinding {
    let mut hosts = Vec::new();
    let mut gaps = Vec::new();
    for run in runs {
        let host = run.host.to_owned();
        let mut findings = run.analysis.findings.iter();
        match findings.find(|own| own.key() == f.key()).cloned() {
            Some(finding) => hosts.push(HostEstimate { host, finding }),
            None => gaps.push(HostGap {
                host,
                why: why_not(run.analysis, f),
            }),
        }
    }
    hosts.sort_by(|one, other| one.finding.ratio.total_cmp(&other.finding.ratio));
    let any = |verdict| hosts.iter().any(|h| h.finding.verdict == verdict);
    HostFinding {
        id: format!("{}: {} against {}", f.metric, f.cell, f.baseline_value),
        metric: f.metric,
        what: format!("`{}` against `{}`", f.value, f.baseline_value),
        place: comparisons::place(a, f),
        family: f.family,
        hosts_disagree: any(Verdict::Better) && any(Verdict::Worse),
        hosts,
        gaps,
    }
}

fn why_not(a: &Analysis, f: &Finding) -> String {
    let is_of = |cell: &Cell| [&f.cell, &f.baseline].contains(&&cell.id());
    let refused = a.refused_cells.iter().find(|r| is_of(&r.cell));
    refused.map_or_else(
        || "This run did not measure it, or too few times to compare.".to_owned(),
        |r| r.why.clone(),
    )
}

fn facts(run: &HostRun<'_>) -> Vec<(String, String)> {
    let a = run.analysis;
    let cards_here = a.peer.as_ref().map_or(&[][..], |peer| &peer.own_cards);
    let mut facts = machine(&a.host, cards_here);
    if let Some(peer) = &a.peer {
        let there = machine(&peer.host, &peer.cards).into_iter();
        facts.extend(there.map(|(name, value)| (format!("Other host: {name}"), value)));
    }
    let files = a.run.files.as_ref().map(run_words::files);
    let measured = [
        ("bytecost", &*a.run.bytecost_version),
        ("Build of bytecost", run.build.unwrap_or("not known")),
        ("Window", &milliseconds(a.study.window_ms)),
        ("Warm-up", &milliseconds(a.study.warmup_ms)),
        (
            "Smallest difference that matters",
            &percent(a.study.smallest_effect),
        ),
        ("Java", a.run.java.as_deref().unwrap_or("not used")),
        ("Files", files.as_deref().unwrap_or("not used")),
    ];
    facts.extend(measured.map(|(name, value)| (name.to_owned(), value.to_owned())));
    facts
}

fn machine(host: &Host, cards: &[NetworkCard]) -> Vec<(String, String)> {
    let identity = &host.identity;
    let mut facts: Vec<(&str, String)> = descriptions::machine(host, cards);
    for check in &host.checks {
        if SETTINGS.split(", ").contains(&&*check.name) {
            facts.push((&check.name, check.found.clone()));
        }
    }
    for (name, value) in [
        ("Build of the kernel", &identity.kernel_version),
        ("Kernel command line", &identity.kernel_command_line),
        ("Microcode", &identity.microcode),
    ] {
        facts.extend(value.iter().map(|value| (name, value.clone())));
    }
    let settings = identity.settings.iter();
    facts.extend(settings.map(|(name, value)| (name.as_str(), value.clone())));
    let owned = |(name, fact): (&str, String)| (name.to_owned(), fact);
    facts.into_iter().map(owned).collect()
}

/// Facts that are not the same everywhere, in the order in which they are known.
fn differences(runs: &[HostRun<'_>]) -> Vec<HostDifference> {
    let facts: Vec<_> = runs.iter().map(facts).collect();
    let names = facts.iter().flatten().map(|(name, _)| name).unique();
    let difference = |fact: &String| {
        let values = grouped(runs.iter().zip(&facts).map(|(run, facts)| {
            let mut found = facts.iter().filter(|(n, _)| n == fact).map(|(_, v)| v);
            let value = Some(found.join("; ")).filter(|value| !value.is_empty());
            (value, run.host.to_owned())
        }));
        HostDifference {
            fact: fact.clone(),
            values: values
                .into_iter()
                .map(|(value, hosts)| HostFact { value, hosts })
                .collect(),
        }
    };
    let differences = names.map(difference);
    differences.filter(|d| d.values.len() > 1).collect()
}

fn document(t: &HostTable, all: bool) -> Document {
    let mut d = answer(t);
    d.blocks.extend(body(t, all).blocks);
    d
}

/// Renders primary comparisons, or all, for a terminal. No line is wider than `style.width`.
pub fn terminal(t: &HostTable, all: bool, style: Style) -> String {
    crate::terminal::print(&document(t, all), style)
}

/// Renders all of the table as Markdown.
pub fn markdown(t: &HostTable) -> String {
    crate::markdown::print(&t.title, &document(t, true))
}

/// Renders all of the table as a page that needs nothing else.
pub fn html(t: &HostTable) -> String {
    let foot = format!("{} · {}", t.study, hosts(t));
    let (answer, body) = (answer(t).blocks, body(t, true).blocks);
    page::plain(&t.title, &answer, String::new(), &body, &foot)
}

/// Renders the table as JSON.
pub fn json(t: &HostTable) -> String {
    crate::json_lines::by_lines(t)
}

/// Renders the table as CSV: a row a comparison and host; what is not available is empty.
pub fn csv(t: &HostTable) -> Result<Vec<u8>, csv::Error> {
    let header = [
        "study", "metric", "what", "place", "family", "host", "ratio", "low", "high", "blocks",
        "verdict", "why",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for f in &t.findings {
        let finding = [
            t.study.clone(),
            f.metric.to_string(),
            f.what.replace('`', ""),
            f.place.clone(),
            f.family.name().to_owned(),
        ];
        for h in &f.hosts {
            let (of, host) = (&h.finding, [h.host.clone()]);
            let numbers = [of.ratio, of.low, of.high].map(|n| n.to_string());
            let why = of.withheld.map_or("", withholding_reason).to_owned();
            let words = [of.blocks.to_string(), h.verdict().to_owned(), why];
            rows.push([&finding[..], &host, &numbers, &words].concat());
        }
        for gap in &f.gaps {
            let (host, numbers) = ([gap.host.clone()], [const { String::new() }; 4]);
            let words = ["not measured".to_owned(), gap.why.clone()];
            rows.push([&finding[..], &host, &numbers, &words].concat());
        }
    }
    csv_rows(rows)
}

fn hosts(t: &HostTable) -> String {
    let pairs = t.hosts.iter().filter(|h| h.peer.is_some()).count();
    let hosts = nonzero(t.hosts.len() - pairs, ["host", "hosts"]);
    let pairs = nonzero(pairs, ["pair of hosts", "pairs of hosts"]);
    joined([hosts, pairs], " and ")
}

fn answer(t: &HostTable) -> Document {
    let mut d = Document::default();
    let compared = count(t.findings.len(), "comparison", "comparisons");
    let head = format!("`{}` on {}: {compared}", t.study, hosts(t));
    d.paragraph(Ink::Strong, head);
    d.push(DocBlock::Paragraph(disagreement(t)));
    let legend = format!(
        "Each row: the ratio to the baseline on that host with its 95 % interval, and the verdict of that host's own run: ▲ better, ▼ worse, = no difference that matters (within ±{}), ? not decided, · not judged. Hosts are in the order of their ratios. Nothing is pooled over hosts.",
        percent(t.smallest_effect)
    );
    d.paragraph(Ink::Faint, legend);
    d
}

fn disagreement(t: &HostTable) -> DocLine {
    let contrary: Vec<&HostFinding> = t.findings.iter().filter(|f| f.hosts_disagree).collect();
    if contrary.is_empty() {
        return "No comparison is decided better on one host and worse on another.".into();
    }
    let sentence = |f: &&HostFinding| {
        let on = |verdict| {
            let hosts = f.hosts.iter().filter(|h| h.finding.verdict == verdict);
            hosts.map(|h| h.host.as_str()).join(", ")
        };
        let place = match f.place.as_str() {
            "" => String::new(),
            place => format!(" ({place})"),
        };
        let (what, metric) = (&f.what, f.metric.title(t.unit));
        let [better, worse] = [Verdict::Better, Verdict::Worse].map(on);
        format!("{what} in {metric}{place} is better on {better} and worse on {worse}")
    };
    let more = contrary.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("{more} more"));
    let sentences = contrary.iter().take(LISTED).map(sentence);
    let listed = sentences.chain(more).join("; ");
    let places = count(contrary.len(), "comparison", "comparisons");
    let text = format!("Hosts disagree in {places}: {listed}.");
    DocLine::of(Ink::Warning, text)
}

fn body(t: &HostTable, all: bool) -> Document {
    let mut d = Document::default();
    d.section("Comparisons", "comparisons", "Comparisons");
    let is_primary = |f: &&HostFinding| f.family == Family::Primary;
    let (mut shown, mut rest): (Vec<_>, Vec<_>) = t.findings.iter().partition(is_primary);
    if all || shown.is_empty() {
        shown.append(&mut rest);
    }
    let mut notes = Vec::new();
    d.push(DocBlock::Table(findings(t, &shown, &mut notes)));
    d.push(DocBlock::Notes(notes));
    if !rest.is_empty() {
        let more = count(rest.len(), "more comparison", "more comparisons");
        d.paragraph(Ink::Faint, format!("{more}: --all"));
    }
    let title = "What differs between the hosts";
    d.section(title, "differences", "Differences");
    if t.differences.is_empty() {
        d.paragraph(Ink::Plain, "No fact that is known of them differs.");
    } else {
        d.push(DocBlock::Table(differing(t)));
    }
    d.section("Runs", "runs", "Runs");
    d.push(DocBlock::Table(runs(t)));
    d
}

fn findings(t: &HostTable, shown: &[&HostFinding], notes: &mut Vec<String>) -> DocTable {
    // A metric that is that of all rows stands above them once.
    let mut metrics = shown.iter().map(|f| f.metric);
    let metric = metrics.all_equal_value().ok().map(|m| m.title(t.unit));
    let rows = shown.iter().flat_map(|f| {
        let title = match metric {
            Some(_) => String::new(),
            None => f.metric.title(t.unit),
        };
        let mut entries: Vec<[DocEntry; 4]> = Vec::new();
        for h in &f.hosts {
            let verdict = DocEntry::from(h.verdict())
                .marked(DocMark::from(h.finding.verdict))
                .noted(notes, h.finding.withheld.map(withholding_reason));
            let (ratio, interval) = (ratio(h.finding.ratio), ratio_interval(&h.finding));
            entries.push([
                h.host.as_str().into(),
                ratio.into(),
                interval.into(),
                verdict,
            ]);
        }
        for gap in &f.gaps {
            let verdict = DocEntry::from("not measured").noted(notes, Some(&gap.why));
            entries.push([
                gap.host.as_str().into(),
                DocEntry::gap(),
                DocEntry::gap(),
                verdict,
            ]);
        }
        let mut names = [title, f.what.clone(), f.place.clone()];
        let rows = entries.into_iter().map(|entries| -> Vec<DocEntry> {
            // The names stand in the first row of a comparison alone.
            let names = std::mem::take(&mut names).map(DocEntry::from);
            names.into_iter().chain(entries).collect()
        });
        rows.collect::<Vec<_>>()
    });
    let columns =
        DocColumn::all("metric | what | where | host | ratio> | 95 % interval> | verdict");
    let table = DocTable::of(columns, rows).without_empty_columns();
    table.captioned(metric.clone().unwrap_or_default())
}

fn differing(t: &HostTable) -> DocTable {
    let rows = t.differences.iter().flat_map(|d| {
        let mut name = d.fact.clone();
        d.values.iter().map(move |v| {
            let value = v.value.as_deref().unwrap_or("not known").to_owned();
            vec![std::mem::take(&mut name), value, v.hosts.join(", ")]
        })
    });
    DocTable::of(["fact", "value", "hosts"].map(DocColumn::left).into(), rows)
}

fn runs(t: &HostTable) -> DocTable {
    let rows = t.hosts.iter().map(|h| {
        let state = match &h.ended_early {
            Some(why) => format!("ended early: {why}"),
            None => String::new(),
        };
        let texts = [&h.host, &h.run, &h.started, &h.measured, &state];
        texts.map(String::clone).to_vec()
    });
    let mut columns = ["host", "run", "started", "measured", "state"].map(DocColumn::left);
    columns[1].kind = ColumnKind::Names;
    DocTable::of(columns.to_vec(), rows).without_empty_columns()
}
