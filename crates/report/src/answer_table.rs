//! The first table of a result: the ways that the study compares, in parts with a first row each, and
//! a column of notes on single rows.

use bytecost_analysis::{
    Analysis, CaveatKind, CellResult, Estimate, Finding, RANGES, Situation, grouped,
};
use bytecost_spec::{Axis, Metric, Value, units};
use itertools::Itertools as _;

use crate::advice;
use crate::caveats::withholding_reason;
use crate::comparisons::not_judged;
use crate::descriptions;
use crate::document::{DocColumn, DocEntry, DocMark, DocRow, DocTable, GAP};
use crate::numbers;
use crate::overview;
use crate::phrases;
use crate::question::{NULL, QuestionEntry, QuestionRow, QuestionTable, sort_values};
use crate::stalls;
use crate::terminal::columns_of_numbers;
use crate::text::{first_words, joined};
use crate::two_groups;

/// The most columns of numbers.
const COLUMNS: usize = 5;
/// The fewest characters of a note that still say something.
const NOTE_CHARS_LEAST: usize = 12;

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

/// Parts whose columns go together in one table.
struct TableParts<'q> {
    x: Option<Axis>,
    columns: Vec<Value>,
    parts: Vec<Part<'q>>,
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
        found.rows_left = left;
        found.tables.push(pairs);
    }
    let mut parts = parts(a, questions);
    let rows = |of: &[Part<'_>]| of.iter().map(|p| p.rows.len()).sum::<usize>();
    let all = rows(&parts);
    let shown = found.tables.iter().map(|table| table.rows.len()).sum();
    let most = room.rows.saturating_sub(shown);
    while rows(&parts) > most && shorten(&mut parts) {}
    if most == 0 && shown > 0 {
        parts.clear();
    }
    found.rows_left += all - rows(&parts);
    for table in TableParts::merged(parts) {
        found.add(a, &table, room);
    }
    found
}

/// The questions, by their places, of which an answer with room for all has every row with its amounts.
pub(crate) fn whole_questions(a: &Analysis, questions: &[QuestionTable<'_>]) -> Vec<usize> {
    let tables = TableParts::merged(parts(a, questions));
    let shown: Vec<&Part<'_>> = (tables.iter())
        .filter(|table| table.has_amounts())
        .flat_map(|table| &table.parts)
        .collect();
    let is_whole = |q: &QuestionTable<'_>| {
        let mut rows = q.rows.iter();
        rows.all(|row| shown.iter().any(|part| part.has_row(q, row)))
    };
    questions.iter().positions(is_whole).collect()
}

impl<'q> TableParts<'q> {
    fn merged(parts: Vec<Part<'q>>) -> Vec<TableParts<'q>> {
        let mut tables: Vec<TableParts<'q>> = Vec::new();
        for part in parts {
            match tables.iter_mut().find(|table| table.fits(&part)) {
                Some(table) => table.add(part),
                None => tables.push(TableParts {
                    x: part.question.x,
                    columns: part.question.columns.clone(),
                    parts: vec![part],
                }),
            }
        }
        tables
    }

    /// Returns true if every entry has room for its amount next to its ratio: in a single column.
    fn has_amounts(&self) -> bool {
        self.columns.len() == 1
    }

    /// Returns true if all columns of a part are in this table, or all of this table in the part.
    fn fits(&self, part: &Part<'_>) -> bool {
        let has_all = |has: &[Value], of: &[Value]| of.iter().all(|c| has.contains(c));
        let columns = &part.question.columns;
        self.x == part.question.x
            && (has_all(&self.columns, columns) || has_all(columns, &self.columns))
    }

    fn add(&mut self, part: Part<'q>) {
        for column in &part.question.columns {
            if !self.columns.contains(column) {
                self.columns.push(column.clone());
            }
        }
        if let Some(x) = self.x {
            sort_values(x, &mut self.columns);
        }
        self.parts.push(part);
    }
}

/// The parts of the table in the order of the advice.
fn parts<'q>(a: &'q Analysis, questions: &'q [QuestionTable<'q>]) -> Vec<Part<'q>> {
    let groups = grouped(a.advice.situations.iter().flat_map(|s| {
        let tables = questions.iter().positions(move |q| is_of(q, s));
        tables.map(move |place| ((place, s.subject as u8, s.baseline_is_apart), s))
    }));
    if groups.is_empty() {
        let whole = |question: &'q QuestionTable<'q>| Part {
            question,
            situations: Vec::new(),
            rows: question.rows.iter().collect(),
        };
        return questions.iter().take(1).map(whole).collect();
    }
    let is_named = |name: &Value| {
        groups.iter().any(|((place, ..), situations)| {
            questions[*place].baseline == *name || has_value(situations, name)
        })
    };
    let mut parts: Vec<Part<'_>> = Vec::new();
    for ((place, _, is_apart), situations) in &groups {
        let question = &questions[*place];
        let mut of_table = groups.iter().filter(|((of, ..), _)| of == place);
        let has_own_baseline = !is_apart || of_table.clone().all(|((.., apart), _)| *apart);
        let is_first = of_table
            .next()
            .is_some_and(|(_, first)| first == situations);
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
            has_value(situations, &row.name) || is_first && !is_compared && !is_named(&row.name)
        };
        let rank = rank(a, situations);
        let rows = (question.rows.iter().filter(is_row))
            .sorted_by_key(|row| (!row.is_baseline, rank(&row.name)))
            .collect_vec();
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
    situations.iter().any(|s| s.values.contains(value))
}

/// Returns true if a table has comparisons of a situation.
fn is_of(q: &QuestionTable<'_>, s: &Situation) -> bool {
    let has = |axis: Axis, value: &Value| {
        let held = s.place.iter().find(|(held, _)| *held == axis);
        held.map_or(*value == axis.row().default, |(_, held)| held == value)
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

/// Rank of a way in the advice: the ways to use here, then elsewhere, then the conditional ones, then those
/// to avoid.
fn rank(a: &Analysis, situations: &[&Situation]) -> impl Fn(&Value) -> usize + use<> {
    let mut ways = Vec::new();
    for (s, used) in situations
        .iter()
        .flat_map(|s| s.uses.iter().map(move |u| (s, u)))
    {
        ways.push(used.value.clone());
        if used.gain.is_some() {
            let ties = advice::rivals(a, s, &used.value, &used.at);
            ways.extend(ties.into_iter().map(|(tie, _)| tie));
        }
    }
    let elsewhere = (a.advice.situations.iter())
        .filter(|other| situations.iter().any(|s| s.axis == other.axis))
        .flat_map(|other| &other.uses);
    ways.extend(elsewhere.map(|used| used.value.clone()));
    let conditional = situations.iter().flat_map(|s| &s.conditional);
    let worse = situations.iter().flat_map(|s| &s.avoid);
    ways.extend(conditional.map(|c| c.gain.value.clone()));
    ways.extend(worse.map(|w| w.cost.value.clone()));
    move |name| ways.iter().position(|n| n == name).unwrap_or(usize::MAX)
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
    fn add(&mut self, a: &Analysis, source: &TableParts<'_>, room: TableRoom) {
        let (x, columns, parts) = (source.x, spread(&source.columns), &source.parts);
        let is_one = parts.len() == 1;
        let mut rows: Vec<DocRow> = Vec::new();
        let mut open = Vec::new();
        for part in parts {
            let q = part.question;
            let ways = part.rows.iter().map(|row| (q.axis, row.name.clone()));
            self.values.extend(ways.chain(q.panel.clone()));
            if !is_one {
                let title = part.title(a, parts);
                // Each reason once.
                let reason = part.situations.iter().find_map(|s| advice::open(s));
                let reason = reason.filter(|why| !open.contains(why)).unwrap_or_default();
                let note = first_words(&reason, room.note_chars);
                open.push(reason);
                self.texts.extend([title.clone(), note.clone()]);
                let blanks = columns.iter().map(|_| DocEntry::default());
                rows.push(DocRow::new(title, blanks.chain([note.into()])));
            }
            for row in &part.rows {
                let note = first_words(&part.note(a, row), room.note_chars);
                self.texts.push(note.clone());
                let entries = columns.iter().map(|column| {
                    let place = q.columns.iter().position(|c| c == column);
                    DocEntry::or_gap(
                        place.map(|place| shown_entry(a, q, row, place, source.has_amounts())),
                    )
                });
                rows.push(DocRow {
                    is_baseline: row.is_baseline,
                    ..DocRow::new(part.name(a, row, is_one), entries.chain([note.into()]))
                });
            }
        }
        let mut axes = parts.iter().map(|part| part.question.axis);
        let axis = axes.all_equal_value().map_or("", Axis::name);
        let mut table = DocTable {
            caption: caption(a, parts, &rows),
            columns: heading(axis, x, &columns),
            rows,
        };
        table.columns.push(DocColumn::notes());
        self.values.extend(x.into_iter().cartesian_product(columns));
        if let Some(line_columns) = room.line_columns {
            let note_columns = line_columns.saturating_sub(columns_of_numbers(&table));
            for row in &mut table.rows {
                if let Some(note) = row.entries.last_mut() {
                    note.text = first_words(&note.text, note_columns.max(NOTE_CHARS_LEAST));
                }
            }
        }
        self.tables.push(table.without_empty_columns());
    }
}

impl Part<'_> {
    fn has_row(&self, q: &QuestionTable<'_>, row: &QuestionRow<'_>) -> bool {
        std::ptr::eq(self.question, q) && self.rows.iter().any(|own| own.name == row.name)
    }

    /// Title of a part: reader, place and metric, as far as they differ between the parts.
    fn title(&self, a: &Analysis, parts: &[Part<'_>]) -> String {
        let reader = |part: &Part<'_>| part.situations.first().map(|s| advice::title(s));
        let shared = a.advice.shared_place();
        let place = self.question.panel.iter().filter(|at| !shared.contains(at));
        let metric = self.question.metric;
        let is_other = metric != parts[0].question.metric;
        let is_apart = self.rows.iter().all(|row| !row.is_baseline);
        let differs = [
            is_apart.then(|| format!("times {} alone", self.question.baseline)),
            Some(descriptions::panel(&place.cloned().collect_vec())),
            is_other.then(|| descriptions::metric_with_unit(metric, a.study.unit)),
        ];
        let differs = joined(differs.into_iter().flatten(), " · ");
        if !differs.is_empty() && parts.iter().map(reader).all_equal() {
            return differs;
        }
        joined([reader(self).unwrap_or_default(), differs], " · ")
    }

    fn name(&self, a: &Analysis, row: &QuestionRow<'_>, is_one: bool) -> String {
        let q = self.question;
        let name = match q.axis {
            Axis::Mover | Axis::Server | Axis::Receiver => row.name.to_string(),
            axis => axis.subject(&row.name),
        };
        if is_one {
            return name;
        }
        // Amounts far below the metric's unit have their own.
        let values = || (0..q.columns.len()).filter_map(|i| baseline_value(a, q, row, i));
        let unit = if row.is_baseline && values().any(|v| numbers::is_in_usual_unit(q.metric, v)) {
            q.metric.measure.row().unit
        } else {
            ""
        };
        format!("\u{a0}\u{a0}{}", joined([name.as_str(), unit], ", "))
    }

    fn note(&self, a: &Analysis, row: &QuestionRow<'_>) -> String {
        let findings: Vec<&Finding> = (row.entries.iter())
            .filter_map(QuestionEntry::finding)
            .collect();
        let waits = findings.iter().any(|f| stalls::waits(a, &f.cell))
            || row.is_baseline && self.baselines().any(|id| stalls::waits(a, id));
        let is_between = findings.iter().any(|f| stalls::is_between(a, f));
        let withheld: Option<Vec<CaveatKind>> = findings.iter().map(|f| f.withheld).collect();
        let no_verdict = match withheld.as_deref() {
            _ if waits => "waits for a timer: see Stalls".to_owned(),
            Some([kind, ..]) if !is_between => {
                format!("no verdict: {}", withholding_reason(*kind))
            }
            _ => String::new(),
        };
        let gaps: Option<Vec<&String>> = row.entries.iter().map(QuestionEntry::gap).collect();
        let gap = gaps.and_then(|gaps| gaps.first().copied());
        // A baseline that is not shown to be the best has that in its note once, with its condition.
        let advice = advice::note(a, &self.situations, &row.name);
        joined([&no_verdict, &advice, gap.unwrap_or(&String::new())], "; ")
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
    let mut shown = rows.iter().flat_map(|row| &row.entries);
    let missing = if shown.any(|entry| entry.is_gap) {
        format!(" {GAP} none")
    } else {
        String::new()
    };
    let findings = || {
        let part_rows = parts.iter().flat_map(|part| &part.rows);
        part_rows.flat_map(|row| row.entries.iter().filter_map(QuestionEntry::finding))
    };
    let stalled = if findings().any(|f| stalls::is_between(a, f)) {
        ", an amount with its unit: not compared, since one side stalls"
    } else {
        ""
    };
    let what = if parts.len() == 1 {
        let metric = descriptions::metric_with_unit(q.metric, a.study.unit);
        let place = [q.baseline.to_string(), descriptions::panel(&q.panel)];
        format!("{metric} relative to {}", joined(place, ", "))
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

/// The cell of a column that the others are compared with.
fn baseline_cell<'a>(
    a: &'a Analysis,
    q: &QuestionTable<'_>,
    column: usize,
) -> Option<&'a CellResult> {
    let mut findings = q
        .rows
        .iter()
        .filter_map(|r| r.entries.get(column)?.finding());
    findings.find_map(|f| a.result(&f.baseline))
}

/// The amount of a baseline's row in a column; none where it has none.
fn baseline_value(
    a: &Analysis,
    q: &QuestionTable<'_>,
    row: &QuestionRow<'_>,
    column: usize,
) -> Option<f64> {
    if let Some(QuestionEntry::Measured(estimate, _)) = row.entries.get(column) {
        return Some(estimate.value);
    }
    let estimate = baseline_cell(a, q, column)?.estimates.get(&q.metric)?;
    Some(estimate.value)
}

/// Entry of a row in a column, its ratio alone or with the amount. A baseline out of place has the
/// value that the others are compared with.
fn shown_entry(
    a: &Analysis,
    q: &QuestionTable<'_>,
    row: &QuestionRow<'_>,
    i: usize,
    has_amount: bool,
) -> DocEntry {
    match row.entries.get(i) {
        _ if row.is_baseline => {
            let value = baseline_value(a, q, row, i);
            let cell = baseline_cell(a, q, i);
            let groups = cell.and_then(|c| c.two_groups.iter().find(|g| g.metric == q.metric));
            match (value, groups) {
                (Some(value), _) => numbers::amount(q.metric, value).into(),
                (None, Some(groups)) => two_groups::means(groups).into(),
                (None, None) => DocEntry::gap(),
            }
        }
        // A ratio to a wait is no comparison of ways.
        Some(QuestionEntry::Measured(e, Some(f))) if stalls::is_between(a, f) => {
            numbers::amount_with_unit(q.metric, e.value).into()
        }
        Some(QuestionEntry::Measured(e, Some(f))) if f.withheld.is_none() => {
            let has_ratio = f.amount_withheld.is_none();
            let shown = has_ratio.then(|| numbers::ratio(f.ratio));
            let ratio = shown.unwrap_or_default();
            let entry = if has_amount {
                DocEntry {
                    ratio,
                    ..DocEntry::from(numbers::amount(q.metric, e.value))
                }
            } else {
                DocEntry::from(ratio)
            };
            entry.marked(DocMark::from(f.verdict))
        }
        // Nothing is there to compare it with.
        Some(QuestionEntry::Measured(e, None)) => units::number(e.value).into(),
        _ => DocEntry::gap(),
    }
}

/// The numbers of what was measured, where nothing is compared: one measure, the ways down.
fn measured(a: &Analysis, most_rows: usize) -> AnswerTables {
    let cells = || a.cells.iter().filter(|c| c.cell.mover != NULL);
    let is_measured = |metric: &Metric| cells().any(|c| c.estimates.contains_key(metric));
    let drawn = a.figures.first().map(|f| f.y).filter(is_measured);
    let metric = drawn.or_else(|| cells().find_map(|c| c.estimates.keys().next().copied()));
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
    let by_row = grouped(cells().map(|c| {
        let others = a.study.varied.iter().copied();
        let others = others.filter(|axis| *axis != way && Some(*axis) != x);
        let place = others.map(|axis| (axis, c.cell.value(axis)));
        ((c.cell.value(way), place.collect_vec()), c)
    }));
    let mut found = AnswerTables {
        rows_left: by_row.len().saturating_sub(most_rows),
        ..AnswerTables::default()
    };
    let mut rows = Vec::new();
    for ((name, place), own) in by_row.into_iter().take(most_rows) {
        let title = joined([name.to_string(), descriptions::panel(&place)], ", ");
        let entries = shown.iter().map(|column| {
            let is_there = |axis: Axis, c: &CellResult| c.cell.value(axis) == *column;
            let mut here = own.iter().filter(|c| x.is_none_or(|x| is_there(x, c)));
            let estimate = here.find_map(|c| c.estimates.get(&metric));
            DocEntry::or_gap(estimate.map(|e| with_interval(metric, e)))
        });
        rows.push(DocRow::new(title, entries));
        found.values.push((way, name));
        found.values.extend(place);
    }
    found.tables.push(DocTable {
        caption: descriptions::metric_with_unit(metric, a.study.unit),
        columns: heading(&way.to_string(), x, &shown),
        rows,
    });
    found.values.extend(x.into_iter().cartesian_product(shown));
    found
}

/// The heading of a table over the values of an axis.
fn heading(of: &str, x: Option<Axis>, columns: &[Value]) -> Vec<DocColumn> {
    let corner = x.map_or_else(String::new, |x| {
        format!("{of} by {x}").trim_start().to_owned()
    });
    let words = |column| x.map_or_else(String::new, |x| x.in_words(column));
    let columns = columns.iter().map(|column| DocColumn::right(words(column)));
    std::iter::once(DocColumn::names(corner))
        .chain(columns)
        .collect()
}

/// `312 (301 to 323)`.
fn with_interval(metric: Metric, e: &Estimate) -> String {
    let interval = numbers::interval(e).map(|interval| format!(" ({interval})"));
    numbers::amount(metric, e.value) + &interval.unwrap_or_default()
}
