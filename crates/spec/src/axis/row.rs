//! What a row of the table of axes says, and what is made of it.

use super::table::Axis;
use super::{Cell, CellFacts, Value};
use crate::cell::Invalid;

/// A row of the table of axes.
#[derive(Clone, Copy, Debug)]
pub struct AxisRow {
    /// The axis.
    pub axis: Axis,
    /// Its name everywhere: in study files, on the command line, in ids and in columns.
    pub name: &'static str,
    /// What its options stand under in help.
    pub group: AxisGroup,
    /// Its value where a study names none, and where it does not apply.
    pub default: &'static str,
    /// What it says, for help texts and legends.
    pub help: &'static str,
    /// A value as a circumstance, with `{}` for the value and `{s}` for the plural; without its
    /// first word it is the subject of a sentence. Empty for name and value.
    pub phrase: &'static str,
    /// Which cells it applies to: where it does not, a plan's cell has the default, or what
    /// `otherwise` says, and no two cells are kept apart by it.
    pub applies_to: AppliesTo,
    /// What a cell has that it does not apply to; empty for the default.
    pub otherwise: fn(&CellFacts<'_>) -> &'static str,
    /// What its values are.
    pub kind: ValueKind,
    pub(crate) value: fn(&Cell) -> Value,
    pub(crate) set: fn(&mut Cell, &str) -> Result<(), Invalid>,
    pub(super) is_same: fn(&Cell, &Cell) -> bool,
}

/// The headings that options stand under in help, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum AxisGroup {
    /// How a message is moved.
    Method,
    /// What a message is, and what memory it lies in.
    Message,
    /// What sockets are set to.
    Socket,
    /// What lies between the two ends.
    Path,
    /// Which file, and how it is gone through.
    File,
    /// Where threads run and memory lies.
    Placement,
    /// How much there is at once, and how often.
    Load,
    /// What many clients ask.
    Server,
}

impl AxisGroup {
    /// The heading.
    pub fn heading(self) -> &'static str {
        self.into()
    }
}

/// The cells that an axis applies to.
#[derive(Clone, Copy, Debug)]
pub struct AppliesTo {
    /// They in words: `messages over TCP`.
    pub words: &'static str,
    /// Whether a cell is one of them.
    pub cells: fn(&CellFacts<'_>) -> bool,
}

pub(super) const fn cells(words: &'static str, cells: fn(&CellFacts<'_>) -> bool) -> AppliesTo {
    AppliesTo { words, cells }
}

/// What the values of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Numbers of bytes, written with a unit: `64KiB`.
    Bytes,
    /// Numbers of bytes, written without one: `1500`.
    PlainBytes,
    /// Other numbers.
    Number,
    /// Words, `on` and `off` among them.
    Switch,
    /// Words.
    Word,
    /// Words with lists of CPUs, which have commas of their own.
    Lists,
}

impl ValueKind {
    pub(super) fn is_of_numbers(self) -> bool {
        matches!(
            self,
            ValueKind::Bytes | ValueKind::PlainBytes | ValueKind::Number
        )
    }
}

/// What a row does not say.
pub(super) const USUAL: AxisRow = AxisRow {
    axis: Axis::Transport,
    name: "",
    group: AxisGroup::Method,
    default: "",
    help: "",
    phrase: "",
    applies_to: cells("everything", |_| true),
    otherwise: |_| "",
    kind: ValueKind::Word,
    value: |_| Value::Count(0),
    set: |_, _| Ok(()),
    is_same: |_, _| true,
};

/// From each row `Variant => field: Type, VALUES, { … }` come the variant of [`Axis`], the field
/// of [`Cell`] or [`Serving`], and the row of [`AXES`], in their order. What a row leaves out is
/// as in `USUAL`.
macro_rules! axes {
    (
        $(#[$cell_meta:meta])*
        Cell {$(
            $(#[$meta:meta])*
            $variant:ident => $field:ident: $type:ty, $values:expr, {
                $($key:ident: $value:expr),+ $(,)?
            }
        )+}
        $(#[$serving_meta:meta])*
        Serving {$(
            $(#[$s_meta:meta])*
            $s_variant:ident => $s_field:ident: $s_type:ty, $s_values:expr, {
                $($s_key:ident: $s_value:expr),+ $(,)?
            }
        )+}
    ) => {
        /// One thing that a study varies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, strum::VariantNames)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        #[allow(missing_docs)] // each is told by its row in `AXES`
        pub enum Axis {
            $($variant,)+
            $($s_variant,)+
        }

        $(#[$cell_meta])*
        pub struct Cell {
            $($(#[$meta])* pub $field: $type,)+
            /// The server and the load on it, where there is one.
            pub serving: Serving,
            /// Whether it is the second measurement of a baseline, under a name of its own. No axis: the
            /// plan alone sets it.
            #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
            pub twin: bool,
        }

        $(#[$serving_meta])*
        pub struct Serving {
            $($(#[$s_meta])* pub $s_field: $s_type,)+
        }

        impl Default for Cell {
            fn default() -> Cell {
                Cell {
                    $($field: usual(Axis::$variant, &$values),)+
                    serving: Serving::default(),
                    twin: false,
                }
            }
        }

        impl Default for Serving {
            fn default() -> Serving {
                Serving { $($s_field: usual(Axis::$s_variant, &$s_values),)+ }
            }
        }

        /// All axes, in the order in which a cell is written.
        #[allow(clippy::needless_update)] // a row may say all there is to say
        pub const AXES: &[AxisRow] = &[
            $(axes!(@row $variant, $field, $type, $values, $($key: $value),+),)+
            $(axes!(@row $s_variant, serving.$s_field, $s_type, $s_values, $($s_key: $s_value),+),)+
        ];
    };
    (@row $variant:ident, $($field:ident).+, $type:ty, $values:expr, $($key:ident: $value:expr),+) => {
        AxisRow {
            axis: Axis::$variant,
            name: Axis::VARIANTS[Axis::$variant as usize],
            value: |cell| Values::<$type>::value(&$values, &cell.$($field).+),
            set: |cell, text| {
                cell.$($field).+ = $values.read(Axis::$variant, text, "")?;
                Ok(())
            },
            is_same: |one, other| one.$($field).+ == other.$($field).+,
            $($key: $value,)+
            ..USUAL
        }
    };
}
