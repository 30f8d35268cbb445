//! The same work on each of several files, on a few threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Applies `work` to each item and returns the results in the order of the items. Of several failures, that of the first item
/// is returned: which one is reported does not depend on the threads.
pub(crate) fn map<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = threads.min(items.len()).min(thread::available_parallelism().map_or(1, NonZero::get));
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    if result.is_err() {
                        next.store(items.len(), Ordering::Relaxed); // items before this one are already taken
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Result<Vec<u32>, ()> = map(&items, 4, |item| Ok(item * 2));
        assert_eq!(doubled, Ok((0..200).step_by(2).collect()));
    }

    #[test]
    fn the_failure_of_the_first_item_is_reported() {
        let items: Vec<u32> = (0..100).collect();
        for _ in 0..20 {
            assert_eq!(map(&items, 4, |item| if item % 10 == 7 { Err(*item) } else { Ok(()) }), Err(7));
        }
    }
}
