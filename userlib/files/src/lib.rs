//! Files that a user names, read with a bound: a path that leads to a device or a pipe takes neither all memory nor
//! forever.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The bytes of a regular file of at most `most` bytes.
///
/// # Errors
/// The file cannot be read; [`io::ErrorKind::InvalidInput`]: it is no regular file, such as a device, a pipe or a
/// directory; [`io::ErrorKind::FileTooLarge`]: it is longer than `most`.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe that nobody writes to would hold up a plain open.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file; name one"));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = format!("it has more than {most} bytes: it is another file than this program reads");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`]: it is not UTF-8.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn regular_files_are_read_up_to_the_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("four");
        fs::write(&path, "four").expect("written");
        assert_eq!(read_to_string(&path, 4).expect("it fits"), "four");
        assert_eq!(read(&path, 3).expect_err("longer").kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, b"\xff").expect("written");
        assert_eq!(read_to_string(&path, 4).expect_err("no text").kind(), io::ErrorKind::InvalidData);
        let none = read(&folder.path().join("none"), 4).expect_err("no such file");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
        for path in [Path::new("/dev/zero"), &pipe, folder.path()] {
            let error = read(path, 1 << 20).expect_err("no regular file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}: {error}", path.display());
        }
    }
}
