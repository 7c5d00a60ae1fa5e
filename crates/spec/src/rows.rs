//! Macros for enums whose variants are words: the values of a choice, or the rows of a table.

/// Defines an enum of words, in the order of the documentation. Each is written as its variant's name in
/// kebab-case.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($variants:tt)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, strum::VariantArray, strum::Display, strum::IntoStaticStr)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name {
            $($variants)*
        }

        impl $name {
            /// All variants, in the order of the documentation.
            pub const ALL: &[$name] = <$name as strum::VariantArray>::VARIANTS;

            /// The word in files and on the command line.
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}

/// Defines an enum of words with a default.
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $($rest:tt)*) => {
        words! { $(#[$meta])* #[derive(Default)] pub enum $($rest)* }
    };
}

/// Defines an enum of words, with a default, or a number of bytes.
macro_rules! choice_or_bytes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($variants:tt)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, strum::IntoStaticStr)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name {
            /// A number of bytes.
            Bytes(u64),
            $($variants)*
        }

        impl From<u64> for $name {
            fn from(bytes: u64) -> $name {
                $name::Bytes(bytes)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $name::Bytes(bytes) => f.write_str(&crate::units::bytes(*bytes)),
                    word => f.write_str(word.into()),
                }
            }
        }
    };
}

/// Defines, from rows `Variant "name" { field: value, … }`, an enum whose variants are written as their
/// names, the struct of a row, the table in the rows' order, and the enum's method `row`.
macro_rules! rows {
    (
        $(#[$meta:meta])*
        enum $name:ident;
        $(#[$row_meta:meta])*
        struct $row:ident {
            $key:ident,
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
        $(#[$all_meta:meta])*
        const $all:ident;
        $($variant:ident $id:literal { $($of:ident: $value:expr),* $(,)? })*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[allow(missing_docs)] // the rows describe the variants
        pub enum $name { $(#[serde(rename = $id)] $variant,)* }

        $(#[$row_meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $row {
            #[doc = concat!("The [`", stringify!($name), "`] that the row defines.")]
            pub $key: $name,
            /// Name in files and columns.
            pub name: &'static str,
            $($(#[$field_meta])* pub $field: $type,)*
        }

        $(#[$all_meta])*
        pub const $all: &[$row] = &[
            $($row { $key: $name::$variant, name: $id, $($of: $value),* },)*
        ];

        impl $name {
            /// The row of the variant.
            pub fn row(self) -> &'static $row {
                &$all[self as usize]
            }
        }
    };
}
