//! Where the text of `gaspi_printf` goes; `link/print.c` formats it.

use std::ffi::{CStr, c_char, c_int};
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};

use crate::config;
use crate::process::here;

/// Where a logger listens.
const PORT: u16 = 17825;
/// Most bytes of a text with its prefix.
const MOST: usize = 1023;

/// The text with its prefix, as long as it may be.
fn framed(host: &str, rank: i32, local: i32, text: &[u8]) -> Vec<u8> {
    let mut framed = format!("[{host}:{rank}:{local}] ").into_bytes();
    framed.extend_from_slice(text);
    framed.truncate(MOST);
    framed
}

/// Sends a text to the logger of a rank's host, all of which are this one; before the beginning it goes to standard output.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_gaspi_print(_rank: c_int, text: *const c_char) {
    if text.is_null() {
        return;
    }
    // SAFETY: print.c passes a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let Ok(here) = here() else {
        // Nobody may be there to read it.
        let _ = std::io::stdout().write_all(&framed(&host, -1, -1, text));
        return;
    };
    if config::current().logger == 0 {
        return;
    }
    let (local, _) = here.on_this_host();
    let text = framed(&host, here.rank().into(), local.into(), text);
    // It is lost where nobody listens.
    let _ = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| socket.send_to(&text, (Ipv4Addr::LOCALHOST, PORT)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_1023_bytes_at_most() {
        assert_eq!(framed("h", 3, 1, b"x"), b"[h:3:1] x");
        assert_eq!(framed("h", 3, 1, &[b'x'; 2000]).len(), 1023);
    }
}
