//! Which tables of ranges threads read: a word for each thread, which whoever takes a range back looks at. To write it takes a reader
//! one locked step.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::table::Table;

/// The words of all threads that have read and live.
static READERS: Mutex<Vec<Arc<Reader>>> = Mutex::new(Vec::new());

/// The table that a thread reads, or null. On a cache line of its own: it is written all the time.
#[derive(Default)]
#[repr(align(64))]
struct Reader(AtomicPtr<Table>);

/// This thread's.
struct Own(Arc<Reader>);

thread_local! {
    static OWN: Own = Own::new();
}

fn readers() -> MutexGuard<'static, Vec<Arc<Reader>>> {
    READERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Own {
    fn new() -> Own {
        let own = Arc::<Reader>::default();
        readers().push(own.clone());
        Own(own)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        readers().retain(|reader| !Arc::ptr_eq(reader, &self.0));
    }
}

/// Ends a read, also on the way of a panic.
struct End<'a>(&'a Reader);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.0.store(ptr::null_mut(), Ordering::Release);
    }
}

/// Calls `work` with the table that is in force; until that returns, [`is_read`] says that it is read. `None`, and no call: this thread
/// reads one already, or ends.
#[inline]
pub(super) fn read<R>(in_force: &AtomicPtr<Table>, work: impl FnOnce(*const Table) -> R) -> Option<R> {
    let read = OWN.try_with(|own| {
        let reader = &*own.0;
        if !reader.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let end = End(reader);
        let mut table = in_force.load(Ordering::Relaxed);
        loop {
            // Who replaces the table looks at the word behind that: it sees ours, or we see here what replaced it.
            reader.0.swap(table, Ordering::SeqCst);
            let now = in_force.load(Ordering::SeqCst);
            if now == table {
                break;
            }
            table = now;
        }
        let result = work(table);
        drop(end);
        Some(result)
    });
    read.ok().flatten()
}

/// Whether a thread reads a table that is not in force any more: none begins to.
pub(super) fn is_read(table: &Arc<Table>) -> bool {
    readers().iter().any(|reader| ptr::eq(reader.0.load(Ordering::SeqCst), Arc::as_ptr(table)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_until_its_reader_returns() {
        let [old, new] = [(); 2].map(|()| Arc::new(Table::default()));
        let in_force = AtomicPtr::new(Arc::as_ptr(&old).cast_mut());
        let read_of = read(&in_force, |table| {
            assert!(ptr::eq(table, Arc::as_ptr(&old)));
            in_force.store(Arc::as_ptr(&new).cast_mut(), Ordering::SeqCst);
            assert!(is_read(&old) && !is_read(&new));
            assert!(read(&in_force, |_| ()).is_none(), "one at a time");
            std::thread::scope(|scope| {
                let other = scope.spawn(|| read(&in_force, |table| ptr::eq(table, Arc::as_ptr(&new))));
                assert_eq!(other.join().unwrap(), Some(true));
            });
            7
        });
        assert_eq!(read_of, Some(7));
        assert!(!is_read(&old) && !is_read(&new));
    }

    #[test]
    fn a_panic_ends_a_read() {
        let table = Arc::new(Table::default());
        let in_force = AtomicPtr::new(Arc::as_ptr(&table).cast_mut());
        let panics = || read(&in_force, |_| std::panic::panic_any(()));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(!is_read(&table));
    }
}
