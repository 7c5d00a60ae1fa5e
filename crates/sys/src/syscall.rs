//! What a system call answers.

use std::io;

/// The number that a call answers; where that is -1, the error that it has left in errno. To be
/// asked at once, before another call leaves its own.
///
/// # Errors
/// What the call has left.
pub(crate) fn checked(answer: impl Into<i64>) -> io::Result<usize> {
    usize::try_from(answer.into()).map_err(|_| io::Error::last_os_error())
}
