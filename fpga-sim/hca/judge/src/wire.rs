//! Ethernet frames to and from a guest: QEMU's `-netdev stream`, a stream in which each frame comes behind its length
//! (four bytes, the highest first).

use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

/// No frame is longer; QEMU's own limit is a little more.
const LONGEST: usize = 65_536;

/// What comes from a guest.
pub enum Event {
    /// A frame of the guest of this number.
    Frame(usize, Vec<u8>),
    /// The guest has gone; with the reason, if it is none that QEMU gives by ending.
    Gone(usize, Option<anyhow::Error>),
}

/// A place where a guest will come.
pub struct Place {
    listener: UnixListener,
    path: PathBuf,
}

impl Place {
    /// Listens; what is left of an earlier run gives way.
    pub fn listen(path: &Path) -> Result<Place> {
        let _ = std::fs::remove_file(path);
        let listener =
            UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))?;
        Ok(Place { listener, path: path.to_owned() })
    }

    /// Waits for the guest; a thread of its own then reads its frames, until it has gone.
    pub fn accept(self, number: usize, events: Sender<Event>) -> Result<Wire> {
        let (stream, _) = self.listener.accept()?;
        let mut reader = stream.try_clone()?;
        std::thread::spawn(move || {
            let end = loop {
                match frame(&mut reader) {
                    Ok(Some(frame)) => {
                        // Nobody listens any more: what this program is for is over.
                        if events.send(Event::Frame(number, frame)).is_err() {
                            return;
                        }
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            let _ = events.send(Event::Gone(number, end));
        });
        Ok(Wire { stream })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The way to a guest.
pub struct Wire {
    stream: UnixStream,
}

impl Wire {
    /// Sends a frame; waits until QEMU takes it. Whether the guest was still there.
    pub fn send(&mut self, frame: &[u8]) -> Result<bool> {
        let mut bytes = Vec::with_capacity(frame.len() + 4);
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend(frame);
        match self.stream.write_all(&bytes) {
            Ok(()) => Ok(true),
            Err(error) if [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()) => {
                Ok(false)
            }
            Err(error) => Err(error).context("a frame cannot be sent"),
        }
    }
}

/// The next frame; `None` at the stream's end.
fn frame(from: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(error).context("QEMU's stream cannot be read"),
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        bail!(
            "a frame of {length} bytes in QEMU's stream: it is longer than Ethernet's, so the stream is out of step"
        );
    }
    let mut bytes = vec![0; length];
    match from.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        // QEMU was ended in the middle of it.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error).context("QEMU's stream cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_and_nonsense_is_told() {
        let (one, mut two) = UnixStream::pair().unwrap();
        let mut wire = Wire { stream: one };
        assert!(wire.send(b"hello").unwrap() && wire.send(b"").unwrap());
        assert_eq!(frame(&mut two).unwrap().unwrap(), b"hello");
        assert_eq!(frame(&mut two).unwrap().unwrap(), b"");
        wire.stream.write_all(&[0, 0, 0, 9, 1]).unwrap();
        drop(wire);
        assert!(frame(&mut two).unwrap().is_none(), "half a frame is none");
        assert!(frame(&mut &[0xff, 0, 0, 0][..]).unwrap_err().to_string().contains("out of step"));
    }
}
