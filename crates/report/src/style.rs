//! How text for a terminal is laid out and painted.

/// The look of text for a terminal. The caller decides; nothing here asks the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The most columns that a line may take. Anything below 40 is taken for 40.
    pub width: usize,
    /// Whether to paint with ANSI escape sequences.
    pub color: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Strong,
    Faint,
    Good,
    Bad,
    Warn,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Warn => "33",
        }
    }
}

impl Style {
    /// Text of so many columns, without paint.
    #[must_use]
    pub const fn plain(width: usize) -> Style {
        Style {
            width,
            color: false,
        }
    }

    /// The width that is used: never so narrow that nothing can be laid out.
    pub(crate) fn columns(self) -> usize {
        self.width.max(40)
    }

    /// Paints a piece of a line; without colour it stays as it is.
    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", ink.code())
        } else {
            text.to_owned()
        }
    }

    /// Paints the marks of verdicts within a finished line of a table. Done after the layout, so
    /// that no width has to know of escape sequences.
    pub(crate) fn paint_verdicts(self, line: &str) -> String {
        self.paint_each(line, |c| match c {
            '▲' => Some(Ink::Good),
            '▼' => Some(Ink::Bad),
            '?' => Some(Ink::Warn),
            '=' => Some(Ink::Faint),
            _ => None,
        })
    }

    /// Paints the marks of what works and what does not.
    pub(crate) fn paint_marks(self, line: &str) -> String {
        self.paint_each(line, |c| match c {
            '✓' => Some(Ink::Good),
            '✗' => Some(Ink::Bad),
            _ => None,
        })
    }

    fn paint_each(self, line: &str, ink: impl Fn(char) -> Option<Ink>) -> String {
        let mut out = String::with_capacity(line.len());
        for c in line.chars() {
            match ink(c) {
                Some(ink) => out.push_str(&self.paint(ink, c.encode_utf8(&mut [0; 4]))),
                None => out.push(c),
            }
        }
        out
    }
}
