//! Short puts: what the units do for any command and any packet, in one piece for those of which nothing is unusual. A put
//! between two hosts takes half as many instructions so.
//!
//! Whatever is unusual (an error, a queue without room, memory of a device, something that has to come before) is found before anything is
//! done, but for a translation that is read, which the units have at once then. It is left to the units.

use extoll_abi::{
    Access, Address, Body, Command as Code, ErrorUnits, Kind as Unit, Modifier, Notification,
    NotificationHeader, Request, Spec,
};

use super::chip::Chip;
use crate::packet::{INLINE_MAX, NOBODY};
use crate::short_put::{MODE, ShortPut};
use crate::units::counters;
use crate::units::fragment;
use crate::units::wcb::Command;

/// Spans of the units' work are the units'.
const TRACED: bool = cfg!(feature = "trace");

impl Chip {
    /// Carries out a put of a few bytes of host memory, of which the requester reports nothing. `false`, and nothing is done: it is no such
    /// command, or cannot go now.
    #[inline]
    pub(super) fn execute_short(&mut self, vpid: u8, command: &Command) -> bool {
        let board = &*self.board;
        // Asked first: where none go so, as on one host, commands are decoded once.
        if TRACED || !board.fabric.sends_short(command.descriptor.header().dst) {
            return false;
        }
        let Ok((header, Request::Put { qw, read, write, size })) = command.descriptor.decode() else {
            return false;
        };
        let entry = board.state.entry(vpid);
        let plain = (command.option.mode() == MODE)
            & (header.modifier == Modifier::NONE)
            & !header.spec.contains(Spec::REQUESTER)
            & entry.is_open()
            & (size as usize <= INLINE_MAX);
        let fragment = fragment::payload_of_mtu(board.state.config() as u16);
        if !plain || size > u32::from(fragment) {
            return false;
        }
        let Some(from) = self.translation.translate_short(vpid, read, size, Access::READ) else {
            return false;
        };
        let mut room = [0; INLINE_MAX];
        let bytes = &mut room[..size as usize];
        if board.memory.read(from, bytes).is_err() {
            return false;
        }
        let tag = self.sender.requester.next_tag();
        let put = ShortPut {
            source: Address::new(board.node, vpid),
            destination: header.dst,
            command: header.command,
            spec: header.spec,
            tc: entry.traffic_class(command.option.traffic_class()),
            protection: entry.protection(),
            fragment,
            address: write,
            len: size,
            tag,
            process: command.process,
        };
        if !board.fabric.send_short(&put, bytes) {
            return false;
        }
        self.sender.requester.use_tag(tag);
        board.counters.add(if qw { counters::REQ_QW_PUT } else { counters::REQ_BT_PUT }, 1);
        board.counters.add(counters::ATU_TRANSLATIONS, 1);
        board.counters.add(counters::REQ_FRAGMENTS, 1);
        board.counters.add(counters::REQ_QUADWORDS, size.div_ceil(8));
        true
    }

    /// Takes a put to host memory, of which nothing is left to do then. `false`, and nothing is done: it has to wait, or is for the units.
    #[inline]
    pub(super) fn take_short(&mut self, put: &ShortPut, bytes: &[u8]) -> bool {
        let Chip { board, receiver, translation, notifier, .. } = self;
        let (vpid, state) = (put.destination.vpid, &board.state);
        let entry = state.entry(vpid);
        let meant = entry.is_open() & (entry.protection() == put.protection) & (put.process != NOBODY);
        let waits = notifier.has_awaiting() | notifier.has_backlog() | !receiver.is_free(vpid);
        if TRACED || !meant || waits || state.is_foreign_put(put) {
            return false;
        }
        let Some(to) = translation.translate_short(vpid, put.address, put.len, Access::WRITE) else {
            return false;
        };
        let mut notification = None;
        if put.spec.contains(Spec::COMPLETER) {
            notification = notifier.slot(vpid).zip(notification_of(put));
            if notification.is_none() {
                return false;
            }
        }
        if board.memory.write_with_entry(to, bytes, notification).is_err() {
            return false;
        }
        let quadwords = put.command.get() == Code::QwPut as u8;
        board.counters.add(if quadwords { counters::COMPL_QW_PUT } else { counters::COMPL_BT_PUT }, 1);
        board.counters.add(counters::ATU_TRANSLATIONS, 1);
        if notification.is_some() {
            notifier.filled(vpid);
        }
        true
    }
}

/// The completer's notification of a put.
#[inline]
fn notification_of(put: &ShortPut) -> Option<[u64; 2]> {
    let header = NotificationHeader {
        kind: Unit::Completer,
        command: put.command,
        remote: put.source,
        mode: MODE,
        error: ErrorUnits::NONE,
    };
    let body = Body::Transfer { size: put.len, address: put.address };
    let Notification { word0, word1 } = Notification::encode(&header, &body).ok()?;
    Some([word0, word1])
}
