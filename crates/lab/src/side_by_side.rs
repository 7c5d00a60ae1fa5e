//! Work that mostly waits, done for several items at the same time.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

/// The result of each item, in order, by a thread of its own, or by the caller where none starts.
pub(crate) fn each<'i, T: Sync + 'i, R: Send>(
    items: impl IntoIterator<Item = &'i T>,
    of: impl Fn(&'i T) -> R + Sync,
) -> Vec<R> {
    let of = &of;
    thread::scope(|scope| {
        let begin = |item: &'i T| {
            let thread = Builder::new().spawn_scoped(scope, move || of(item));
            (item, thread)
        };
        let begun: Vec<_> = items.into_iter().map(begin).collect();
        let ended = begun.into_iter().map(|(item, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => of(item),
        });
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn all_are_under_way_at_once_and_come_in_their_order() {
        let all = Barrier::new(3);
        let found = each(&[1, 2, 3], |n| {
            all.wait();
            n * 10
        });
        assert_eq!(found, [10, 20, 30]);
    }
}
