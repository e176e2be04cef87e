//! What copies that stand for kernels' memory leave alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use ggas_gmpi::Span;
use ggas_gmpi::carrier::{Operation, Type};
use ggas_gmpi::layout::GMPI_BYTE;

use crate::start::Here;
use crate::world::SOON;

const PAGE: usize = 4096;
const PAGES: usize = 64;

/// Pages that nobody has touched yet, from which the system would make one that is read.
fn fresh() -> usize {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which stays.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, access, kind, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: advice about these pages: what is touched there is one page, not many.
    unsafe { libc::madvise(start, PAGES * PAGE, libc::MADV_NOHUGEPAGE) };
    start as usize
}

/// How many of them were touched: bit 63 of a page's word says that there is one.
fn touched(start: usize) -> usize {
    let mut words = [0; 8 * PAGES];
    let pages = File::open("/proc/self/pagemap").expect("pagemap");
    pages.read_exact_at(&mut words, (start / PAGE * 8) as u64).expect("pagemap");
    words.chunks_exact(8).filter(|word| word[7] & 0x80 != 0).count()
}

/// A receive that is posted has not looked at its place: a copy of that takes as long as the message, and nobody needs it.
pub fn receives_do_not_read_their_place(here: &Here) {
    let start = fresh();
    // SAFETY: the pages stay, and no reference to them is made.
    let memory = Arc::new(unsafe { here.processor.borrow(start as *mut u8, PAGES * PAGE) }.expect("memory"));
    here.gmpi.attach(&memory).expect("attached");
    assert_eq!(touched(start), 0);
    here.memory.write(0, &[9; PAGE]).expect("in range");
    let (from, rank, comm, of) = (here.memory.clone(), here.gmpi.rank(), 0, Type(GMPI_BYTE));
    let by = here.gmpi.by_carrier("a test", SOON, move |carrier| {
        let span = |index, memory, len| Span { index, memory, offset: 0, len, shape: None };
        let at = span(1, memory, PAGES * PAGE);
        let receive = Operation::Recv { at, of, from: Some(rank), tag: Some(11), comm };
        let receive = carrier.start(&receive).expect("it begins");
        assert!(carrier.test(receive).is_none());
        let before = touched(start);
        let at = span(0, from, PAGE);
        let send = carrier.start(&Operation::Send { at, of, to: rank, tag: 11, comm }).expect("it begins");
        let begun = Instant::now();
        for token in [send, receive] {
            while carrier.test(token).is_none() {
                assert!(begun.elapsed() < SOON, "it ends");
                carrier.progress();
            }
        }
        Ok((before, touched(start)))
    });
    assert_eq!(by.expect("the daemon does"), (0, 1), "pages touched before a message, and by it");
}
