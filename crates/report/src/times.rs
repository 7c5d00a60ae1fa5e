//! Published times that follow no grid of bytecost: their cells, and their conversion to metrics.

use std::collections::BTreeMap;

use bytecost_spec::table::{Table, number};
use bytecost_spec::{Axis, Cell, Measure, Metric, Published, PublishedCell};

/// A publication of times.
#[derive(Debug)]
pub struct Times {
    /// Name of its table, which is that of the publication.
    pub source: &'static str,
    /// Notes on the conversion to metrics and on missing facts, a sentence each.
    pub notes: &'static [&'static str],
    /// The axes whose values the publication gives.
    pub named: &'static [Axis],
    /// The published times.
    pub rows: &'static [Timed],
}

/// A published time: a mover on a file.
#[derive(Debug)]
pub struct Timed {
    /// The column of the times.
    pub column: &'static str,
    /// Length of the column's unit, in ms.
    pub unit_ms: f64,
    /// Selected rows: columns with the values that they must have; the mean of several rows is
    /// taken.
    pub rows: Option<[(&'static str, &'static str); 2]>,
    /// The mover of the cells that the time may belong to.
    pub mover: &'static str,
    /// Axes besides the mover.
    pub axes: &'static [(Axis, &'static str)],
    /// The file that was read or sent.
    pub file: File,
}

/// The file that a time is for.
#[derive(Debug)]
pub enum File {
    /// A column has its length in MiB, and the file is one message.
    MibIn(&'static str),
    /// A file of so many bytes, in one message.
    Whole(u64),
    /// A file of so many bytes, in requests of one of these sizes: the publication does not give
    /// it.
    InRequests(u64, &'static [&'static str]),
}

const GIB: u64 = 1 << 30;
/// 1 GiB in requests whose size the publication does not give.
const REQUESTS: File = File::InRequests(GIB, &["4KiB", "64KiB", "1MiB"]);
const WHOLE: File = File::Whole(GIB);
const SENT: &[(Axis, &str)] = &[(Axis::Pattern, "request-response"), (Axis::Block, "4KiB")];

const fn program(
    feature: &'static str,
    mode: &'static str,
    mover: &'static str,
    file: File,
) -> Timed {
    Timed {
        column: "time_s",
        unit_ms: 1e3,
        rows: Some([("feature", feature), ("mode", mode)]),
        mover,
        axes: &[],
        file,
    }
}

const fn transfer(column: &'static str, mover: &'static str) -> Timed {
    Timed {
        column,
        unit_ms: 1.0,
        rows: None,
        mover,
        axes: SENT,
        file: File::MibIn("file_mb"),
    }
}

/// Every publication of times, in the order of the documentation.
pub const TIMES: &[Times] = &[
    Times {
        source: "file-transfer",
        notes: &[
            "Theirs is the time for a file in ms, as it was printed; the throughput is the file over that time, with a MB taken as 2^20 bytes.",
            "Its programs are Java; their times are next to the same two in Java and beside what they call, read and write of 4,096 bytes and sendfile.",
            "It does not state the path to the receiver, nor whether the files were in the page cache: each is next to all of ours that differ in these.",
        ],
        named: &[Axis::Mover, Axis::Size, Axis::Block],
        rows: &[
            transfer("read_write_ms", "java-stream"),
            transfer("transfer_to_ms", "java-transfer-to"),
            transfer("read_write_ms", "read-write"),
            transfer("transfer_to_ms", "sendfile"),
        ],
    },
    Times {
        source: "os-features",
        notes: &[
            "Theirs are the seconds of a whole program, its start included, the mean of three runs; the throughput is 1 GiB over that time, so that 2.816 s are 3.05 Gbit/s. Ours is of the reads alone.",
            "It states neither the size of a request or block, nor how many were in flight, nor where the pages were: each is next to all of ours that differ in these.",
            "Its times of pinned threads and of two threads are of work that it does not tell: their ratios stand in the overview of the study os-features.",
        ],
        named: &[Axis::Mover, Axis::Size],
        rows: &[
            program("async_io", "sync_io", "pread", REQUESTS),
            program("async_io", "async_aio", "posix-aio", REQUESTS),
            program("zero_copy_io", "regular_read", "read-null", WHOLE),
            program("zero_copy_io", "sendfile", "sendfile-null", WHOLE),
        ],
    },
];

impl Times {
    /// The publication as cells with metrics, from the table of its name.
    ///
    /// # Errors
    /// The error says which table or column is missing, or where a number is.
    pub fn published(&self, tables: &[Table]) -> Result<Published, String> {
        let Some(table) = tables.iter().find(|t| t.name == self.source) else {
            return Err(format!("there is no table {}", self.source));
        };
        let mut cells = Vec::new();
        for timed in self.rows {
            timed.cells(table, &mut cells)?;
        }
        Ok(Published {
            source: self.source.to_owned(),
            cells,
            notes: self.notes.iter().map(|n| (*n).to_owned()).collect(),
            named: self.named.to_vec(),
        })
    }
}

impl Timed {
    fn cells(&self, table: &Table, out: &mut Vec<PublishedCell>) -> Result<(), String> {
        let column = |name: &str| {
            let place = table.column(name);
            place.ok_or_else(|| format!("there is no column `{name}`"))
        };
        let mut wanted = Vec::new();
        for (name, value) in self.rows.iter().flatten() {
            wanted.push((column(name)?, *value));
        }
        let time = column(self.column)?;
        // The times of each length in bytes.
        let mut by_bytes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (line, row) in &table.rows {
            if wanted.iter().any(|(at, value)| row[*at] != **value) {
                continue;
            }
            let read = |at: usize| number(&row[at]).map_err(|e| format!("line {line}: {e}"));
            let bytes = match self.file {
                File::MibIn(name) => (read(column(name)?)? * f64::from(1 << 20)) as u64,
                File::Whole(bytes) | File::InRequests(bytes, _) => bytes,
            };
            let ms = read(time)? * self.unit_ms;
            if ms <= 0.0 || bytes == 0 {
                return Err(format!("line {line}: no time and no file is 0"));
            }
            by_bytes.entry(bytes).or_default().push(ms);
        }
        for (bytes, times) in by_bytes {
            let ms = times.iter().sum::<f64>() / times.len() as f64;
            match self.file {
                File::InRequests(_, sizes) => {
                    for size in sizes {
                        out.push(self.cell(size, bytes, ms, false)?);
                    }
                }
                _ => out.push(self.cell(&bytes.to_string(), bytes, ms, true)?),
            }
        }
        Ok(())
    }

    /// A cell with its throughput, and its time where the file is one message.
    fn cell(
        &self,
        size: &str,
        bytes: u64,
        ms: f64,
        is_message: bool,
    ) -> Result<PublishedCell, String> {
        let mut cell = Cell::default();
        let named = [(Axis::Mover, self.mover), (Axis::Size, size)];
        for (axis, value) in self.axes.iter().chain(&named) {
            cell.set(*axis, value).map_err(|e| e.to_string())?;
        }
        let gbit_per_s = 8.0 * bytes as f64 / ms / 1e6;
        let time = is_message.then_some((Metric::both(Measure::MsPerMessage), ms));
        let speed = (Metric::both(Measure::ThroughputGbitPerS), gbit_per_s);
        Ok(PublishedCell {
            id: cell.id(),
            cell,
            values: [speed].into_iter().chain(time).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSFER: &str = "file_mb,read_write_ms,transfer_to_ms\n7,156,45\n1024,18399,8537\n";

    fn read(source: &str, text: &str) -> Result<Published, String> {
        let times = TIMES.iter().find(|t| t.source == source).unwrap();
        let table = Table::parse(source, text).unwrap();
        times.published(&[table])
    }

    #[test]
    fn a_file_that_is_one_message_has_its_time_and_its_throughput() {
        let published = read("file-transfer", TRANSFER).unwrap();
        let times: Vec<(&str, u64, f64)> = (published.cells.iter())
            .map(|c| {
                let ms = c.values[&Metric::both(Measure::MsPerMessage)];
                (c.cell.mover.as_str(), c.cell.size_bytes >> 20, ms)
            })
            .collect();
        let [by_memory, by_call] = [[156.0, 18399.0], [45.0, 8537.0]];
        let expected = [
            ("java-stream", by_memory),
            ("java-transfer-to", by_call),
            ("read-write", by_memory),
            ("sendfile", by_call),
        ];
        let expected =
            expected.map(|(mover, [small, large])| [(mover, 7, small), (mover, 1024, large)]);
        assert_eq!(times, expected.concat());
        let speed = published.cells[0].values[&Metric::both(Measure::ThroughputGbitPerS)];
        let gbit_per_s = 7.0 * 1_048_576.0 * 8.0 / 0.156 / 1e9;
        assert!((speed / gbit_per_s - 1.0).abs() < 1e-9, "{speed}");
    }

    #[test]
    fn a_table_that_is_another_is_refused() {
        let check = |source: &str, text: &str, says: &str| {
            let why = read(source, text).unwrap_err();
            assert!(why.contains(says), "{why}");
        };
        let transfer = |from, to| TRANSFER.replace(from, to);
        check("file-transfer", "file_mb\n7\n", "read_write_ms");
        let fast = transfer("156", "fast");
        check("file-transfer", &fast, "line 2: `fast` is not a number");
        let no_time = transfer("156", "0");
        check(
            "file-transfer",
            &no_time,
            "line 2: no time and no file is 0",
        );
        check("file-transfer", &transfer("1024", "9e9"), "size");
        check("os-features", TRANSFER, "feature");
        let none = TIMES[0].published(&[]).unwrap_err();
        assert!(none.contains("no table file-transfer"), "{none}");
    }
}
