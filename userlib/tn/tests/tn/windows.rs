//! Over a mapped window: whoever reaches the threshold carries the operation out.

use super::*;
use extoll_abi::layout::{GGAS_TN_COUNTED_MAX, GGAS_TN_PUT};
use ggas_device::TriggerError;
use ggas_kernels::Launch;
use ggas_kernels::args::{TN_DONE, TN_REGISTER, TN_TAKEN_BACK, tn_command, tn_commands};
use ggas_tn::{Signal, WindowConfig, WindowTriggers};
use ggas_window::Window;

/// Offset of the words in the window, behind a word that is signalled.
pub const AT: usize = 256;

pub struct Ends {
    processor: Processor,
    window: Arc<Window>,
    pub triggers: WindowTriggers,
    pub data: Arc<KernelMem>,
    pub status: KernelMem,
}

impl Ends {
    fn new(tags: u32) -> Ends {
        let network = network(Progress::Inline);
        let nodes = [0, 1].map(|i| Node::new(network.device(i).unwrap()));
        let [processor, other] = processors();
        let members = [(&nodes[0], &processor), (&nodes[1], &other)];
        let window = Arc::new(Window::new(&members, AT + BYTES).unwrap());
        Ends::over(window, &processor, tags)
    }

    /// Of member 0, whose kernels run there.
    pub fn over(window: Arc<Window>, processor: &Processor, tags: u32) -> Ends {
        let triggers =
            WindowTriggers::open(&window, 0, WindowConfig { tags, ..WindowConfig::default() }).unwrap();
        let (data, status) = (Arc::new(processor.alloc(BYTES).unwrap()), processor.alloc(16).unwrap());
        Ends { processor: processor.clone(), window, triggers, data, status }
    }

    fn put(&self, tag: u64, piece: Piece, fields: bool) -> Result<Completion, TnError> {
        let Piece { first, words, threshold } = piece;
        let when = When::tag(tag).after(threshold);
        let when = if fields { when.with_fields() } else { when };
        let local = 8 * first..8 * (first + words);
        self.triggers.put(when, &self.data, local, (1, AT + 8 * first), Some(Signal::Add(0, 1)))
    }

    pub fn register(&self, form: u32) {
        for (tag, piece) in (0..).zip(pieces(form)) {
            self.put(tag, piece, form == SELFTEST_TN_FIELDS).unwrap();
        }
    }

    pub fn args(&self, form: u32, round: u32) -> selftest_tn {
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

    pub fn start(&self, args: &selftest_tn) -> Running {
        let begin = || {
            let kernel = "ggas_selftest_tn";
            // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
            let launch = unsafe { ggas_selftest::launch(&self.processor, kernel, BLOCKS, THREADS, args) };
            start(&[launch])
        };
        let lacks_room =
            |running: &Result<Running, LaunchError>| running.as_ref().is_err_and(LaunchError::lacks_room);
        // Of kernels whose time is over some may still have a place on a GPU.
        let mut running = begin();
        until("there is room", || {
            if lacks_room(&running) {
                running = begin();
            }
            !lacks_room(&running)
        });
        running.unwrap()
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
    assert!(matches!(far, TnError::NoSuchPlace { node: 1, bytes: 64, .. }), "{far}");
    let nobody = ends.triggers.put(When::tag(5), &ends.data, 0..8, (2, 0), None).unwrap_err();
    assert!(matches!(nobody, TnError::NoSuchNode { node: 2, nodes: 2 }), "{nobody}");
    let odd = ends.triggers.put(When::tag(5), &ends.data, 0..8, (1, 0), Some(Signal::Set(4, 1))).unwrap_err();
    assert!(matches!(odd, TnError::Unaligned { node: 1, offset: 4 }), "{odd}");
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

/// A tag is not registered anew, nor cancelled, while a kernel is in the middle of its operation.
#[test]
fn an_operation_is_replaced_only_once_it_is_complete() {
    let ends = Ends::new(4);
    let piece = Piece { first: 0, words: 1, threshold: 1 };
    let run = |form| {
        ends.start(&ends.args(form, 1)).wait(SOON).unwrap();
        assert_eq!(ends.status.load_u64(0).unwrap(), 0);
    };
    let incomplete = |error: &TnError| matches!(error, TnError::Trigger(TriggerError::Incomplete { tag: 0 }));
    let sent = ends.put(0, piece, false).unwrap();
    for times in 1..4 {
        run(SELFTEST_TN_BEGUN);
        assert!(incomplete(&ends.put(0, piece, false).unwrap_err()));
        assert!(incomplete(&ends.triggers.cancel(0).unwrap_err()));
        run(SELFTEST_TN_ENDED);
        assert_eq!(ends.triggers.completed(sent).unwrap().times, times);
        match times {
            // Re-armed, it is incomplete once more; registered anew as well.
            1 => ends.triggers.rearm(0).unwrap(),
            _ => ends.put(0, piece, false).map(drop).unwrap(),
        }
    }
    // Re-armed while it is carried out, it waits and is incomplete.
    run(SELFTEST_TN_BEGUN);
    ends.triggers.rearm(0).unwrap();
    assert!(incomplete(&ends.triggers.cancel(0).unwrap_err()));
    assert!(matches!(ends.put(0, piece, false), Err(TnError::Trigger(TriggerError::Taken { tag: 0 }))));
    run(SELFTEST_TN_ENDED);
    assert_eq!(ends.triggers.completed(sent).unwrap().times, 4);
    // What is cancelled completes from 0 again.
    assert_eq!(ends.triggers.cancel(0).unwrap(), 0);
    ends.put(0, piece, false).unwrap();
    assert_eq!(ends.triggers.completed(sent).unwrap().times, 0);
    run(SELFTEST_TN_BEGUN);
    assert!(incomplete(&ends.put(0, piece, false).unwrap_err()));
    run(SELFTEST_TN_ENDED);
    assert_eq!((ends.triggers.completed(sent).unwrap().times, ends.triggers.cancel(0).unwrap()), (1, 1));
}

/// The error's bits stand above those of the count.
#[test]
fn counts_of_completions_go_around_without_an_error() {
    let ends = Ends::new(4);
    let sent = ends.put(0, Piece { first: 0, words: 1, threshold: 1 }, false).unwrap();
    ends.start(&ends.args(SELFTEST_TN_AROUND, 1)).wait(SOON).unwrap();
    for times in [u32::MAX, 0, 1] {
        ends.start(&ends.args(SELFTEST_TN_BEGUN, 1)).wait(SOON).unwrap();
        ends.start(&ends.args(SELFTEST_TN_ENDED, 1)).wait(SOON).unwrap();
        let completed = ends.triggers.completed(sent).unwrap();
        assert_eq!((completed.times, completed.error.is_empty()), (times, true));
        ends.triggers.rearm(0).unwrap();
    }
}

/// Whatever the moment at which time is over, an operation is registered if the call says so, and not otherwise.
#[test]
fn registering_that_finds_no_room_changes_nothing() {
    for micros in (0..ALL as u64).step_by(8) {
        let ends = Ends::new(ALL as u32);
        let config = WindowConfig { tags: ALL as u32, timeout: Duration::from_micros(micros) };
        let triggers = WindowTriggers::open(&ends.window, 0, config).unwrap();
        let put = |thread: usize| {
            let (local, to) = (8 * thread..8 * (thread + 1), (1, AT + 8 * thread));
            match triggers.put(When::tag(thread as u64), &ends.data, local, to, Some(Signal::Add(0, 1))) {
                Ok(_) => true,
                Err(TnError::NoRoom { tag, .. }) if tag == thread as u64 => false,
                Err(error) => panic!("{error}"),
            }
        };
        let registered: Vec<bool> = (0..ALL).map(put).collect();
        let args = selftest_tn { tn: triggers.address(), times: 0, ..ends.args(SELFTEST_TN_ITEMS, 1) };
        ends.start(&args).wait(SOON).unwrap();
        assert_eq!(ends.status.load_u64(0).unwrap(), 0, "{:?}", triggers.report());
        let sent = |thread: usize| ends.window.load_u64(1, AT + 8 * thread).unwrap();
        for (thread, registered) in registered.iter().enumerate() {
            let expected = if *registered { value(thread as u64, 1) } else { 0 };
            assert_eq!(sent(thread), expected, "word {thread}, time-out {micros} us");
        }
        let count = registered.into_iter().filter(|registered| *registered).count();
        assert_eq!(ends.window.load_u64(1, 0).unwrap(), count as u64);
    }
}

/// The kernel of a command that was taken back before it began leaves the table as it is.
#[test]
fn a_command_that_was_taken_back_changes_nothing() {
    let ends = Ends::new(4);
    let command = ends.processor.alloc(size_of::<tn_command>()).unwrap();
    let result = |taken_back: u64| {
        let asked = tn_command {
            taken_back,
            local: ends.data.address(),
            bytes: 8,
            node: 1,
            what: GGAS_TN_PUT,
            threshold: 1,
            command: TN_REGISTER,
            ..tn_command::default()
        };
        // SAFETY: a structure of plain numbers.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&asked).cast::<u8>(), size_of::<tn_command>())
        };
        command.write(0, bytes).unwrap();
        let args = tn_commands { tn: ends.triggers.address(), command: command.address() };
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = unsafe { Launch::new(&ends.processor, "ggas_tn_table", 1, 1, &args) };
        start(&[launch]).unwrap().wait(SOON).unwrap();
        command.load_u64(std::mem::offset_of!(tn_command, result)).unwrap() as u32
    };
    assert_eq!(result(1), TN_TAKEN_BACK);
    let error = ends.triggers.counted(0).unwrap_err();
    assert!(matches!(error, TnError::Trigger(TriggerError::Unknown { tag: 0 })), "{error}");
    assert_eq!((result(0), ends.triggers.counted(0).unwrap()), (TN_DONE, 0));
}

/// A grid that fills the GPU, by as many blocks as there may be, keeps the kernel that registers waiting.
#[test]
fn a_grid_that_fills_the_gpu_leaves_no_room_to_register() {
    if !on_gpus() {
        return; // threads of the executor always have room
    }
    const FULL: u32 = 132 * 32;
    let ends = Ends::new(1);
    let soon = WindowConfig { tags: 1, timeout: Duration::from_millis(50) };
    let triggers = WindowTriggers::open(&ends.window, 0, soon).unwrap();
    let data = Arc::new(ends.processor.alloc(FULL as usize * 32 * 8).unwrap());
    // Blocks that wait until their time, 3 s, is over.
    let waits = WindowConfig { tags: 1, timeout: Duration::from_secs(3) };
    let waiting = WindowTriggers::open(&ends.window, 0, waits).unwrap();
    let args = ends.args(SELFTEST_TN_BY_GROUPS, 1);
    let args = selftest_tn { tn: waiting.address(), data: data.address(), ..args };
    let put = || triggers.put(When::tag(0), &data, 0..8, (1, AT), Some(Signal::Add(0, 1)));
    for known in [true, false] {
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&ends.processor, "ggas_selftest_tn", FULL, 32, &args) };
        // The library does not look for places of blocks that may come later.
        let running = start(&[if known { launch } else { launch.resident(1) }]).unwrap();
        let error = put().map(drop);
        running.wait(SOON).unwrap();
        let waited = if known { Duration::ZERO } else { soon.timeout };
        assert!(
            matches!(error, Err(TnError::NoRoom { tag: 0, waited: this }) if this == waited),
            "{error:?}"
        );
        let error = triggers.counted(0).unwrap_err();
        assert!(matches!(error, TnError::Trigger(TriggerError::Unknown { tag: 0 })), "{error}");
    }
    put().unwrap();
    assert_eq!(triggers.counted(0).unwrap(), 0);
}

/// What was not counted fails waits until the host clears it; a report says why.
#[test]
fn errors_are_told_until_they_are_cleared() {
    let ends = Ends::new(ALL as u32);
    // Blocks and threads that trigger it do not start it.
    let piece = Piece { first: 0, words: 1, threshold: GGAS_TN_COUNTED_MAX };
    ends.put(0, piece, false).unwrap();
    let run = |args: &selftest_tn| {
        ends.status.store_u64(0, 0).unwrap();
        ends.start(args).wait(SOON).unwrap();
        (ends.status.load_u64(0).unwrap() as u32, ends.triggers.report().map(|report| report.to_string()))
    };
    let args = selftest_tn { times: 0, ..ends.args(SELFTEST_TN_BY_GROUPS, 1) };
    let cases = [
        (
            selftest_tn { form: SELFTEST_TN_BY_ITEMS, rearm: 1, ..args },
            "tag 0 was re-armed before its operation was started",
        ),
        (selftest_tn { tag: ALL as u64, ..args }, "tag 192 is beyond the table"),
        (selftest_tn { form: SELFTEST_TN_FIELDS, ..args }, "brought fields"),
    ];
    for (args, text) in cases {
        let (error, report) = run(&args);
        let report = report.expect("a report");
        assert!(error == extoll_abi::layout::GGAS_ERR_TRIGGER && report.contains(text), "{error} {report}");
        let waits = selftest_tn { tag: 3, times: 1, word: 3, ..args };
        let wait = selftest_tn { form: SELFTEST_TN_BY_GROUPS, rearm: 0, ..waits };
        assert_eq!(
            run(&wait).0,
            extoll_abi::layout::GGAS_ERR_TRIGGER,
            "a wait that nothing would end is told"
        );
        ends.triggers.clear_errors().unwrap();
        assert!(ends.triggers.report().is_none());
    }
    ends.triggers.cancel(0).unwrap();
    ends.put(0, Piece { threshold: BLOCKS, ..piece }, false).unwrap();
    assert_eq!(run(&selftest_tn { times: 1, ..args }), (0, None), "cleared errors fail no wait");
    let (error, report) = run(&selftest_tn { tag: 1, times: 1, word: ALL as u32, ..args });
    assert_eq!(error, extoll_abi::layout::GGAS_ERR_ARGUMENT);
    assert!(report.is_some_and(|report| report.contains("no completion word 192")));
}
