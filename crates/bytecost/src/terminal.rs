//! Width and colour of the terminal.

use std::io::{IsTerminal, stdout};
use std::ops::RangeInclusive;

use bytecost_report::Style;

/// Bounds of the width of the output, in columns. Text is hard to read in longer lines.
const WIDTHS: RangeInclusive<usize> = 60..=100;

/// The style of standard output: as wide as the terminal within [`WIDTHS`], with colour on a
/// terminal alone, unless NO_COLOR is set (no-color.org).
pub fn style() -> Style {
    let terminal = stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    let columns = rustix::termios::tcgetwinsize(stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(*WIDTHS.end());
    Style {
        width: columns.clamp(*WIDTHS.start(), *WIDTHS.end()),
        color: terminal && !no_color && !dumb,
    }
}
