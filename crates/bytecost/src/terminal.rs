//! What the terminal can do.

use std::io::{IsTerminal, stdout};

use bytecost_report::Style;

/// The widest that anything is printed.
const WIDEST: usize = 100;

/// Width and colour of standard output: colour on a terminal alone, unless NO_COLOR (no-color.org).
pub fn style() -> Style {
    let terminal = stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    let size = rustix::termios::tcgetwinsize(stdout()).ok();
    let width = size.map_or(0, |size| size.ws_col.into());
    Style {
        width: if width > 0 { width } else { WIDEST }.clamp(60, WIDEST),
        color: terminal && !no_color && !dumb,
    }
}
