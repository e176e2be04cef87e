//! All interleavings of a kernel's and the daemon's accesses, of rings of two entries: the daemon's side is the code above; the kernel's is
//! what `gmpi_ring.h` does, one access at a time, and where its stores are not ordered every order of them.

use std::collections::HashSet;

use super::*;
use crate::PLACEMENTS;

impl Rings {
    /// Writes an attribute, as a kernel does.
    pub(crate) fn ask(&self, number: u64, elements: &[u64]) -> Result<(), GmpiError> {
        for (index, element) in elements.iter().enumerate() {
            let at = self.element(0, number, index);
            self.store.store(at, *element)?;
            if self.form == GMPI_FORM_TAGGED {
                self.store.store(at + 8, number + 1)?;
            }
        }
        if self.form == GMPI_FORM_TAGGED { Ok(()) } else { self.store.store(self.counter(0), number + 1) }
    }
}

/// What the kernel does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kernel {
    /// Looks whether there is room.
    Room,
    /// Stores of an attribute that are left, by their element, and whether the counter or element 0's number comes last.
    Stores(Vec<usize>),
    /// Takes the oldest answer, if it is there.
    Take,
    Done,
}

/// One of the runs: choices are replayed, then the first of each is taken.
struct Run {
    rings: Rings,
    kernel: Kernel,
    sent: u64,
    taken: u64,
    wanted: u64,
    /// What the daemon got, and what it will answer.
    got: Vec<Attribute>,
    choices: Vec<usize>,
    options: Vec<usize>,
    at: usize,
    /// States in which a choice was made before: what follows is known.
    seen: HashSet<String>,
    known: bool,
}

/// Elements of the attributes of this test: a barrier has one argument, a flush two.
fn elements(number: u64) -> Vec<u64> {
    match number % 2 {
        0 => vec![layout::GMPI_CALL_WIN_FLUSH.into(), 100 + number, 200 + number],
        _ => vec![layout::GMPI_CALL_BARRIER.into(), 300 + number],
    }
}

impl Run {
    fn new(rings: Rings, wanted: u64, choices: Vec<usize>, seen: HashSet<String>) -> Run {
        let (got, options) = (Vec::new(), Vec::new());
        let kernel = Kernel::Room;
        Run { rings, kernel, sent: 0, taken: 0, wanted, got, choices, options, at: 0, seen, known: false }
    }

    fn choose(&mut self, what: &str, options: usize) -> usize {
        if self.at == self.choices.len() {
            let state = (&self.kernel, self.sent, self.taken, self.got.len(), self.rings.answered, what);
            if !self.seen.insert(format!("{state:?}")) {
                self.known = true;
                return 0;
            }
            self.choices.push(0);
        }
        let choice = self.choices[self.at];
        self.at += 1;
        self.options.push(options);
        choice
    }

    fn tagged(&self) -> bool {
        self.rings.form == GMPI_FORM_TAGGED
    }

    fn is_answered(&self, number: u64) -> bool {
        let at = if self.tagged() { self.rings.element(1, number, 0) + 8 } else { self.rings.counter(1) };
        let word = self.rings.store.load(at).expect("in range");
        if self.tagged() { word == number + 1 } else { word > number }
    }

    fn store(&self, number: u64, index: usize) {
        let (at, value) = (self.rings.element(0, number, index), elements(number)[index]);
        self.rings.store.store(at, value).expect("in range");
        if self.tagged() {
            self.rings.store.store(at + 8, number + 1).expect("in range");
        }
    }

    fn step_kernel(&mut self) {
        match self.kernel.clone() {
            Kernel::Room if self.sent == self.wanted => {
                self.kernel = if self.taken == self.sent { Kernel::Done } else { Kernel::Take };
            }
            Kernel::Room if self.sent - self.taken < self.rings.entries => {
                self.kernel = Kernel::Stores((0..elements(self.sent).len()).collect());
            }
            Kernel::Room => self.kernel = Kernel::Take,
            Kernel::Stores(left) if left.is_empty() => {
                if !self.tagged() {
                    self.rings.store.store(self.rings.counter(0), self.sent + 1).expect("in range");
                }
                self.sent += 1;
                self.kernel = Kernel::Room;
            }
            Kernel::Stores(mut left) => {
                // Lanes store in any order.
                let which = if left.len() > 1 { self.choose("lane", left.len()) } else { 0 };
                self.store(self.sent, left.remove(which));
                self.kernel = Kernel::Stores(left);
            }
            Kernel::Take if self.is_answered(self.taken) => {
                let answer = self.rings.store.load(self.rings.element(1, self.taken, 0)).expect("in range");
                let second = self.rings.store.load(self.rings.element(1, self.taken, 1)).expect("in range");
                assert_eq!(
                    (answer, second),
                    (self.taken + 50, self.taken + 60),
                    "the answer of this attribute, whole"
                );
                self.taken += 1;
                self.kernel = Kernel::Room;
            }
            Kernel::Take | Kernel::Done => {}
        }
    }

    fn step_daemon(&mut self) {
        if let Some(attribute) = self.rings.poll().expect("in range") {
            let expected = elements(attribute.number);
            assert_eq!(attribute.number, self.got.len() as u64);
            assert_eq!(attribute.elements[..expected.len()], expected[..], "whole, and of this number");
            self.got.push(attribute);
        } else if self.rings.answered < self.got.len() as u64 {
            let number = self.rings.answered;
            self.rings.answer(&[number + 50, number + 60]).expect("in range");
        }
    }

    /// Until the kernel is done, or what follows is known. Whoever cannot move gives way, so that runs end.
    fn go(&mut self) {
        while self.kernel != Kernel::Done && !self.known {
            let waits = self.kernel == Kernel::Take && !self.is_answered(self.taken);
            let idle = self.rings.answered == self.sent && !matches!(self.kernel, Kernel::Stores(_));
            let kernel = match (waits, idle) {
                (true, _) => false,
                (_, true) => true,
                _ => self.choose("who", 2) == 0,
            };
            if kernel { self.step_kernel() } else { self.step_daemon() }
        }
        assert!(self.known || (self.got.len() as u64, self.taken) == (self.wanted, self.wanted));
    }
}

/// The choices of the next run; `None`: all were tried.
fn next(mut choices: Vec<usize>, options: &[usize]) -> Option<Vec<usize>> {
    while let Some(last) = choices.pop() {
        if last + 1 < options[choices.len()] {
            choices.push(last + 1);
            return Some(choices);
        }
    }
    None
}

/// Rings of two entries, made anew for each run; how many states with a choice there were.
fn all_interleavings(name: &str, rings: impl Fn() -> Rings) {
    let (mut seen, mut choices) = (HashSet::new(), Some(Vec::new()));
    while let Some(tried) = choices {
        let mut run = Run::new(rings(), 4, tried, seen);
        run.go();
        choices = next(run.choices, &run.options);
        seen = run.seen;
    }
    println!("{name}: {} states with a choice", seen.len());
    assert!(seen.len() > 50, "{name}: {} states", seen.len());
}

#[test]
fn in_every_interleaving_attributes_and_answers_come_whole_once_and_in_order() {
    for placement in PLACEMENTS {
        let rings = || Rings::new(&Processor::cpu(), placement, 2).expect("memory");
        all_interleavings(&format!("{placement:?}"), rings);
    }
}

#[test]
fn rings_by_gdrcopy_do_the_same_and_what_is_missing_is_said() {
    let folder = std::env::temp_dir().join(format!("ggas-gdrcopy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let library = folder.join("libgdrapi.so.2");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rings/gdrapi_stand_in.c");
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status();
    assert!(compiled.expect("cc is there").success());
    let rings = || {
        let store = |bytes| Ok(Store::Across(gdrcopy::Across::new(&Processor::cpu(), bytes, &library)?));
        Rings::within(GMPI_FORM_COUNTED, 2, store).expect("memory")
    };
    all_interleavings("gdrcopy", rings);
    let _ = std::fs::remove_dir_all(&folder);
    let none = folder.join("none.so");
    let gone = gdrcopy::Across::new(&Processor::cpu(), 8, &none).expect_err("it is not there").to_string();
    assert!(gone.contains("libgdrapi") && gone.contains("GGAS_GDRAPI"), "{gone}");
}
