//! Layout and colours of text for a terminal.

/// The look of text for a terminal. The caller decides; nothing here asks the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The most columns that a line may take. Anything below 40 is taken for 40.
    pub width: usize,
    /// True if text is painted with ANSI escape sequences.
    pub color: bool,
}

/// Emphasis and meaning of a text: its paint on a terminal, its class on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Ink {
    #[default]
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Warning,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::Plain => "0",
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Warning => "33",
        }
    }
}

impl Style {
    /// A style without colours, with lines of at most `width` columns.
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
        if self.color && !text.is_empty() && ink != Ink::Plain {
            format!("\x1b[{}m{text}\x1b[0m", ink.code())
        } else {
            text.to_owned()
        }
    }

    /// Paints signs within a line that is laid out: no width has to know of escape sequences.
    pub(crate) fn paint_signs(self, line: &str, signs: &[(char, Ink)]) -> String {
        let paint = |c: char| match signs.iter().find(|(sign, _)| *sign == c) {
            Some((_, ink)) => self.paint(*ink, c.encode_utf8(&mut [0; 4])),
            None => c.to_string(),
        };
        line.chars().map(paint).collect()
    }
}

pub(crate) const VERDICTS: &[(char, Ink)] = &[
    ('▲', Ink::Good),
    ('▼', Ink::Bad),
    ('?', Ink::Warning),
    ('=', Ink::Faint),
];
pub(crate) const MARKS: &[(char, Ink)] = &[('✓', Ink::Good), ('✗', Ink::Bad)];
