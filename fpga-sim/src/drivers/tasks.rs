//! Programs as tasks: functions on stacks of their own, which give their turn away where they wait.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::stack::{self, DefaultStack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a program's stack; pages are touched on first use.
const STACK: usize = 256 << 10;
/// Stacks begin at places of a page that differ by this, so that those of hundreds of programs do not have the few sets of
/// the processor's caches that go with the ends of pages.
const STEP: usize = 320;
const PAGE: usize = 4096;

/// Until when a program waits, in the units of who runs it; for the moment when anything moves, if `news`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub until: u64,
    pub news: bool,
}

type Stackful = Coroutine<(), Wait, (), Stack>;

/// A program that runs, and whose it is.
#[derive(Clone, Copy)]
struct Running {
    owner: *const (),
    yielder: *const Yielder<(), Wait>,
}

thread_local! {
    /// The program that runs on this thread.
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// Whether a program of `owner` runs on this thread.
pub(super) fn runs(owner: *const ()) -> bool {
    RUNNING.get().is_some_and(|running| running.owner == owner)
}

/// Gives away the turn of the program of `owner` that calls this; `false` where none does.
pub(super) fn suspend(owner: *const (), wait: Wait) -> bool {
    let own = |running: &Running| running.owner == owner;
    let Some(running) = RUNNING.get().filter(own) else { return false };
    // SAFETY: the yielder of the program further up on this stack, which lives as long as the program.
    unsafe { &*running.yielder }.suspend(wait);
    RUNNING.set(Some(running));
    true
}

/// A program. One that has not ended is left where it is when this is dropped: on the way of a panic, what it holds may
/// be what failed.
pub(super) struct Program {
    name: String,
    code: ManuallyDrop<Stackful>,
}

/// A program's stack. That of one that has ended serves another one.
pub(super) struct Stack {
    memory: DefaultStack,
    base: StackPointer,
}

impl Stack {
    pub fn new() -> Stack {
        static STACKS: AtomicUsize = AtomicUsize::new(0);
        let memory = DefaultStack::new(STACK).expect("address space for a program's stack");
        let skipped = STACKS.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP) % PAGE;
        let base = stack::Stack::base(&memory);
        let base = StackPointer::new(base.get() - skipped).unwrap_or(base);
        Stack { memory, base }
    }
}

// SAFETY: a part of a stack with a guard page, less than a page smaller than that; STEP and PAGE are multiples of the
// alignment, which is 16.
unsafe impl stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        stack::Stack::limit(&self.memory)
    }
}

const _: () =
    assert!(STEP.is_multiple_of(stack::STACK_ALIGNMENT) && PAGE.is_multiple_of(stack::STACK_ALIGNMENT));

impl Program {
    /// A program of `owner`.
    ///
    /// # Safety
    /// What `program` borrows outlives every [`Program::resume`], and `owner` itself.
    pub unsafe fn new<'a>(
        owner: *const (),
        name: String,
        stack: Stack,
        program: impl FnOnce() + 'a,
    ) -> Program {
        let code = move |yielder: &Yielder<(), Wait>, ()| {
            RUNNING.set(Some(Running { owner, yielder }));
            program();
        };
        // SAFETY: the caller's promise; one that has not ended is never dropped.
        let code = unsafe { Coroutine::with_stack_unchecked(stack, code) };
        Program { name, code: ManuallyDrop::new(code) }
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it until it waits; `None`: it has ended.
    pub fn resume(&mut self) -> Option<Wait> {
        // A program may run a simulation of its own.
        let named = Named(&self.name, RUNNING.get());
        let result = self.code.resume(());
        RUNNING.set(named.1);
        match result {
            CoroutineResult::Yield(wait) => Some(wait),
            CoroutineResult::Return(()) => None,
        }
    }

    /// Takes the stack of a program that has ended.
    pub fn end(self) -> Stack {
        ManuallyDrop::into_inner(self.code).into_stack()
    }
}

/// Says which program panicked; and the one that ran before it, which goes on.
struct Named<'a>(&'a str, Option<Running>);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            RUNNING.set(self.1);
            eprintln!("in {}", self.0);
        }
    }
}
