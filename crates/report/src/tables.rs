//! Lists that the command prints: what works here, what this machine is, which runs there are.

use bytecost_spec::host::Level;
use bytecost_spec::survey::ServerSurvey;
use bytecost_spec::{Cache, Host, Route, Study, Survey, Transport};

use crate::descriptions;
use crate::grid::TextGrid;
use crate::style::{Ink, Style};
use crate::text::{clean, columns, wrap};
use crate::topology;

/// The widest name of a check that its findings stand beside.
const LABEL_COLUMNS: usize = 26;

/// A run, as `bytecost runs` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLine {
    /// Its name.
    pub id: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// Its study.
    pub study: String,
    /// Trials in its log.
    pub trials: usize,
    /// How it stands: `complete`, `interrupted`, or why it cannot be read.
    pub state: String,
}

/// The columns of a table of what works.
#[derive(Clone, Copy)]
struct Over<C: 'static> {
    columns: &'static [C],
    name: fn(C) -> &'static str,
    word: &'static str,
}

/// Renders `bytecost list`: movers and receivers by transport, transports, congestion controls,
/// studies, counters. What does not work has its reason below its table.
#[must_use]
pub fn list(survey: &Survey, studies: &[Study], style: Style) -> String {
    let mut out = Out::new(style);
    let movers = |chosen: fn(Route) -> bool| -> Vec<(String, String)> {
        let all = survey.mover_facts.iter();
        all.filter(|m| chosen(m.route))
            .map(|m| {
                let summary = with_caution(&m.summary, m.caution.as_deref());
                (m.name.clone(), summary)
            })
            .collect()
    };
    let receivers: Vec<(String, String)> = survey
        .receiver_facts
        .iter()
        .map(|r| (r.name.clone(), r.summary.clone()))
        .collect();
    let over = Over {
        columns: Transport::ALL,
        name: Transport::name,
        word: "over",
    };
    out.support("Movers", "mover", &movers(of_sockets), over, |name, t| {
        survey.mover_refused(name, t)
    });
    if let Some(files) = &survey.files {
        let caches = Over {
            columns: Cache::ALL,
            name: Cache::name,
            word: "with cache",
        };
        let heading = format!("Movers of files, in {} ({})", files.dir, files.file_system);
        out.support(
            &heading,
            "mover",
            &movers(Route::is_of_files),
            caches,
            |name, cache| survey.file_refused(name, cache),
        );
    }
    for &(heading, of) in WITHOUT_A_PATH {
        let rows: Vec<Vec<String>> = (movers(of).into_iter())
            .map(|(name, summary)| vec![name, summary])
            .collect();
        if !rows.is_empty() {
            out.heading(heading);
            out.table(&["mover", "what it does"], &rows, &[24, 100]);
        }
    }
    out.support("Receivers", "receiver", &receivers, over, |name, t| {
        survey.receiver_refused(name, t)
    });
    if let Some(serving) = &survey.serving {
        out.servers(serving);
    }
    out.heading("Transports");
    let rows: Vec<Vec<String>> = Transport::ALL
        .iter()
        .map(|t| vec![t.name().to_owned(), t.summary().to_owned()])
        .collect();
    out.table(&["transport", "what it is"], &rows, &[20, 100]);
    if !survey.congestion_controls.is_empty() {
        out.heading("Congestion controls");
        out.prose(None, &survey.congestion_controls.join(", "), "  ", "  ");
    }
    out.heading("Studies");
    let rows: Vec<Vec<String>> = studies
        .iter()
        .map(|s| vec![s.name.clone(), s.question.clone()])
        .collect();
    out.table(&["study", "question"], &rows, &[24, 100]);
    out.counters(survey);
    out.text
}

/// Whether movers of a route are meant.
type Meant = fn(Route) -> bool;

/// Movers that move nothing over a path: their heading, and which they are.
const WITHOUT_A_PATH: &[(&str, Meant)] = &[
    ("Work, which moves nothing", Route::is_work),
    (
        "Two threads that take turns, on two CPUs or one",
        Route::is_ping,
    ),
];

fn of_sockets(route: Route) -> bool {
    !route.is_of_files() && !route.is_of_cpus()
}

/// Renders `bytecost doctor`: what was looked at, and for each what it means and what to do.
#[must_use]
pub fn doctor(host: &Host, style: Style) -> String {
    let mut out = Out::new(style);
    out.prose(Some(Ink::Strong), &descriptions::host_line(host), "", "  ");
    for line in topology::lines(host) {
        out.prose(None, &line, "  ", "    ");
    }
    out.text.push('\n');
    let label = host.checks.iter().map(|c| columns(&clean(&c.name))).max();
    let label = label.unwrap_or(0).min(LABEL_COLUMNS);
    for check in &host.checks {
        let (sign, ink) = match check.level {
            Level::Good => ("✓", None),
            Level::Note => ("·", None),
            Level::Warning => ("!", Some(Ink::Warn)),
        };
        let name = clean(&check.name);
        let indent = " ".repeat(label + 4);
        if columns(&name) <= label {
            let pad = " ".repeat(label - columns(&name));
            out.prose(ink, &check.found, &format!("{sign} {name}{pad}  "), &indent);
        } else {
            out.prose(ink, &name, &format!("{sign} "), "  ");
            out.prose(ink, &check.found, &indent, &indent);
        }
        out.prose(Some(Ink::Faint), &check.means, &indent, &indent);
        if let Some(remedy) = &check.remedy {
            out.prose(None, remedy, &format!("{indent}→ "), &format!("{indent}  "));
        }
    }
    out.text
}

/// Renders `bytecost runs`, in the order given.
#[must_use]
pub fn runs(runs: &[RunLine], style: Style) -> String {
    let mut out = Out::new(style);
    if runs.is_empty() {
        out.prose(
            None,
            "There is no run yet: `bytecost run` makes one.",
            "",
            "",
        );
        return out.text;
    }
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|r| {
            vec![
                r.id.clone(),
                r.started.clone(),
                r.study.clone(),
                r.trials.to_string(),
                r.state.clone(),
            ]
        })
        .collect();
    let header = ["run", "started", "study", "trials", "state"];
    out.table(&header, &rows, &[32, 20, 20, 7, 60]);
    out.text
}

fn with_caution(summary: &str, caution: Option<&str>) -> String {
    match caution {
        Some(caution) => format!("{summary} Caution: {caution}"),
        None => summary.to_owned(),
    }
}

struct Out {
    style: Style,
    text: String,
}

impl Out {
    /// Counters that cannot be had, each with its reason.
    fn counters(&mut self, survey: &Survey) {
        if survey.counters_refused.is_empty() {
            return;
        }
        self.heading("Counters that cannot be had here");
        for refusal in &survey.counters_refused {
            let told = format!("{}: {}", refusal.what, refusal.why);
            self.prose(None, &told, "  ", "    ");
        }
    }

    /// Servers and what they answer; below them why one does not work here.
    fn servers(&mut self, serving: &ServerSurvey) {
        self.heading("Servers");
        let rows: Vec<Vec<String>> = serving
            .servers
            .iter()
            .map(|s| {
                let summary = with_caution(&s.summary, s.caution.as_deref());
                vec![s.name.clone(), summary]
            })
            .collect();
        self.table(&["server", "how it serves"], &rows, &[20, 100]);
        for why in serving.servers.iter().filter_map(|s| s.refused.as_ref()) {
            self.prose(None, why, "  ", "    ");
        }
        if let Some(way) = &serving.generator {
            let told = format!("Their clients, the load generator, reach the kernel by {way}.");
            self.prose(None, &told, "  ", "  ");
        }
        self.heading("Services");
        let rows: Vec<Vec<String>> = serving
            .services
            .iter()
            .map(|s| vec![s.name.clone(), s.summary.clone()])
            .collect();
        self.table(&["service", "what it answers"], &rows, &[20, 100]);
    }

    fn new(style: Style) -> Out {
        Out {
            style,
            text: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn prose(&mut self, ink: Option<Ink>, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.style.columns(), first, rest) {
            let painted = match ink {
                Some(ink) => self.style.paint(ink, &line),
                None => self.style.paint_marks(&line),
            };
            self.line(&painted);
        }
    }

    fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(&self.style.paint(Ink::Strong, text));
    }

    fn table(&mut self, header: &[&str], rows: &[Vec<String>], most: &[usize]) {
        let layout = TextGrid {
            width: self.style.columns() + 2,
            indent: "  ",
            most,
            right: false,
        };
        let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
        for (i, line) in layout.lines(&header, rows).iter().enumerate() {
            match i {
                0 => self.line(&self.style.paint(Ink::Faint, line)),
                _ => self.line(&self.style.paint_marks(line)),
            }
        }
    }

    /// A table of what works over which transport, or on which kind of file; the reasons stand
    /// below it, each once.
    fn support<C: Copy>(
        &mut self,
        heading: &str,
        what: &str,
        rows: &[(String, String)],
        over: Over<C>,
        refused: impl Fn(&str, C) -> Option<String>,
    ) {
        self.heading(heading);
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        let mut cells = Vec::new();
        for (name, summary) in rows {
            let mut cell = vec![name.clone()];
            for &column in over.columns {
                let reason = refused(name, column);
                cell.push(if reason.is_some() { "✗" } else { "✓" }.to_owned());
                if let Some(reason) = reason {
                    let who = format!("{name} {} {}", over.word, (over.name)(column));
                    match reasons.iter_mut().find(|(r, _)| *r == reason) {
                        Some((_, whos)) => whos.push(who),
                        None => reasons.push((reason, vec![who])),
                    }
                }
            }
            cell.push(summary.clone());
            cells.push(cell);
        }
        let mut header = vec![what];
        header.extend(over.columns.iter().map(|c| (over.name)(*c)));
        header.push("what it does");
        let mut most = vec![24];
        most.extend(over.columns.iter().map(|c| columns((over.name)(*c))));
        most.push(100);
        self.table(&header, &cells, &most);
        for (reason, whos) in reasons {
            self.prose(
                None,
                &format!("✗ {}: {reason}", whos.join(", ")),
                "  ",
                "    ",
            );
        }
    }
}
