//! Enums whose variants are words: each is written, read, listed and named by its own name.

/// An enum of words, in the order of the documentation, with `ALL` and `name`.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($variants:tt)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, strum::VariantArray, strum::IntoStaticStr)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name {
            $($variants)*
        }

        impl $name {
            /// All, in the order of the documentation.
            pub const ALL: &[$name] = <$name as strum::VariantArray>::VARIANTS;

            /// Its name.
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}

/// The same where a number of bytes can stand in the place of a word.
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
            /// So many bytes.
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
