//! The row type of the table of axes, and the macro that makes types and table of the rows.

use super::table::Axis;
use super::{Cell, CellFacts, Value};
use crate::cell::Invalid;

/// A row of the table of axes: all that is specific to one axis.
#[derive(Clone, Copy, Debug)]
pub struct AxisRow {
    /// Variant of the axis; its number is the row's index in [`super::AXES`].
    pub axis: Axis,
    /// Name in study files, on the command line, in ids and in columns.
    pub name: &'static str,
    /// Heading of its options in `--help`.
    pub group: AxisGroup,
    /// Value where a study names none, and where the axis does not apply.
    pub default: &'static str,
    /// Explanation for help texts and legends.
    pub help: &'static str,
    /// Template of the value in a sentence, with `{}` for the value and `{s}` for the plural; without
    /// its first word it is the subject of a sentence. Empty for `with NAME VALUE`.
    pub phrase: &'static str,
    /// Cells that the axis applies to. Elsewhere a plan's cell has the default, or the value of
    /// `otherwise`, and no two cells differ by it.
    pub applies_to: AppliesTo,
    /// Value of a cell that the axis does not apply to; empty for the default.
    pub otherwise: fn(&CellFacts<'_>) -> &'static str,
    /// Kind of its values.
    pub kind: ValueKind,
    pub(crate) value: fn(&Cell) -> Value,
    pub(crate) set: fn(&mut Cell, &str) -> Result<(), Invalid>,
    pub(super) is_same: fn(&Cell, &Cell) -> bool,
}

/// The headings that options stand under in `--help`, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum AxisGroup {
    /// Movers and receivers.
    Method,
    /// Size and memory of a message, and the pattern of requests and responses.
    Message,
    /// Socket options.
    Socket,
    /// Transport between the two ends.
    Path,
    /// File of a mover of files, its cache state and the order of access.
    File,
    /// CPUs of threads and NUMA nodes of memory.
    Placement,
    /// Numbers of flows, rates, and background load.
    Load,
    /// Server, service and connections.
    Server,
}

impl AxisGroup {
    /// The heading's text.
    pub fn heading(self) -> &'static str {
        self.into()
    }
}

/// The set of cells that an axis applies to: in words and as a predicate.
#[derive(Clone, Copy, Debug)]
pub struct AppliesTo {
    /// The set in words: `messages over TCP`.
    pub words: &'static str,
    /// Returns true for a cell of the set.
    pub cells: fn(&CellFacts<'_>) -> bool,
}

pub(super) const fn cells(words: &'static str, cells: fn(&CellFacts<'_>) -> bool) -> AppliesTo {
    AppliesTo { words, cells }
}

/// The kind of an axis's values, which determines how they are written and ordered.
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

/// The columns that a row leaves out.
pub(super) const DEFAULT_ROW: AxisRow = AxisRow {
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
/// as in `DEFAULT_ROW`.
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
        /// A property of a cell that a study can vary; its row in [`AXES`] describes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, strum::VariantNames)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        #[allow(missing_docs)] // the rows of `AXES` describe the variants
        pub enum Axis {
            $($variant,)+
            $($s_variant,)+
        }

        $(#[$cell_meta])*
        pub struct Cell {
            $($(#[$meta])* pub $field: $type,)+
            /// The server and the load on it, where there is one.
            pub serving: Serving,
            /// True for the second measurement of a baseline, which has an id of its own. The plan alone
            /// sets it; it is no axis.
            #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
            pub twin: bool,
        }

        $(#[$serving_meta])*
        pub struct Serving {
            $($(#[$s_meta])* pub $s_field: $s_type,)+
        }

        impl Default for Cell {
            fn default() -> Cell {
                Cell {
                    $($field: default_of(Axis::$variant, &$values),)+
                    serving: Serving::default(),
                    twin: false,
                }
            }
        }

        impl Default for Serving {
            fn default() -> Serving {
                Serving { $($s_field: default_of(Axis::$s_variant, &$s_values),)+ }
            }
        }

        /// All axes, in the order in which a cell is written.
        #[allow(clippy::needless_update)] // a row may fill every column
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
            ..DEFAULT_ROW
        }
    };
}
