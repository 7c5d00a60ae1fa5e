//! Common parts of the rows of every table: they read as their facts, and are found by name.

/// Gives a type of row that has `facts` those of the named kind, and its table.
macro_rules! table {
    ($row:ident, $facts:ident, $table:ident) => {
        impl ::std::ops::Deref for $row {
            type Target = $facts<&'static str>;

            fn deref(&self) -> &Self::Target {
                &self.facts
            }
        }

        impl $row {
            /// The row of that name.
            pub fn named(name: &str) -> Option<&'static $row> {
                $table.iter().find(|row| row.name == name)
            }
        }
    };
}

pub(crate) use table;
