//! Over a mapped window: whoever reaches the threshold carries the operation out.

use super::*;
use extoll_abi::layout::GGAS_TN_COUNTED_MAX;
use ggas_device::TriggerError;
use ggas_tn::{Signal, WindowConfig, WindowTriggers};
use ggas_window::Window;

/// Offset of the words in the window, behind a word that is signalled.
const AT: usize = 256;

struct Ends {
    cpu: Processor,
    window: Arc<Window>,
    triggers: WindowTriggers,
    data: Arc<KernelMem>,
    status: KernelMem,
}

impl Ends {
    fn new(tags: u32) -> Ends {
        let (network, cpu) = (network(Progress::Inline), Processor::cpu());
        let nodes = [0, 1].map(|i| Node::new(network.device(i).unwrap()));
        let members = [(&nodes[0], &cpu), (&nodes[1], &cpu)];
        let window = Arc::new(Window::new(&members, AT + BYTES).unwrap());
        let triggers =
            WindowTriggers::open(&window, 0, WindowConfig { tags, ..WindowConfig::default() }).unwrap();
        let (data, status) = (Arc::new(cpu.alloc(BYTES).unwrap()), cpu.alloc(16).unwrap());
        Ends { cpu, window, triggers, data, status }
    }

    fn put(&self, tag: u64, piece: Piece, fields: bool) -> Result<Completion, TnError> {
        let Piece { first, words, threshold } = piece;
        let when = When::tag(tag).after(threshold);
        let when = if fields { when.with_fields() } else { when };
        let local = 8 * first..8 * (first + words);
        self.triggers.put(when, &self.data, local, (1, AT + 8 * first), Some(Signal::Add(0, 1)))
    }

    fn register(&self, form: u32) {
        for (tag, piece) in (0..).zip(pieces(form)) {
            self.put(tag, piece, form == SELFTEST_TN_FIELDS).unwrap();
        }
    }

    fn args(&self, form: u32, round: u32) -> selftest_tn {
        selftest_tn {
            tn: self.triggers.address(),
            status: self.status.address(),
            wrong: self.status.address() + 8,
            data: self.data.address(),
            tag: 0,
            word: 0,
            times: round,
            form,
            round,
            rearm: 0,
            ahead: 0,
        }
    }

    fn start(&self, args: &selftest_tn) -> Running {
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, "ggas_selftest_tn", BLOCKS, THREADS, args) };
        start(&[launch]).unwrap()
    }

    /// The signal counts operations: none more than there were.
    fn check(&self, form: u32, round: u32) {
        assert_eq!(self.status.load_u64(0).unwrap(), 0, "{:?}", self.triggers.report());
        let signals = self.window.load_u64(1, 0).unwrap();
        assert_eq!(signals, pieces(form).len() as u64 * u64::from(round));
        for thread in 0..ALL {
            let seen = self.window.load_u64(1, AT + 8 * thread).unwrap();
            assert_eq!(
                seen,
                value(thread as u64, round.into()),
                "word {thread} of form {form}, round {round}"
            );
        }
    }
}

#[test]
fn kernels_send_at_every_granularity_and_again() {
    for (form, ahead) in FORMS.into_iter().flat_map(|form| [(form, 0), (form, 1)]) {
        let ends = Ends::new(ALL as u32);
        let args = |round| selftest_tn { ahead, ..ends.args(form, round) };
        ends.register(form);
        ends.start(&args(1)).wait(SOON).unwrap();
        ends.check(form, 1);
        ends.start(&selftest_tn { rearm: 1, ..args(2) }).wait(SOON).unwrap();
        ends.check(form, 2);
        (0..).zip(pieces(form)).for_each(|(tag, _)| ends.triggers.rearm(tag).unwrap());
        ends.start(&args(3)).wait(SOON).unwrap();
        ends.check(form, 3);
    }
}

#[test]
fn registering_joins_what_was_counted_before_and_meanwhile() {
    for form in [SELFTEST_TN_ITEMS, SELFTEST_TN_GROUPS, SELFTEST_TN_BY_ITEMS] {
        let ends = Ends::new(ALL as u32);
        ends.start(&selftest_tn { times: 0, ..ends.args(form, 1) }).wait(SOON).unwrap();
        ends.register(form);
        ends.check(form, 1);
        let ends = Ends::new(ALL as u32);
        let running = ends.start(&ends.args(form, 1));
        ends.register(form);
        running.wait(SOON).unwrap();
        ends.check(form, 1);
    }
}

/// What is read ahead of a trigger is of the registration that it then counts for, or is read again.
#[test]
fn a_trigger_notices_that_its_tag_was_registered_anew() {
    let ends = Ends::new(4);
    let piece = Piece { first: 0, words: 1, threshold: 1 };
    let words = [11u64, 22].map(u64::to_le_bytes).concat();
    ends.data.write(0, &words).unwrap();
    ends.put(0, piece, false).unwrap();
    ends.start(&ends.args(SELFTEST_TN_SEEN, 1)).wait(SOON).unwrap();
    ends.triggers.cancel(0).unwrap();
    ends.put(0, Piece { first: 1, ..piece }, false).unwrap();
    ends.start(&ends.args(SELFTEST_TN_RENEWED, 1)).wait(SOON).unwrap();
    assert_eq!(ends.status.load_u64(0).unwrap(), 0, "an operation was not read again");
    ends.start(&ends.args(SELFTEST_TN_STALE, 1)).wait(SOON).unwrap();
    let arrived = [0, 8].map(|at| ends.window.load_u64(1, AT + at).unwrap());
    assert_eq!((arrived, ends.triggers.counted(0).unwrap()), ([0, 22], 1));
}

#[test]
fn tags_beyond_the_table_and_late_ones_are_seen_by_both_sides() {
    let ends = Ends::new(16);
    let piece = Piece { first: 0, words: 1, threshold: 1 };
    assert!(matches!(ends.put(16, piece, false), Err(TnError::Tag { tag: 16, tags: 16 })));
    let sent = ends.put(3, piece, false).unwrap();
    assert!(matches!(ends.put(3, piece, false), Err(TnError::Trigger(TriggerError::Taken { tag: 3 }))));
    let error = ends.put(4, Piece { threshold: 0, ..piece }, false).unwrap_err();
    assert!(matches!(error, TnError::Trigger(TriggerError::Threshold { tag: 4 })), "{error}");
    let error = ends.put(4, Piece { threshold: GGAS_TN_COUNTED_MAX + 1, ..piece }, false).unwrap_err();
    assert!(matches!(error, TnError::HighThreshold { tag: 4, most: GGAS_TN_COUNTED_MAX, .. }), "{error}");
    assert!(matches!(ends.triggers.rearm(3), Err(TnError::Trigger(TriggerError::Waits { tag: 3 }))));
    assert!(matches!(ends.triggers.cancel(9), Err(TnError::Trigger(TriggerError::Unknown { tag: 9 }))));
    let far = ends.triggers.put(When::tag(5), &ends.data, 0..64, (1, AT + BYTES - 8), None).unwrap_err();
    assert!(matches!(far, TnError::NoSuchPlace { node: 1, .. }), "{far}");
    // All threads with a tag each: those from 16 on are refused, and their threads are told.
    let args = selftest_tn { times: 0, ..ends.args(SELFTEST_TN_ITEMS, 1) };
    ends.start(&args).wait(SOON).unwrap();
    assert_eq!(ends.status.load_u64(0).unwrap(), u64::from(extoll_abi::layout::GGAS_ERR_TRIGGER));
    let status = ends.triggers.status().unwrap();
    assert_eq!((status.refused, status.late, status.failed), ((ALL - 16) as u64, 0, 0));
    assert_eq!((ends.triggers.completed(sent).unwrap().times, ends.triggers.counted(3).unwrap()), (1, 1));
    assert_eq!(ends.window.load_u64(1, 0).unwrap(), 1, "only what was registered was sent");
    ends.start(&args).wait(SOON).unwrap();
    let status = ends.triggers.status().unwrap();
    assert_eq!((status.late, status.late_tag), (1, 3));
    assert_eq!(ends.triggers.cancel(3).unwrap(), 2);
}

#[test]
fn kernels_fetch() {
    let ends = Ends::new(4);
    let words: Vec<u8> = (0..ALL as u64).flat_map(|thread| value(thread, 1).to_le_bytes()).collect();
    ends.window.write(1, AT, &words).unwrap();
    ends.triggers.get(When::tag(0).after(BLOCKS), &ends.data, 0..BYTES, (1, AT)).unwrap();
    ends.start(&ends.args(SELFTEST_TN_GETS, 1)).wait(SOON).unwrap();
    assert_eq!(ends.status.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", ends.triggers.report());
}
