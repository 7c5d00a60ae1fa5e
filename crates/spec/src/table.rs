//! A published table: named columns and rows of text.

/// The largest file, in bytes.
pub const MAX_TABLE_BYTES: usize = 4 << 20;
/// The most rows.
pub const MAX_ROWS: usize = 100_000;
/// The most columns.
pub const MAX_COLUMNS: usize = 256;
/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 256;

/// A table: the content of a CSV file with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name: that of its file without the extension.
    pub name: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its rows, each with its line in the file, from 1, and one value for each column.
    pub rows: Vec<(u64, Vec<String>)>,
}

/// An error in a table, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TableError {
    /// Line, from 1.
    pub line: u64,
    /// The error, and the expected form.
    pub message: String,
}

impl Table {
    /// Parses comma-separated values whose first line names the columns. The error is the first wrong
    /// line: too few or too many values, a column twice, a value that is too long, or more bytes, rows or
    /// columns than the bounds above.
    pub fn parse(name: &str, text: &str) -> Result<Table, TableError> {
        if text.len() > MAX_TABLE_BYTES {
            return fail(1, format!("the file has more than {MAX_TABLE_BYTES} bytes"));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let mut columns: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = match record {
                Ok(record) => record,
                Err(e) => {
                    let line = e.position().map_or(1, csv::Position::line);
                    return fail(line, "the line is no text in UTF-8");
                }
            };
            let line = record.position().map_or(1, |p| line_of(text, p));
            if let Some(value) = record.iter().find(|v| v.len() > MAX_VALUE_BYTES) {
                let bytes = value.len();
                let message = format!("a value of {bytes} bytes; at most {MAX_VALUE_BYTES}");
                return fail(line, message);
            }
            let values: Vec<String> = record.iter().map(str::to_owned).collect();
            if columns.is_empty() {
                check_header(line, &values)?;
                columns = values;
                continue;
            }
            if values.len() != columns.len() {
                let (found, wanted) = (values.len(), columns.len());
                let message = format!("{found} values, but the header names {wanted} columns");
                return fail(line, message);
            }
            if rows.len() == MAX_ROWS {
                return fail(line, format!("more than {MAX_ROWS} rows"));
            }
            rows.push((line, values));
        }
        if columns.is_empty() {
            return fail(1, "the file is empty: the first line names the columns");
        }
        Ok(Table {
            name: name.to_owned(),
            columns,
            rows,
        })
    }

    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c == name)
    }
}

/// Parses a finite number that is not negative; the error describes the text.
pub fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= 0.0 => Ok(n.abs()),
        Ok(_) => Err(format!("`{text}` is not a number from 0 up")),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

/// The line of a record. Its position is before the empty lines above it, which are counted here.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let from = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let empty_lines = (text.get(from..).unwrap_or_default().bytes())
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .filter(|byte| *byte == b'\n');
    position.line() + empty_lines.count() as u64
}

fn check_header(line: u64, names: &[String]) -> Result<(), TableError> {
    if names.len() > MAX_COLUMNS {
        return fail(line, format!("more than {MAX_COLUMNS} columns"));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return fail(line, format!("the header names column `{name}` twice"));
        }
    }
    Ok(())
}

fn fail<T>(line: u64, message: impl Into<String>) -> Result<T, TableError> {
    let message = crate::units::one_line(&message.into());
    Err(TableError { line, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_parsed_with_their_lines() {
        let table = Table::parse("t", "a,b\n1, 2\n\n3,\"4\"\n").unwrap();
        assert_eq!(table.columns, ["a", "b"]);
        let row = |line, a: &str, b: &str| (line, vec![a.to_owned(), b.to_owned()]);
        assert_eq!(table.rows, [row(2, "1", "2"), row(4, "3", "4")]);
        assert_eq!(table.column("b"), Some(1));
    }

    #[test]
    fn an_error_has_its_line() {
        let check = |text: &str, message: &str| {
            let e = Table::parse("t", text).unwrap_err();
            assert_eq!(e.to_string(), message);
        };
        let empty = "line 1: the file is empty: the first line names the columns";
        let few = "line 3: 1 values, but the header names 2 columns";
        check("", empty);
        check("a,b\n1,2\n3\n", few);
        check("a,a\n", "line 1: the header names column `a` twice");
        let long = format!("a\n{}\n", "x".repeat(300));
        check(&long, "line 2: a value of 300 bytes; at most 256");
        let many = "a,".repeat(300);
        assert!(Table::parse("t", &many).is_err());
        assert!(Table::parse("t", &"a\n".repeat(MAX_TABLE_BYTES)).is_err());
        assert!(Table::parse("t", &"a\n".repeat(MAX_ROWS + 2)).is_err());
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        for (text, n) in [("0.000", 0.0), ("1e3", 1000.0), ("-0", 0.0)] {
            assert_eq!(number(text), Ok(n), "{text}");
        }
        for bad in ["", "x", "NaN", "inf", "-1", "1e999", "1,2"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
