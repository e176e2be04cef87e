//! Posting (`rma2_post_*`).

use ggas::{Modifier, PageOption, Request, Spec};

use crate::abi::{self, Endpoint};
use crate::connection::{self, Connection};
use crate::error::{Code, Result, WRONG_ARG, because, code, of_post};
use crate::port::{self, Inner};
use crate::{descriptor, region};

/// The notifications and modifiers of a command, if the bits are any.
#[inline]
pub(crate) fn bits(spec: u32, modifier: u32) -> Result<(Spec, Modifier)> {
    if spec > 7 || modifier > 15 {
        return Err(because(WRONG_ARG, "notifications are 0 to 7, modifiers 0 to 15"));
    }
    Ok((Spec::from_bits_truncate(spec as u8), Modifier::from_bits_truncate(modifier as u8)))
}

/// Encodes and posts what `request` makes of the connection.
#[inline]
fn post(
    port: *const Endpoint,
    handle: *const abi::Connection,
    spec: u32,
    modifier: u32,
    request: impl FnOnce(&Inner, &Connection) -> Result<Request>,
) -> Result<()> {
    let port = port::enter(port)?;
    let connection = connection::of(&port, handle)?;
    let (spec, modifier) = bits(spec, modifier)?;
    let request = request(&port, &connection)?;
    let words = extoll_abi::Descriptor::encode(connection.remote, spec, modifier, &request);
    let words = words.map_err(|error| because(WRONG_ARG, error))?.word;
    put(&port, connection.option, words)
}

#[inline]
fn put(port: &Inner, option: PageOption, words: [u64; 3]) -> Result<()> {
    port.port.post_raw(option, words).map_err(|error| of_post(&error))
}

/// Puts and gets whose local side is an address.
macro_rules! direct {
    ($name:ident, $qw:literal, |$local:ident, $remote:ident, $size:ident, $is_qw:ident| $request:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            port: *const Endpoint,
            handle: *const abi::Connection,
            $local: u64,
            $size: u32,
            $remote: u64,
            spec: u32,
            modifier: u32,
        ) -> Code {
            let $is_qw = $qw;
            code(post(port, handle, spec, modifier, |_, _| Ok($request)))
        }
    };
}

/// Puts and gets whose local side is a region.
macro_rules! of_region {
    ($name:ident, $qw:literal, |$local:ident, $remote:ident, $size:ident, $is_qw:ident| $request:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            port: *const Endpoint,
            handle: *const abi::Connection,
            region: *const abi::Region,
            offset: u32,
            $size: u32,
            $remote: u64,
            spec: u32,
            modifier: u32,
        ) -> Code {
            let $is_qw = $qw;
            code(post(port, handle, spec, modifier, |port, connection| {
                let translated = connection.option.contains(PageOption::TE);
                let $local = region::local(port, region, offset, $size, translated)?;
                Ok($request)
            }))
        }
    };
}

direct!(rma2_post_put_bt_direct, false, |read, write, size, qw| Request::Put { qw, read, write, size });
direct!(rma2_post_put_qw_direct, true, |read, write, size, qw| Request::Put { qw, read, write, size });
direct!(rma2_post_get_bt_direct, false, |write, read, size, qw| Request::Get { qw, read, write, size });
direct!(rma2_post_get_qw_direct, true, |write, read, size, qw| Request::Get { qw, read, write, size });
of_region!(rma2_post_put_bt, false, |read, write, size, qw| Request::Put { qw, read, write, size });
of_region!(rma2_post_put_qw, true, |read, write, size, qw| Request::Put { qw, read, write, size });
of_region!(rma2_post_get_bt, false, |write, read, size, qw| Request::Get { qw, read, write, size });
of_region!(rma2_post_get_qw, true, |write, read, size, qw| Request::Get { qw, read, write, size });

#[unsafe(no_mangle)]
extern "C" fn rma2_post_lock(
    port: *const Endpoint,
    handle: *const abi::Connection,
    target: u32,
    number: u32,
    compare: i32,
    add: i32,
    spec: u32,
    modifier: u32,
) -> Code {
    code(post(port, handle, spec, modifier, |_, _| lock_request(target, number, compare, add)))
}

/// A lock at the target's completer (0) or responder (1).
pub(crate) fn lock_request(target: u32, number: u32, compare: i32, add: i32) -> Result<Request> {
    if target > 1 {
        return Err(because(WRONG_ARG, "a lock's target is 0 (completer) or 1 (responder)"));
    }
    Ok(Request::Lock { to_responder: target == 1, number, compare, add })
}

/// An immediate put; the count is checked when it is encoded.
pub(crate) fn immediate(count: u32, write: u64, value: u64) -> Request {
    Request::ImmediatePut { count: u8::try_from(count).unwrap_or(u8::MAX), write, value }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_post_notification(
    port: *const Endpoint,
    handle: *const abi::Connection,
    class: u8,
    payload: u64,
    spec: u32,
    modifier: u32,
) -> Code {
    code(post(port, handle, spec, modifier, |_, _| Ok(Request::NotificationPut { class, payload })))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_post_immediate_put(
    port: *const Endpoint,
    handle: *const abi::Connection,
    count: u32,
    value: u64,
    write: u64,
    spec: u32,
    modifier: u32,
) -> Code {
    code(post(port, handle, spec, modifier, |_, _| Ok(immediate(count, write, value))))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_post_descriptor(
    port: *const Endpoint,
    handle: *const abi::Connection,
    descriptor: *const abi::Descriptor,
) -> Code {
    code(port::enter(port).and_then(|port| {
        let connection = connection::of(&port, handle)?;
        put(&port, connection.option, descriptor::read(descriptor)?.value)
    }))
}
