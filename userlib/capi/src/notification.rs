//! Probing, waiting for, matching and freeing notifications.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::time::Duration;

use ggas::{Command, Kind, Match};

use crate::abi::{
    self, CLASS_ANY, Endpoint, FLAG_BLOCK, FLAG_LAST_NLA, LOCK_ANY, NLA_ANY, NODEID_ANY, VPID_ANY,
};
use crate::error::{Code, INV_VALUE, NO_MATCH, NO_NOTI, Result, because, code, of_wait};
use crate::ffi::{In, Null, Out};
use crate::port::{Inner, enter};

/// Codes that stand for groups of commands in a match (spec 10.1).
const PUTS: u32 = 7;
const GETS: u32 = 14;
const ANY: u32 = 15;

type Found = Out<*mut abi::Notification>;

/// Where a notification stands, as C knows it.
fn at(place: NonNull<ggas::Notification>) -> *mut abi::Notification {
    place.as_ptr().cast()
}

/// The oldest notification that agrees, now.
fn look(port: &Inner, wanted: &Match) -> Result<NonNull<ggas::Notification>> {
    port.port.peek(wanted).ok_or_else(|| if port.port.unread() == 0 { NO_NOTI } else { NO_MATCH })
}

/// The oldest notification that agrees, sleeping for it.
fn wait(port: &Inner, wanted: &Match) -> Result<NonNull<ggas::Notification>> {
    let timeout: Duration = port.timeouts().wait;
    port.port.wait_peek(wanted, timeout).map_err(|error| of_wait(&error))
}

fn find(port: *const Endpoint, wanted: Result<Match>, block: bool, found: Found) -> Code {
    code(enter(port).and_then(|port| {
        found.check("notification")?;
        let wanted = wanted?;
        let place = if block { wait(&port, &wanted)? } else { look(&port, &wanted)? };
        found.set(at(place))
    }))
}

/// The other side; ANY leaves it open.
fn from(wanted: Match, node: u16, vpid: u16) -> Result<Match> {
    let wanted = if node == NODEID_ANY { wanted } else { wanted.from_node(node) };
    if vpid == VPID_ANY {
        return Ok(wanted);
    }
    let vpid = u8::try_from(vpid).map_err(|_| because(INV_VALUE, "VPIDs are 0 to 255"))?;
    Ok(wanted.from_vpid(vpid))
}

/// What `rma2_noti_match` looks for.
fn matching(command: u32, node: u16, vpid: u16, kind: u32, nla: u64, flags: c_int) -> Result<Match> {
    let wanted = match command {
        ANY => Match::any(),
        PUTS => Match::any().puts(),
        GETS => Match::any().gets(),
        code => {
            let code = u8::try_from(code).ok().and_then(extoll_abi::CommandCode::new);
            let command = code.and_then(|code| code.command());
            Match::any().command(command.ok_or_else(|| because(INV_VALUE, "no such command"))?)
        }
    };
    let kind = u8::try_from(kind).ok().and_then(Kind::from_bits);
    let kind =
        kind.ok_or_else(|| because(INV_VALUE, "the type is one of requester, responder, completer"))?;
    let wanted = from(wanted.kind(kind), node, vpid)?;
    Ok(match nla {
        NLA_ANY => wanted,
        nla if flags & FLAG_LAST_NLA != 0 => wanted.ending_at(nla),
        nla => wanted.at(nla),
    })
}

/// A notification put; its completer's, which alone arrives from elsewhere.
fn put(class: u8, node: u16, vpid: u16) -> Result<Match> {
    let wanted = Match::any().command(Command::NotificationPut).kind(Kind::Completer);
    from(if class == CLASS_ANY { wanted } else { wanted.class(class) }, node, vpid)
}

/// The answer to a lock at the port: the requester's notification answers nothing (spec 5).
fn lock(port: *const Endpoint, number: u32, node: u16, vpid: u16) -> Result<Match> {
    let wanted = Match::any().lock_answer(enter(port)?.port.address());
    from(if number == LOCK_ANY { wanted } else { wanted.lock(number) }, node, vpid)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_probe(port: *const Endpoint, notification: Found) -> Code {
    code(enter(port).and_then(|port| {
        notification.check("notification")?;
        notification.set(at(port.port.peek(&Match::any()).ok_or(NO_NOTI)?))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_get_block(port: *const Endpoint, notification: Found) -> Code {
    find(port, Ok(Match::any()), true, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_match(
    port: *const Endpoint,
    command: u32,
    node: u16,
    vpid: u16,
    kind: u32,
    nla: u64,
    flags: c_int,
    notification: Found,
) -> Code {
    let wanted = matching(command, node, vpid, kind, nla, flags);
    find(port, wanted, flags & FLAG_BLOCK != 0, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_match_block(
    port: *const Endpoint,
    command: u32,
    node: u16,
    vpid: u16,
    kind: u32,
    nla: u64,
    flags: c_int,
    notification: Found,
) -> Code {
    find(port, matching(command, node, vpid, kind, nla, flags), true, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_noti_match(
    port: *const Endpoint,
    class: u8,
    node: u16,
    vpid: u16,
    notification: Found,
) -> Code {
    find(port, put(class, node, vpid), false, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_noti_match_block(
    port: *const Endpoint,
    class: u8,
    node: u16,
    vpid: u16,
    notification: Found,
) -> Code {
    find(port, put(class, node, vpid), true, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_lock_match(
    port: *const Endpoint,
    number: u32,
    node: u16,
    vpid: u16,
    notification: Found,
) -> Code {
    find(port, lock(port, number, node, vpid), false, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_lock_match_block(
    port: *const Endpoint,
    number: u32,
    node: u16,
    vpid: u16,
    notification: Found,
) -> Code {
    find(port, lock(port, number, node, vpid), true, notification)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_free(port: *const Endpoint, notification: *mut abi::Notification) -> Code {
    code(enter(port).and_then(|port| {
        let place = NonNull::new(notification.cast()).ok_or(Null("notification"))?;
        // Compared with the queue's addresses, not followed.
        match port.port.free(place) {
            true => Ok(()),
            false => Err(because(INV_VALUE, "no notification of the port's queue, or freed")),
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_dup(input: In<abi::Notification>, output: Out<abi::Notification>) -> Code {
    code(
        input
            .get()
            .ok_or_else(|| Null("notification").into())
            .and_then(|notification| output.set(notification)),
    )
}
