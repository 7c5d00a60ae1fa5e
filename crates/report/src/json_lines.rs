//! JSON for programs that people look into too: an element a line, and no more digits than count.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use crate::text::for_terminal;

/// JSON with one element of the outermost lists a line, and numbers of five digits.
pub(crate) fn by_lines(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Lines::default());
    value.serialize(&mut serializer).expect("keys are text");
    for_terminal(String::from_utf8(text).expect("JSON is text")) + "\n"
}

/// The depth from which on an element is written on one line.
const LINE_DEPTH: usize = 2;
/// Significant digits of a number that is not whole.
const DIGITS: usize = 5;

/// Writes the elements of the outermost lists and objects a line each, and numbers rounded.
#[derive(Default)]
struct Lines {
    depth: usize,
}

impl Lines {
    fn begin_value<W: Write + ?Sized>(&self, to: &mut W, first: bool) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        self.new_line(to)
    }

    fn new_line<W: Write + ?Sized>(&self, to: &mut W) -> io::Result<()> {
        if self.depth <= LINE_DEPTH {
            to.write_all(b"\n")?;
            to.write_all(&b"    "[..2 * self.depth.min(2)])?;
        }
        Ok(())
    }

    fn begin<W: Write + ?Sized>(&mut self, to: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth += 1;
        to.write_all(sign)
    }

    fn end<W: Write + ?Sized>(&mut self, to: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.depth < LINE_DEPTH {
            self.new_line(to)?;
        }
        to.write_all(sign)
    }
}

impl Formatter for Lines {
    fn write_f64<W: Write + ?Sized>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        let rounded: f64 = format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value);
        let text = serde_json::Value::from(rounded).to_string();
        write!(to, "{}", text.strip_suffix(".0").unwrap_or(&text))
    }

    fn begin_array<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.begin(to, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.end(to, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.begin_value(to, first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.begin(to, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.end(to, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.begin_value(to, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        let sign: &[u8] = if self.depth < LINE_DEPTH { b": " } else { b":" };
        to.write_all(sign)
    }
}
