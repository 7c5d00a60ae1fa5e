//! The condition under which a serialised field is left out.

/// Returns true for a type's default value, which files do not contain.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
