//! Printing by C's own streams: in order with what the program prints, into its buffers, and never a panic where a
//! stream is full or closed.

use libc::FILE;

unsafe extern "C" {
    // Variables of the C library, which programs may set to other streams.
    static stdout: *mut FILE;
    static stderr: *mut FILE;
}

/// The program's standard output.
pub(crate) fn out() -> *mut FILE {
    // SAFETY: read as any C function reads it.
    unsafe { (&raw const stdout).read_volatile() }
}

/// The program's standard error.
pub(crate) fn err() -> *mut FILE {
    // SAFETY: as above.
    unsafe { (&raw const stderr).read_volatile() }
}

/// Writes `text`. That a stream takes nothing is its owner's to notice (`ferror`).
pub(crate) fn print(stream: *mut FILE, text: &str) {
    if !stream.is_null() {
        // SAFETY: an open stream, by the interface's contract; the text is `len` bytes.
        unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stream) };
    }
}
