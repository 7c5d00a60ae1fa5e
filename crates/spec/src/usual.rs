//! What files leave out, since it is as usual and was not there in those of old.

pub(crate) fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
