//! The first table of a result: the ways that the study compares, in parts with a first row each, and
//! a column of notes that says what only one row has.

use bytecost_analysis::{Analysis, Estimate, Finding, RANGES, Situation, grouped};
use bytecost_spec::{Axis, Metric, Value, units};
use itertools::Itertools as _;

use crate::advice;
use crate::comparisons::not_judged;
use crate::descriptions;
use crate::document::{DocColumn, DocEntry, DocMark, DocRow, DocTable};
use crate::numbers;
use crate::overview;
use crate::phrases;
use crate::question::{NULL, QuestionEntry, QuestionRow, QuestionTable, sort_values};
use crate::stalls;
use crate::terminal::columns_of_numbers;
use crate::text::first_words;

/// The most columns of numbers.
const COLUMNS: usize = 5;
/// The fewest characters of a note that still say something.
const NOTE_CHARS_LEAST: usize = 12;
/// The heading of the column of notes.
pub(crate) const NOTE: &str = "note";
const NO_VERDICT: &str = "–";

/// Limits on the size of a table on the first screen.
#[derive(Clone, Copy)]
pub(crate) struct TableRoom {
    /// The most rows in all, with those of the baselines.
    pub rows: usize,
    /// The most characters of a note.
    pub note_chars: usize,
    /// The columns of a line, where each row has one line and its note is cut to fit.
    pub line_columns: Option<usize>,
}

/// Tables of an answer, with the values that they show.
#[derive(Default)]
pub(crate) struct AnswerTables {
    pub tables: Vec<DocTable>,
    /// The values that are named in rows, columns and titles.
    pub values: Vec<(Axis, Value)>,
    /// The notes and titles.
    pub texts: Vec<String>,
    /// Number of rows that were left out for lack of room.
    pub rows_left: usize,
}

/// Rows that are compared with one baseline, for one reader.
struct Part<'q> {
    question: &'q QuestionTable<'q>,
    situations: Vec<&'q Situation>,
    /// The baseline first.
    rows: Vec<&'q QuestionRow<'q>>,
}

/// The tables that answer the study's question: of comparisons, of pairs for a study that has
/// pairs, or of the cells' numbers where nothing is compared.
pub(crate) fn answer_tables(
    a: &Analysis,
    questions: &[QuestionTable<'_>],
    room: TableRoom,
) -> AnswerTables {
    if questions.is_empty() && a.speed_ups.is_empty() {
        return measured(a, room.rows);
    }
    let mut found = AnswerTables::default();
    if !a.speed_ups.is_empty() {
        let (pairs, left) = overview::summary(a, room.rows);
        found.rows_left += left;
        found.tables.push(pairs);
    }
    let mut parts = parts(a, questions);
    let rows = |parts: &[Part<'_>]| parts.iter().map(|p| p.rows.len()).sum::<usize>();
    let all = rows(&parts);
    let shown = found.tables.iter().map(|table| table.rows.len()).sum();
    let most = room.rows.saturating_sub(shown);
    while rows(&parts) > most && shorten(&mut parts) {}
    if most == 0 && shown > 0 {
        parts.clear();
    }
    found.rows_left += all - rows(&parts);
    // Parts with equal columns are put into one table.
    let mut tables: Vec<(Option<Axis>, Vec<Value>, Vec<Part<'_>>)> = Vec::new();
    for part in parts {
        let (x, columns) = (part.question.x, &part.question.columns);
        let fits = |known: &[Value]| {
            let has_all = |has: &[Value], of: &[Value]| of.iter().all(|c| has.contains(c));
            has_all(known, columns) || has_all(columns, known)
        };
        match tables
            .iter_mut()
            .find(|(axis, known, _)| *axis == x && fits(known))
        {
            Some((_, known, parts)) => {
                let more = columns.iter().filter(|c| !known.contains(c)).cloned();
                known.extend(more.collect_vec());
                if let Some(x) = x {
                    sort_values(x, known);
                }
                parts.push(part);
            }
            None => tables.push((x, columns.clone(), vec![part])),
        }
    }
    for (x, columns, parts) in tables {
        found.add(a, x, &spread(&columns), &parts, room);
    }
    found
}

/// The parts of the table in the order of the advice.
fn parts<'q>(a: &'q Analysis, questions: &'q [QuestionTable<'q>]) -> Vec<Part<'q>> {
    let asked = a.advice.situations.iter().flat_map(|s| {
        let own = questions
            .iter()
            .enumerate()
            .filter(move |(_, q)| is_of(q, s));
        own.map(move |(place, _)| ((place, s.subject as u8, s.baseline_is_apart), s))
    });
    let groups = grouped(asked);
    if groups.is_empty() {
        let whole = |question: &'q QuestionTable<'q>| Part {
            question,
            situations: Vec::new(),
            rows: question.rows.iter().collect(),
        };
        return questions.iter().take(1).map(whole).collect();
    }
    let named = |name: &Value| {
        let is_baseline = |place: &usize| questions[*place].baseline == *name;
        let mut all = groups.iter();
        all.any(|((place, ..), situations)| is_baseline(place) || has_value(situations, name))
    };
    let mut parts: Vec<Part<'_>> = Vec::new();
    for ((place, _, is_apart), situations) in &groups {
        let question = &questions[*place];
        let mut own = groups.iter().filter(|((of, ..), _)| of == place);
        let is_first = own.next().is_some_and(|(_, first)| first == situations);
        let has_own_baseline = !is_apart
            || groups
                .iter()
                .all(|((of, .., apart), _)| of != place || *apart);
        let is_row = |row: &&QuestionRow<'_>| {
            if row.is_baseline {
                return has_own_baseline;
            }
            // A comparison and its inverse are shown once.
            let is_turned = |part: &Part<'_>| {
                let q = part.question;
                let mut others = part.rows.iter();
                is_same_place(q, question)
                    && q.baseline == row.name
                    && others.any(|other| other.name == question.baseline)
            };
            if parts.iter().any(is_turned) {
                return false;
            }
            let is_compared = row.entries.iter().any(|e| e.finding().is_some());
            has_value(situations, &row.name) || is_first && !is_compared && !named(&row.name)
        };
        let rank = rank(a, situations);
        let rows = question.rows.iter().filter(is_row);
        let rows = rows.sorted_by_key(|row| (!row.is_baseline, rank(&row.name)));
        let rows = rows.collect_vec();
        // The same ways compared with another one of them say nothing new.
        let has_all = |part: &Part<'_>| {
            let has = |name: &Value| part.rows.iter().any(|row| row.name == *name);
            is_same_place(part.question, question) && rows.iter().all(|row| has(&row.name))
        };
        let is_compared = rows.iter().any(|row| !row.is_baseline);
        if is_compared && !parts.iter().any(has_all) {
            parts.push(Part {
                question,
                situations: situations.clone(),
                rows,
            });
        }
    }
    parts
}

/// Returns true if two tables differ in nothing but what the others are compared with.
fn is_same_place(one: &QuestionTable<'_>, other: &QuestionTable<'_>) -> bool {
    (one.metric, one.axis, one.x) == (other.metric, other.axis, other.x) && one.panel == other.panel
}

fn has_value(situations: &[&Situation], value: &Value) -> bool {
    situations
        .iter()
        .any(|s| s.values.iter().any(|v| v == value))
}

/// Returns true if a table has comparisons of a situation.
fn is_of(q: &QuestionTable<'_>, s: &Situation) -> bool {
    let has = |axis: Axis, value: &Value| {
        let named = s.place.iter().find(|(own, _)| *own == axis);
        named.map_or(*value == axis.row().default, |(_, own)| own == value)
    };
    let is_at = |(axis, at): &(Axis, Value)| {
        if Some(*axis) == s.along {
            s.measured.contains(at)
        } else {
            has(*axis, at)
        }
    };
    let is_across =
        q.x.is_none_or(|x| Some(x) == s.along || q.columns.iter().any(|c| has(x, c)));
    (q.metric, q.axis, &q.baseline) == (s.metric, s.axis, &s.baseline)
        && is_across
        && q.panel.iter().all(is_at)
}

/// Rank of a way in the advice: the ways to use, then the conditional ones, then those to avoid.
fn rank(a: &Analysis, situations: &[&Situation]) -> impl Fn(&Value) -> usize + use<> {
    let used = situations.iter().flat_map(|s| {
        s.uses.iter().flat_map(|u| {
            let ties = u
                .gain
                .iter()
                .flat_map(|_| advice::rivals(a, s, &u.value, &u.at));
            std::iter::once(u.value.clone()).chain(ties.map(|(tie, _)| tie))
        })
    });
    let conditional = situations.iter().flat_map(|s| &s.conditional);
    let worse = situations.iter().flat_map(|s| &s.avoid);
    let named: Vec<Value> = used
        .chain(conditional.map(|c| c.gain.value.clone()))
        .chain(worse.map(|w| w.cost.value.clone()))
        .collect();
    move |name| named.iter().position(|n| n == name).unwrap_or(usize::MAX)
}

/// Removes a row from the longest part, or the last part where none has more than two rows. Returns
/// false where one such part is left.
fn shorten(parts: &mut Vec<Part<'_>>) -> bool {
    let longest = (parts.iter().enumerate()).max_by_key(|(place, part)| (part.rows.len(), *place));
    match longest.map(|(place, part)| (place, part.rows.len())) {
        Some((place, 3..)) => {
            parts[place].rows.pop();
            true
        }
        Some(_) if parts.len() > 1 => {
            parts.pop();
            true
        }
        _ => false,
    }
}

/// At most [`COLUMNS`] of the columns: both ends, and columns spread evenly between them.
fn spread(columns: &[Value]) -> Vec<Value> {
    let shown = columns.len().min(COLUMNS);
    let steps = shown.saturating_sub(1).max(1);
    let places = (0..shown).map(|i| i * (columns.len() - 1) / steps);
    places.map(|place| columns[place].clone()).collect()
}

impl AnswerTables {
    fn add(
        &mut self,
        a: &Analysis,
        x: Option<Axis>,
        columns: &[Value],
        parts: &[Part<'_>],
        room: TableRoom,
    ) {
        let note_chars = room.note_chars;
        let first = parts[0].question;
        let is_one = parts.len() == 1;
        let mut rows: Vec<DocRow> = Vec::new();
        let mut open = Vec::new();
        for part in parts {
            let q = part.question;
            self.values
                .extend(part.rows.iter().map(|row| (q.axis, row.name.clone())));
            self.values.extend(q.panel.clone());
            if !is_one {
                let title = part.title(a, parts);
                // Each reason once.
                let note = part.situations.iter().find_map(|s| advice::open(s));
                let note = note.filter(|note| !open.contains(note)).unwrap_or_default();
                open.push(note.clone());
                let note = first_words(&note, note_chars);
                self.texts.extend([title.clone(), note.clone()]);
                let blanks = columns.iter().map(|_| DocEntry::default());
                rows.push(DocRow {
                    entries: std::iter::once(DocEntry::from(title))
                        .chain(blanks)
                        .chain([DocEntry::from(note)])
                        .collect(),
                    ..DocRow::default()
                });
            }
            for row in &part.rows {
                let note = first_words(&part.note(a, row), note_chars);
                self.texts.push(note.clone());
                let entries = columns.iter().map(|column| {
                    let place = q.columns.iter().position(|c| c == column);
                    place.map_or_else(|| NO_VERDICT.into(), |place| shown_entry(a, q, row, place))
                });
                rows.push(DocRow {
                    entries: std::iter::once(DocEntry::from(part.name(row, is_one)))
                        .chain(entries)
                        .chain([DocEntry::from(note)])
                        .collect(),
                    is_baseline: row.is_baseline,
                    finding: None,
                });
            }
        }
        let is_one_axis = parts.iter().all(|part| part.question.axis == first.axis);
        let of = if is_one_axis { first.axis.name() } else { "" };
        let mut head = heading(of, x, columns);
        head.push(DocColumn::left(NOTE));
        if let Some(x) = x {
            self.values
                .extend(columns.iter().map(|column| (x, column.clone())));
        }
        let mut table = DocTable {
            caption: caption(a, parts, &rows),
            columns: head,
            rows,
        };
        if let Some(line_columns) = room.line_columns {
            let beside = line_columns.saturating_sub(columns_of_numbers(&table));
            for row in &mut table.rows {
                if let Some(note) = row.entries.last_mut() {
                    note.text = first_words(&note.text, beside.max(NOTE_CHARS_LEAST));
                }
            }
        }
        self.tables.push(table.without_empty_columns());
    }
}

impl Part<'_> {
    /// Title of a part: reader, place and metric, as far as they differ between the parts.
    fn title(&self, a: &Analysis, parts: &[Part<'_>]) -> String {
        let reader = |part: &Part<'_>| part.situations.first().map(|s| advice::title(s));
        let shared = a.advice.shared_place();
        let place = self.question.panel.iter().filter(|at| !shared.contains(at));
        let place = descriptions::panel(&place.cloned().collect_vec());
        let own = self.question.metric;
        let is_first = own == parts[0].question.metric;
        let metric = (!is_first).then(|| descriptions::metric_with_unit(own, a.study.unit));
        let is_apart = self.rows.iter().all(|row| !row.is_baseline);
        let against = is_apart.then(|| format!("times {} alone", self.question.baseline));
        let others = [against, Some(place), metric].into_iter().flatten();
        let others = others.filter(|part| !part.is_empty()).join(" · ");
        let own = reader(self).unwrap_or_default();
        if others.is_empty() {
            own
        } else if parts.iter().map(reader).all_equal() {
            others
        } else {
            format!("{own} · {others}")
        }
    }

    fn name(&self, row: &QuestionRow<'_>, is_one: bool) -> String {
        let q = self.question;
        let name = match q.axis {
            Axis::Mover | Axis::Server | Axis::Receiver => row.name.to_string(),
            axis => axis.subject(&row.name),
        };
        let unit = q.metric.measure.row().unit;
        match (row.is_baseline && !is_one && !unit.is_empty(), is_one) {
            (true, _) => format!("\u{a0}\u{a0}{name}, {unit}"),
            (false, false) => format!("\u{a0}\u{a0}{name}"),
            (false, true) => name,
        }
    }

    fn note(&self, a: &Analysis, row: &QuestionRow<'_>) -> String {
        let findings = row.entries.iter().filter_map(QuestionEntry::finding);
        let waits = findings.clone().any(|f| stalls::waits(a, &f.cell))
            || row.is_baseline && self.baselines().any(|id| stalls::waits(a, id));
        let gaps = row.entries.iter().map(|entry| match entry {
            QuestionEntry::Gap(why) => Some(why),
            QuestionEntry::Measured(..) => None,
        });
        let gaps: Option<Vec<&String>> = gaps.collect();
        let findings: Vec<&Finding> = findings.collect();
        let is_withheld = !findings.is_empty() && findings.iter().all(|f| f.withheld.is_some());
        let withheld = findings.iter().filter_map(|f| f.withheld.as_ref()).unique();
        let mut notes = Vec::new();
        if waits {
            notes.push("waits for a timer: see Stalls".to_owned());
        } else if is_withheld && !findings.iter().any(|f| stalls::is_between(a, f)) {
            notes.push(format!("no verdict: {}", withheld.take(1).join("")));
        }
        // A baseline that is not shown to be the best says so once, with its condition.
        notes.push(advice::note(a, &self.situations, &row.name));
        if let Some(why) = gaps.as_deref().and_then(|gaps| gaps.first()) {
            notes.push((*why).clone());
        }
        notes.into_iter().filter(|note| !note.is_empty()).join("; ")
    }

    /// The cells that the others of this part are compared with.
    fn baselines(&self) -> impl Iterator<Item = &str> {
        let entries = self.rows.iter().flat_map(|row| &row.entries);
        entries.filter_map(|e| Some(e.finding()?.baseline.as_str()))
    }
}

/// Caption of the table: the meaning of its numbers and of its marks.
fn caption(a: &Analysis, parts: &[Part<'_>], rows: &[DocRow]) -> String {
    let q = parts[0].question;
    let is_one = parts.len() == 1;
    let mut shown = rows.iter().flat_map(|row| &row.entries);
    let missing = if shown.any(|entry| entry.text == NO_VERDICT) {
        format!(" {NO_VERDICT} none")
    } else {
        String::new()
    };
    let entries = || {
        parts
            .iter()
            .flat_map(|part| &part.rows)
            .flat_map(|row| &row.entries)
    };
    let findings = || entries().filter_map(QuestionEntry::finding);
    let stalled = if findings().any(|f| stalls::is_between(a, f)) {
        ", an amount with its unit: not compared, since one side stalls"
    } else {
        ""
    };
    let what = if is_one {
        let metric = descriptions::metric_with_unit(q.metric, a.study.unit);
        let place = descriptions::panel(&q.panel);
        let place = [q.baseline.to_string(), place]
            .into_iter()
            .filter(|p| !p.is_empty())
            .join(", ");
        format!("{metric} relative to {place}")
    } else {
        let metric = phrases::capital(&phrases::metric(q.metric, a.study.unit));
        format!("{metric}, × the first row of its part")
    };
    format!(
        "{what}: ▲ better ▼ worse = within {} ? undecided{}{missing}{stalled}",
        numbers::percent(a.study.smallest_effect),
        not_judged(findings())
    )
}

/// Entry of a row in a column. A baseline out of place has the value that the others are compared
/// with.
fn shown_entry(a: &Analysis, q: &QuestionTable<'_>, row: &QuestionRow<'_>, i: usize) -> DocEntry {
    match row.entries.get(i) {
        Some(QuestionEntry::Measured(e, _)) if row.is_baseline => {
            numbers::amount(q.metric, e.value).into()
        }
        // A ratio to a wait is no comparison of ways.
        Some(QuestionEntry::Measured(e, Some(f))) if stalls::is_between(a, f) => {
            numbers::amount_with_unit(q.metric, e.value).into()
        }
        Some(QuestionEntry::Measured(_, Some(f))) if f.withheld.is_none() => {
            let ratio = match f.amount_withheld {
                Some(_) => String::new(),
                None => numbers::ratio(f.ratio),
            };
            DocEntry::from(ratio).marked(DocMark::of(f.verdict))
        }
        // Nothing is there to compare it with.
        Some(QuestionEntry::Measured(e, None)) => units::number(e.value).into(),
        _ if row.is_baseline => {
            let mut here = q.rows.iter().filter_map(|r| r.entries.get(i)?.finding());
            let of = here.find_map(|f| a.result(&f.baseline));
            let estimate = of.and_then(|c| c.estimates.get(&q.metric));
            let groups = of.and_then(|c| c.two_groups.iter().find(|g| g.metric == q.metric));
            match (estimate, groups) {
                (Some(estimate), _) => numbers::amount(q.metric, estimate.value).into(),
                (None, Some(groups)) => groups.values_in_words().into(),
                (None, None) => NO_VERDICT.into(),
            }
        }
        _ => NO_VERDICT.into(),
    }
}

/// The numbers of what was measured, where nothing is compared: one measure, the ways down.
fn measured(a: &Analysis, most_rows: usize) -> AnswerTables {
    let cells = || a.cells.iter().filter(|c| c.cell.mover != NULL);
    let first = a.figures.first().map(|f| f.y);
    let first = first.filter(|metric| cells().any(|c| c.estimates.contains_key(metric)));
    let metric = first.or_else(|| cells().find_map(|c| c.estimates.keys().next().copied()));
    let Some(metric) = metric else {
        return AnswerTables::default();
    };
    let way = if cells().any(|c| c.cell.is_served()) {
        Axis::Server
    } else {
        Axis::Mover
    };
    let values = |axis: Axis| {
        let mut values: Vec<Value> = cells().map(|c| c.cell.value(axis)).unique().collect();
        sort_values(axis, &mut values);
        values
    };
    let x = RANGES
        .into_iter()
        .find(|axis| *axis != way && values(*axis).len() > 1);
    let columns = x.map_or_else(Vec::new, &values);
    let shown = if columns.is_empty() {
        vec![Value::default()]
    } else {
        spread(&columns)
    };
    let others = a
        .study
        .varied
        .iter()
        .filter(|axis| **axis != way && Some(**axis) != x);
    let others: Vec<Axis> = others.copied().collect();
    let by_row = grouped(cells().map(|c| {
        let place = others.iter().map(|axis| (*axis, c.cell.value(*axis)));
        ((c.cell.value(way), place.collect_vec()), c)
    }));
    let mut found = AnswerTables {
        rows_left: by_row.len().saturating_sub(most_rows),
        ..AnswerTables::default()
    };
    let mut rows = Vec::new();
    for ((name, place), cells) in by_row.into_iter().take(most_rows) {
        let title = descriptions::panel(&place);
        let title = [name.to_string(), title]
            .into_iter()
            .filter(|t| !t.is_empty())
            .join(", ");
        let entries = shown.iter().map(|column| {
            let mut own = cells
                .iter()
                .filter(|c| x.is_none_or(|x| c.cell.value(x) == *column));
            let estimate = own.find_map(|c| c.estimates.get(&metric));
            let text = estimate.map_or_else(
                || NO_VERDICT.to_owned(),
                |estimate| with_interval(metric, estimate),
            );
            DocEntry::from(text)
        });
        rows.push(DocRow {
            entries: std::iter::once(DocEntry::from(title))
                .chain(entries)
                .collect(),
            ..DocRow::default()
        });
        found.values.push((way, name));
        found.values.extend(place);
    }
    found.tables.push(DocTable {
        caption: descriptions::metric_with_unit(metric, a.study.unit),
        columns: heading(&way.to_string(), x, &shown),
        rows,
    });
    if let Some(x) = x {
        found
            .values
            .extend(shown.into_iter().map(|value| (x, value)));
    }
    found
}

/// The heading of a table over the values of an axis.
fn heading(of: &str, x: Option<Axis>, columns: &[Value]) -> Vec<DocColumn> {
    let corner = x.map_or_else(String::new, |x| {
        format!("{of} by {x}").trim_start().to_owned()
    });
    let mut heading = vec![DocColumn::names(corner)];
    heading.extend(
        columns
            .iter()
            .map(|column| DocColumn::right(x.map_or_else(String::new, |x| x.in_words(column)))),
    );
    heading
}

/// `312 (301 to 323)`.
fn with_interval(metric: Metric, e: &Estimate) -> String {
    let interval = numbers::interval(e).map(|interval| format!(" ({interval})"));
    numbers::amount(metric, e.value) + &interval.unwrap_or_default()
}
