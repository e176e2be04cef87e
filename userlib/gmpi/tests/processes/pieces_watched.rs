//! The same ([`pieces`](crate::pieces)) by libraries whose calls are counted, and of which some are refused: the shim is compiled behind
//! `watch.h`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ggas_gmpi::carrier::Token;
use ggas_gmpi::{Class, Comm};

use crate::libraries::folder;
use crate::pieces::{HEAD, PIECE, SETTING, open, pattern};
use crate::pieces_by_hosts::{Calls, by_carrier};
use crate::start::{Here, again, libraries, part, two_by};
use crate::world::BYTES;

const WATCH: &str = include_str!("watch.h");
const LEN: usize = 40 * PIECE;
/// Of what is received; of a message of one byte; of one that is given up or fails.
const PLACE: usize = BYTES / 2;
const SMALL: usize = BYTES - 8;
/// Those of pieces are lower.
const LONG_TAG: i32 = 1000;
const SMALL_TAG: i32 = 2000;

/// As in `watch.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Watch {
    dups: i64,
    cancels: i64,
    asked_for_cancelled: i64,
    piece_sends: i64,
    piece_receives: i64,
    no_sends: [i64; 2],
    no_receives: [i64; 2],
    taken: i64,
    place: usize,
}

/// Changes it, and says what it is then. The daemon's thread does nothing meanwhile: a test's work is done there, or it waits for calls.
fn watch(change: impl FnOnce(&mut Watch)) -> Watch {
    // SAFETY: the name is a string; the shim that has it is loaded and stays, and nobody else uses it now.
    unsafe {
        let watch: *mut Watch = libc::dlsym(libc::RTLD_DEFAULT, c"gmpi_watch".as_ptr()).cast();
        change(watch.as_mut().expect("the shim has it"));
        *watch
    }
}

/// Runs a test's part with pieces by each library, watched.
fn watched(name: &str, part: &str) {
    for (mpirun, mpicc) in libraries() {
        let cache = folder(&format!("gmpi-watched-{}", std::process::id()));
        let header = cache.join("watch.h");
        std::fs::write(&header, WATCH).expect("written");
        let compiler = cache.join("mpicc");
        let text = format!("#!/bin/sh\nexec '{}' -include '{}' \"$@\"\n", mpicc.display(), header.display());
        std::fs::write(&compiler, text).expect("written");
        std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).expect("ours");
        run(name, part, (&mpirun, &compiler), &cache);
        std::fs::remove_dir_all(&cache).expect("it was there");
    }
}

fn run(name: &str, part: &str, (mpirun, compiler): (&Path, &Path), cache: &Path) {
    let mut command = two_by(mpirun, compiler);
    command.env("XDG_CACHE_HOME", cache).env(SETTING, PIECE.to_string());
    let status = again(name, &mut command, part).wait().expect("ended");
    assert!(status.success(), "{}: {status}", mpirun.display());
}

/// Memory with something in it.
fn opened(part: &str) -> (Here, u32) {
    let here = open(part);
    here.memory.write(0, &pattern(0, LEN)).expect("in range");
    let rank = here.gmpi.rank();
    (here, rank)
}

fn sends(calls: &mut Calls<'_>) -> Token {
    calls.send(0, LEN, 1, LONG_TAG)
}

fn receives(calls: &mut Calls<'_>) -> Token {
    calls.receive(PLACE, LEN, LONG_TAG)
}

/// The next message arrives.
fn next_one(calls: &mut Calls<'_>, rank: u32) {
    let token = if rank == 0 { sends(calls) } else { receives(calls) };
    assert_eq!(calls.wait(token).error, None);
    assert!(rank == 0 || calls.read(PLACE, LEN) == pattern(0, LEN), "the next one");
}

#[test]
fn a_message_of_which_a_piece_is_refused_ends_at_both_ends() {
    const NAME: &str = "pieces_watched::a_message_of_which_a_piece_is_refused_ends_at_both_ends";
    let Some(part) = part() else {
        let parts = ["send plain", "send staged", "receive plain", "receive staged"];
        return parts.into_iter().for_each(|part| watched(NAME, part));
    };
    let (refused, staging) = part.split_once(' ').expect("two words");
    let (here, rank) = opened(staging);
    let refuses_sends = refused == "send";
    by_carrier(&here, move |calls| {
        // The second one of them is what is done about the first.
        watch(|watch| {
            let refused = if refuses_sends { &mut watch.no_sends } else { &mut watch.no_receives };
            *refused = [7, 9];
        });
        let token = if rank == 0 { sends(calls) } else { receives(calls) };
        let error = calls.end(token).err();
        let expected = match (refuses_sends, rank) {
            (true, 0) | (false, 1) => Some(Class::NO_MEM),
            (true, _) => Some(Class::INTERN),
            (false, _) => None,
        };
        assert_eq!(error, expected);
        next_one(calls, rank);
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn the_place_of_a_receive_is_taken_again_though_pieces_had_no_bytes() {
    const NAME: &str = "pieces_watched::the_place_of_a_receive_is_taken_again_though_pieces_had_no_bytes";
    let Some(part) = part() else { return watched(NAME, "staged") };
    let (here, rank) = opened(&part);
    by_carrier(&here, move |calls| {
        if rank == 0 {
            // Memory that ends before the message does cannot be copied.
            let send = calls.send(BYTES - LEN / 2, LEN, 1, LONG_TAG);
            assert_eq!(calls.end(send).err(), Some(Class::INTERN));
            next_one(calls, rank);
        } else {
            let receive = receives(calls);
            let place = watch(|_| ()).place;
            assert_eq!(calls.end(receive).err(), Some(Class::INTERN));
            let again = receives(calls);
            assert_eq!(watch(|_| ()).place, place);
            calls.wait(again);
            assert!(calls.read(PLACE, LEN) == pattern(0, LEN), "the next one");
        }
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn pieces_are_asked_for_soon_however_many_receives_wait() {
    const NAME: &str = "pieces_watched::pieces_are_asked_for_soon_however_many_receives_wait";
    let Some(part) = part() else {
        return ["plain", "staged"].into_iter().for_each(|part| watched(NAME, part));
    };
    let (here, rank) = opened(&part);
    by_carrier(&here, move |calls| {
        if rank == 0 {
            let told = calls.receive(SMALL, 1, SMALL_TAG);
            calls.wait(told);
            let sends = [sends(calls), calls.send(SMALL, 1, 1, SMALL_TAG)];
            calls.wait_all(sends);
            return;
        }
        let others: Vec<_> = (1..500).map(|i| calls.receive(SMALL, 8, LONG_TAG + i)).collect();
        let receive = receives(calls);
        let tells = calls.send(SMALL, 1, 0, SMALL_TAG);
        // Its head has come then.
        calls.wait_for(SMALL_TAG);
        assert_eq!(watch(|_| ()).piece_receives, 0);
        for _ in 0..16 {
            calls.carrier.progress();
        }
        assert!(watch(|_| ()).piece_receives > 0, "nobody has looked at the last receive");
        let told = calls.receive(SMALL, 1, SMALL_TAG);
        calls.wait_all([tells, told, receive]);
        assert!(calls.read(PLACE, LEN) == pattern(0, LEN));
        others.into_iter().for_each(|token| calls.carrier.forget(token));
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn the_library_is_asked_of_those_alone_that_were_cancelled() {
    const NAME: &str = "pieces_watched::the_library_is_asked_of_those_alone_that_were_cancelled";
    let Some(part) = part() else {
        return ["plain", "staged"].into_iter().for_each(|part| watched(NAME, part));
    };
    let (here, rank) = opened(&part);
    by_carrier(&here, move |calls| {
        if rank == 0 {
            let sends = [sends(calls), calls.send(SMALL, 1, 1, SMALL_TAG)];
            calls.wait_all(sends);
        } else {
            let receive = receives(calls);
            // The head has come.
            calls.wait_for(SMALL_TAG);
            assert!(calls.carrier.test(receive).is_none(), "pieces are left");
            calls.carrier.forget(receive);
            let told = calls.receive(SMALL, 1, SMALL_TAG);
            calls.wait(told);
        }
        next_one(calls, rank);
        let watch = watch(|_| ());
        assert!(watch.asked_for_cancelled <= watch.cancels, "{watch:?}");
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn communicators_without_messages_have_no_other_one_for_pieces() {
    const NAME: &str = "pieces_watched::communicators_without_messages_have_no_other_one_for_pieces";
    let Some(part) = part() else { return watched(NAME, "plain") };
    let (here, rank) = opened(&part);
    let dups = || watch(|_| ()).dups;
    let before = dups();
    let comm = here.gmpi.split(Comm::WORLD, Some(rank), 0).expect("all came").expect("in it");
    assert_eq!(dups(), before + 1, "a split has one");
    here.gmpi.window(comm, &here.memory).expect("all came");
    assert_eq!(dups(), before + 1, "a window has none");
    here.gmpi.close().expect("all came");
}

#[test]
fn what_probes_have_taken_is_received_before_the_end() {
    const NAME: &str = "pieces_watched::what_probes_have_taken_is_received_before_the_end";
    let Some(part) = part() else { return watched(NAME, "plain") };
    let (here, rank) = opened(&part);
    by_carrier(&here, move |calls| {
        if rank == 0 {
            // The first ones are taken with the last, which goes by a head.
            let lens = [800, PIECE, 0, HEAD].into_iter();
            let sends: Vec<_> = lens.zip(LONG_TAG..).map(|(len, tag)| calls.send(0, len, 1, tag)).collect();
            sends.into_iter().for_each(|token| calls.carrier.forget(token));
        } else {
            assert_eq!(calls.wait_for(LONG_TAG + 3).bytes, HEAD as u64);
            assert_eq!(watch(|_| ()).taken, 3);
        }
    });
    // What is left behind ends the process in MPI_Finalize.
    here.gmpi.close().expect("all came");
}
