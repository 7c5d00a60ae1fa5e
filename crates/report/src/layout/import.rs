//! A published table read as cells and numbers, and the study that it would be a run of.

use std::collections::BTreeMap;

use bytecost_spec::cell::{MAX_SIZE_BYTES, MAX_THREADS};
use bytecost_spec::study::{AS_PUBLISHED, Compare, Figure, Study, Tier};
use bytecost_spec::table::{TableError, number};
use bytecost_spec::{
    Axis, Cell, Imported, Measure, Metric, Published, PublishedCell, Sample, Table, units,
};
use itertools::Itertools as _;

use super::{ColumnLayout, FIELDS, TableLayout, What, export};

/// Beyond this a number is a slip: more than a year of cycles of a thousand CPUs.
const MOST: f64 = 1e21;

impl TableLayout for ColumnLayout {
    fn name(&self) -> &'static str {
        self.name
    }

    fn csv(
        &self,
        cells: &[Cell],
        samples: &[Sample],
        as_published: bool,
    ) -> Result<String, String> {
        export::csv(self, cells, samples, as_published)
    }

    fn csv_of_imported(&self, imported: &Imported) -> String {
        export::csv_of_imported(self, imported)
    }

    fn import(&self, text: &str) -> Result<Imported, TableError> {
        let table = Table::parse(self.name, text)?;
        let names = self.columns.iter().map(|c| c.name).collect_vec();
        if table.columns != names {
            let (layout, names) = (self.name, names.join(","));
            return fail(1, format!("the columns of layout {layout} are {names}"));
        }
        let mut cells: Vec<PublishedCell> = Vec::with_capacity(table.rows.len());
        let mut rows = Vec::with_capacity(table.rows.len());
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for (line, values) in &table.rows {
            let read = || -> Result<(Cell, BTreeMap<String, f64>), String> {
                let mut cell = first(self);
                let mut numbers = BTreeMap::new();
                for (column, value) in self.columns.iter().zip(values) {
                    let wrong = |why: String| format!("{}: {why}", column.name);
                    match column.what {
                        What::Impl => cell.mover = mover(self, value).map_err(wrong)?,
                        What::Size => cell.size_bytes = size(self, value).map_err(wrong)?,
                        What::Threads => cell.threads = threads(value).map_err(wrong)?,
                        _ if value.is_empty() => {}
                        _ => {
                            let n = number(value).map_err(wrong)?;
                            if n > MOST {
                                return Err(wrong(format!("`{value}` is beyond all measure")));
                            }
                            numbers.insert(column.name.to_owned(), n);
                        }
                    }
                }
                Ok((cell, numbers))
            };
            let (cell, numbers) = read().or_else(|message| fail(*line, message))?;
            let id = cell.id();
            if let Some(first) = seen.insert(id.clone(), *line) {
                return fail(*line, format!("the same cell as in line {first}"));
            }
            cells.push(PublishedCell {
                id,
                values: metrics(self, &cell, &numbers),
                cell,
            });
            rows.push(numbers);
        }
        if cells.is_empty() {
            return fail(1, "there is no row below the header".to_owned());
        }
        Ok(Imported {
            layout: self.name.to_owned(),
            published: Published {
                source: self.name.to_owned(),
                cells,
                ..Published::default()
            },
            rows,
        })
    }

    fn study(&self, published: &Published) -> Study {
        let throughput = Metric::both(Measure::ThroughputGbitPerS);
        let latency = Metric::both(Measure::LatencyUsP50);
        Study {
            prediction: "these are its numbers, without intervals; its latency is elapsed time over messages, a mean, shown where a run has its median".to_owned(),
            tiers: tiers(self, published),
            compare: vec![Compare::of(Axis::Mover, self.impls[0].1, vec![throughput, latency])],
            figures: vec![
                figure("Throughput", Axis::Size, throughput),
                figure("Latency over threads", Axis::Threads, latency),
            ],
            ..study_of(self.name)
        }
    }
}

pub(super) fn fail<T>(line: u64, message: String) -> Result<T, TableError> {
    let message = units::one_line(&message);
    Err(TableError { line, message })
}

pub(super) fn figure(title: &str, x: Axis, y: Metric) -> Figure {
    Figure {
        title: title.to_owned(),
        x,
        y,
        series: Axis::Mover,
        relative: false,
        or: None,
    }
}

/// A study of nothing, in the published design: what all that are made of a table have in common.
pub(super) fn study_of(name: &str) -> Study {
    Study {
        name: name.to_owned(),
        title: format!("{name} as it was published"),
        question: format!("What did {name} publish?"),
        smallest_effect: 0.05,
        precision: 0.05,
        budget_ms: 1,
        warmup_ms: 1,
        window_ms: 1,
        blocks_least: 6,
        blocks_most: 6,
        foreign_cpus: 0.1,
        design: Some(AS_PUBLISHED.to_owned()),
        ..Study::default()
    }
}

/// One part where the rows are a whole product, else one a row.
fn tiers(layout: &ColumnLayout, published: &Published) -> Vec<Tier> {
    let part = |title: &str, cells: &[PublishedCell]| {
        let fixed = layout.axes.iter().map(|(a, v)| (*a, vec![(*v).to_owned()]));
        let varied = [Axis::Mover, Axis::Size, Axis::Threads].map(|axis| {
            let values = cells.iter().map(|c| c.cell.value(axis)).unique();
            (axis, values.collect())
        });
        let fields = (Axis::Fields, vec![FIELDS.to_string()]);
        Tier {
            title: title.to_owned(),
            axes: fixed.chain([fields]).chain(varied).collect(),
        }
    };
    let whole = part("as published", &published.cells);
    if whole.size() == published.cells.len() {
        return vec![whole];
    }
    let rows = published.cells.iter();
    rows.map(|c| part("a row", std::slice::from_ref(c)))
        .collect()
}

/// What the published programs did, in every cell.
fn first(layout: &ColumnLayout) -> Cell {
    let mut cell = Cell {
        fields: FIELDS,
        ..Cell::default()
    };
    for (axis, value) in layout.axes {
        let set = cell.set(*axis, value);
        debug_assert_eq!(set, Ok(()), "{}", layout.name);
    }
    cell
}

fn mover(layout: &ColumnLayout, value: &str) -> Result<String, String> {
    let found = layout.impls.iter().find(|(theirs, _)| *theirs == value);
    found.map(|(_, mover)| (*mover).to_owned()).ok_or_else(|| {
        let known = layout.impls.iter().map(|(theirs, _)| theirs).join(", ");
        format!("`{value}` is not known: {known}")
    })
}

fn size(layout: &ColumnLayout, value: &str) -> Result<u64, String> {
    let size = value.parse::<u64>().ok();
    let size = size.and_then(|n| n.checked_mul(layout.sizes_a_message()));
    let fits = |n: &u64| (1..=MAX_SIZE_BYTES).contains(n) && n.is_multiple_of(FIELDS.into());
    size.filter(fits).ok_or_else(|| {
        format!(
            "`{value}` is out of bounds: whole bytes of which {FIELDS} fields make a message of at most {MAX_SIZE_BYTES}"
        )
    })
}

fn threads(value: &str) -> Result<u32, String> {
    let threads = value.parse().ok().filter(|n| (1..=MAX_THREADS).contains(n));
    let bounds = format!("a whole number from 1 to {MAX_THREADS}");
    threads.ok_or_else(|| format!("`{value}` is out of bounds: {bounds}"))
}

/// What of a row are metrics. Counters are of all threads, and bytes of the first client.
fn metrics(
    layout: &ColumnLayout,
    cell: &Cell,
    numbers: &BTreeMap<String, f64>,
) -> BTreeMap<Metric, f64> {
    let of = |what: What| {
        let column = layout.columns.iter().find(|c| c.what == what)?;
        numbers.get(column.name).copied().filter(|n| *n > 0.0)
    };
    let mut values = BTreeMap::new();
    for column in layout.columns {
        let Some(&n) = numbers.get(column.name) else {
            continue;
        };
        let found = match column.what {
            What::Throughput => Some((Metric::both(Measure::ThroughputGbitPerS), n)),
            What::Latency => Some((Metric::both(Measure::LatencyUsP50), n)),
            What::Counters(_, Some(measure)) if cell.threads == 1 => {
                use Measure::{
                    ContextSwitchesPerMessage, L1dLoadMissesPerKib, LlcLoadMissesPerKib,
                };
                let below = match measure {
                    ContextSwitchesPerMessage => of(What::Messages),
                    L1dLoadMissesPerKib | LlcLoadMissesPerKib => {
                        of(What::Bytes).map(|b| b / 1024.0)
                    }
                    _ => of(What::Bytes),
                };
                below.map(|below| (Metric::of(measure, layout.counted), n / below))
            }
            _ => None,
        };
        values.extend(found);
    }
    values
}
