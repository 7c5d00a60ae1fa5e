//! Lists that the command prints: what works here, what this machine is, which runs there are.

use std::time::Duration;

use bytecost_analysis::grouped;
use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::survey::{MoverFacts, ServerSurvey};
use bytecost_spec::{
    Cache, Host, Metric, RoundConditions, Route, RunProgress, Study, Survey, Transport, Unit,
    cpulist, units,
};
use itertools::Itertools as _;

use crate::document::{ColumnKind, DocBlock, DocColumn, DocTable, DocTerm, Document};
use crate::style::{Ink, Style};
use crate::{descriptions, sections, terminal, topology};

#[derive(Clone, Copy)]
struct Over<C: 'static> {
    columns: &'static [C],
    name: fn(C) -> &'static str,
    word: &'static str,
}

/// Renders `bytecost list`: movers and receivers by transport, transports, congestion controls,
/// studies, counters. What does not work has its reason below its table.
pub fn list(survey: &Survey, studies: &[Study], style: Style) -> String {
    let mut d = Document::default();
    let movers = |is_chosen: fn(Route) -> bool| -> Vec<(String, String)> {
        let movers = survey.mover_facts.iter().filter(|m| is_chosen(m.route));
        let summary = |m: &MoverFacts| with_caution(&m.summary, m.caution.as_deref());
        movers.map(|m| (m.name.clone(), summary(m))).collect()
    };
    let over = Over {
        columns: Transport::WITHIN,
        name: Transport::name,
        word: "over",
    };
    let mover_refused = |name: &str, t| survey.mover_refused(name, t);
    let of_sockets = movers(|route| !route.is_of_files() && !route.is_of_cpus());
    support(
        ["Movers", "mover"],
        &of_sockets,
        over,
        mover_refused,
        &mut d,
    );
    if let Some(files) = &survey.files {
        let caches = Over {
            columns: Cache::ALL,
            name: Cache::name,
            word: "with cache",
        };
        let heading = format!("Movers of files, in {} ({})", files.dir, files.file_system);
        let file_refused = |name: &str, cache| survey.file_refused(name, cache);
        let of_files = movers(Route::is_of_files);
        support([&heading, "mover"], &of_files, caches, file_refused, &mut d);
    }
    let turns = "Two threads that take turns, on two CPUs or one";
    for (heading, rows) in [
        ("Work, which moves nothing", movers(Route::is_work)),
        (turns, movers(Route::is_ping)),
    ] {
        if !rows.is_empty() {
            named(heading, ["mover", "what it does"], rows, &mut d);
        }
    }
    let receivers: Vec<(String, String)> = (survey.receiver_facts.iter())
        .map(|r| (r.name.clone(), r.summary.clone()))
        .collect();
    let refused = |name: &str, t| survey.receiver_refused(name, t);
    support(["Receivers", "receiver"], &receivers, over, refused, &mut d);
    if let Some(serving) = &survey.serving {
        servers(serving, &mut d);
    }
    let transport = |t: &Transport| (t.name().to_owned(), t.summary().to_owned());
    let transports = Transport::WITHIN.iter().map(transport);
    let names = ["transport", "what it is"];
    named("Transports", names, transports, &mut d);
    if !survey.congestion_controls.is_empty() {
        d.push(DocBlock::heading("Congestion controls"));
        d.paragraph(Ink::Plain, survey.congestion_controls.join(", "));
    }
    let questions = studies.iter().map(|s| (s.name.clone(), s.question.clone()));
    named("Studies", ["study", "question"], questions, &mut d);
    if !survey.counters_refused.is_empty() {
        let heading = "Counters that are not available on this machine";
        d.push(DocBlock::heading(heading));
        let counters = survey.counters_refused.iter();
        d.push(DocBlock::terms(
            counters.map(|r| (r.subject.name(), r.why.as_str())),
        ));
    }
    terminal::print(&d, style)
}

/// Renders `bytecost doctor`: what was looked at, and for each what it means and what to do.
pub fn doctor(host: &Host, style: Style) -> String {
    let mut d = Document::default();
    d.paragraph(Ink::Strong, descriptions::host_line(host));
    for line in topology::lines(host) {
        d.paragraph(Ink::Plain, line);
    }
    d.push(DocBlock::Terms(sections::checks(&host.checks)));
    terminal::print(&d, style)
}

/// Renders `bytecost runs`, in the order given, and below them how much ratios differ from run to run
/// on this machine, by the conditions of its earlier rounds.
pub fn runs(runs: &[RunProgress], noise: &[(RoundConditions, RoundNoise)], style: Style) -> String {
    let mut d = Document::default();
    let rows = runs.iter().map(|r| {
        let records = r.records.to_string();
        let texts = [&r.id, &r.started, &r.study, &records, &r.state];
        texts.map(String::clone).to_vec()
    });
    let mut columns = DocColumn::all("run | started | study | records | state");
    columns[0].kind = ColumnKind::Names;
    d.push(DocBlock::Table(DocTable::of(columns, rows)));
    between_rounds(noise, &mut d);
    terminal::print(&d, style)
}

/// Table of the differences of ratios between runs, as limits that 95 % of runs keep.
fn between_rounds(noise: &[(RoundConditions, RoundNoise)], d: &mut Document) {
    let heading = "How much ratios differ from run to run on this machine";
    d.push(DocBlock::heading(heading));
    let mut rows = Vec::new();
    for (conditions, of_rounds) in noise {
        let metrics = of_rounds.comparisons.iter().map(|c| c.metric).unique();
        rows.extend(metrics.map(|metric| metric_row(conditions, of_rounds, metric)));
    }
    if rows.is_empty() {
        let assumed = by_share(RoundNoise::ASSUMED.assumed.variance);
        let text = format!(
            "Assumed: {assumed} in 95 % of runs. Fewer than three earlier rounds of this machine and kernel are known; `bytecost run` adds one, and --rounds several."
        );
        return d.paragraph(Ink::Plain, text);
    }
    let headings = "metric | window | CPUs | rounds | in 95 % of runs | least and most";
    let mut columns = DocColumn::all(headings);
    columns[0].kind = ColumnKind::Names;
    d.push(DocBlock::Table(DocTable::of(columns, rows)));
}

fn metric_row(conditions: &RoundConditions, noise: &RoundNoise, metric: Metric) -> Vec<String> {
    let comparisons = noise.comparisons.iter().filter(|c| c.metric == metric);
    let variances = comparisons.clone().map(|c| c.between.variance);
    let span = variances.minmax_by(f64::total_cmp).into_option();
    let ends = span.into_iter().flat_map(|(least, most)| [least, most]);
    let typical = noise.metrics.iter().find(|m| m.metric == metric);
    let mut cpus = cpulist::write(&conditions.cpus_allowed);
    if conditions.peer.is_some() {
        cpus += " and another host";
    }
    vec![
        metric.title(Unit::default()),
        units::duration(Duration::from_millis(conditions.window_ms)),
        cpus,
        comparisons.map(|c| c.rounds).max().unwrap_or(0).to_string(),
        typical.map_or_else(String::new, |m| by_share(m.between.variance)),
        ends.map(by_share).dedup().join(" – "),
    ]
}

/// The share by which a ratio differs at most in 95 % of runs, by the variance of its logarithm.
fn by_share(variance: f64) -> String {
    format!("±{}", units::percent((1.96 * variance.sqrt()).exp_m1()))
}

fn with_caution(summary: &str, caution: Option<&str>) -> String {
    match caution {
        Some(caution) => format!("{summary}. Caution: {caution}"),
        None => summary.to_owned(),
    }
}

/// A heading with a table of names and what they are.
fn named(
    heading: &str,
    [name, what]: [&str; 2],
    rows: impl IntoIterator<Item = (String, String)>,
    d: &mut Document,
) {
    d.push(DocBlock::heading(heading));
    let columns = vec![DocColumn::names(name), DocColumn::left(what)];
    let table = DocTable::of(columns, rows.into_iter().map(|row| vec![row.0, row.1]));
    d.push(DocBlock::Table(table));
}

/// Servers and what they answer; below them why one does not work here.
fn servers(serving: &ServerSurvey, d: &mut Document) {
    let servers = serving.servers.iter().map(|s| {
        (
            s.name.clone(),
            with_caution(&s.summary, s.caution.as_deref()),
        )
    });
    named("Servers", ["server", "how it serves"], servers, d);
    for why in serving.servers.iter().filter_map(|s| s.refused.as_ref()) {
        d.paragraph(Ink::Plain, why);
    }
    if let Some(way) = &serving.generator {
        let text = format!("Their clients, the load generator, reach the kernel by {way}.");
        d.paragraph(Ink::Plain, text);
    }
    let services = serving.services.iter();
    let summaries = services.map(|s| (s.name.clone(), s.summary.clone()));
    named("Services", ["service", "what it answers"], summaries, d);
}

/// A table of supported combinations; the reasons for gaps follow below, each once.
fn support<C: Copy>(
    [heading, what]: [&str; 2],
    rows: &[(String, String)],
    over: Over<C>,
    refused: impl Fn(&str, C) -> Option<String>,
    d: &mut Document,
) {
    d.push(DocBlock::heading(heading));
    let names = over.columns.iter().map(|c| (over.name)(*c));
    let names = std::iter::once(what).chain(names);
    let mut columns: Vec<DocColumn> = names.map(DocColumn::names).collect();
    columns.push(DocColumn::left("what it does"));
    let mut lines = Vec::new();
    let mut reasons = Vec::new();
    for (name, summary) in rows {
        let mut line = vec![name.as_str()];
        for column in over.columns {
            let refused = refused(name, *column);
            line.push(if refused.is_some() { "✗" } else { "✓" });
            let place = format!("{name} {} {}", over.word, (over.name)(*column));
            reasons.extend(refused.map(|why| (why, place)));
        }
        line.push(summary);
        lines.push(line);
    }
    d.push(DocBlock::Table(DocTable::of(columns, lines)));
    let term = |(why, places): (String, Vec<String>)| {
        DocTerm::new(format!("✗ {}", places.join(", ")), [why])
    };
    let terms: Vec<DocTerm> = grouped(reasons).into_iter().map(term).collect();
    if !terms.is_empty() {
        d.push(DocBlock::Terms(terms));
    }
}
