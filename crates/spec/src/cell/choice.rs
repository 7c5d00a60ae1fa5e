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
            #[must_use]
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}
