//! What became of a claim, as a word, a sign and a colour.

use bytecost_analysis::Ruling;

use crate::style::Ink;

/// A row of the table of rulings.
pub(crate) struct RulingRow {
    /// The ruling.
    pub ruling: Ruling,
    /// It in words.
    pub words: &'static str,
    /// Its sign.
    pub mark: &'static str,
    /// Its class on the page.
    pub class: &'static str,
    /// Its paint on a terminal.
    pub ink: Ink,
}

/// Every ruling there is.
pub(crate) const RULINGS: &[RulingRow] = &[
    RulingRow {
        ruling: Ruling::Holds,
        words: "holds here",
        mark: "✓",
        class: "better",
        ink: Ink::Good,
    },
    RulingRow {
        ruling: Ruling::DoesNotHold,
        words: "does not hold here",
        mark: "✗",
        class: "worse",
        ink: Ink::Bad,
    },
    RulingRow {
        ruling: Ruling::HoldsForAnotherReason,
        words: "holds for another reason",
        mark: "≈",
        class: "open",
        ink: Ink::Warn,
    },
    RulingRow {
        ruling: Ruling::CannotBeSettled,
        words: "cannot be settled here",
        mark: "?",
        class: "same",
        ink: Ink::Faint,
    },
];

/// A ruling's row.
pub(crate) fn row(ruling: Ruling) -> &'static RulingRow {
    RULINGS
        .iter()
        .find(|r| r.ruling == ruling)
        .unwrap_or(&RULINGS[0])
}
