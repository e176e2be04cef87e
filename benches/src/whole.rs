use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;
use tempfile::NamedTempFile;

use crate::BenchError;

/// Where Linux shows the open files of this process.
const FILES: &str = "/proc/self/fd";

/// A file that is written as a whole or stays as it was, opened before there is anything to write: a mistyped path
/// must not cost a measurement.
pub struct WholeFile {
    path: PathBuf,
    to: To,
}

enum To {
    /// In the file's folder and without a name until it is whole: whatever ends this program leaves nothing behind.
    Unnamed { file: File, folder: PathBuf },
    /// Beside the file, whose name it gets in the end: where the file system has no files without a name.
    Beside(NamedTempFile),
    /// What is no regular file: a pipe, a terminal.
    Stream(File),
}

impl WholeFile {
    /// Makes sure that `path` can be written.
    ///
    /// # Errors
    /// [`BenchError::Output`] names the path, and why not.
    pub fn create(path: &Path) -> Result<Self, BenchError> {
        Self::open(path).map_err(|error| failed(path, &error))
    }

    fn open(path: &Path) -> std::io::Result<Self> {
        let is_stream = path.metadata().is_ok_and(|found| !found.is_file());
        if is_stream {
            let to = To::Stream(File::options().write(true).open(path)?);
            return Ok(Self { path: path.to_owned(), to });
        }
        // A link stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.exists() {
            File::options().write(true).open(&path)?; // one that is protected stays
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The user's mask takes what it wants off the mode.
        let mut unnamed = File::options();
        unnamed.write(true).mode(0o666).custom_flags(nix::libc::O_TMPFILE);
        let to = match unnamed.open(folder) {
            Ok(file) if Path::new(FILES).is_dir() => To::Unnamed { file, folder: folder.to_owned() },
            _ => {
                let permissions = Permissions::from_mode(0o666);
                To::Beside(named().permissions(permissions).tempfile_in(folder)?)
            }
        };
        Ok(Self { path, to })
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`BenchError::Output`], such as a full disk; what was there before is there still.
    pub fn write(self, bytes: &[u8]) -> Result<(), BenchError> {
        let Self { path, to } = self;
        let written = match to {
            To::Stream(mut file) => file.write_all(bytes).and_then(|()| file.flush()),
            To::Unnamed { file, folder } => {
                name(file, &folder, bytes).and_then(|file| file.persist(&path).map(drop).map_err(Into::into))
            }
            To::Beside(mut file) => file
                .write_all(bytes)
                .and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error)),
        };
        written.map_err(|error| failed(&path, &error))
    }
}

/// A file that goes when this program ends, unless a signal ends it.
fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ggas-");
    builder
}

/// Writes a file without a name, and gives it one.
fn name(mut file: File, folder: &Path, bytes: &[u8]) -> std::io::Result<NamedTempFile<()>> {
    file.write_all(bytes)?;
    let own = format!("{FILES}/{}", file.as_raw_fd());
    named().make_in(folder, |path| {
        Ok(linkat(AT_FDCWD, own.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
    })
}

fn failed(path: &Path, error: &std::io::Error) -> BenchError {
    BenchError::Output(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_as_a_whole_or_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result.json");
        let before = WholeFile::create(&path).expect("it can be written");
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 0, "nothing to see yet");
        drop(before);
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 0, "nothing is left behind");
        WholeFile::create(&path).and_then(|file| file.write(b"one")).expect("written");
        let again = WholeFile::create(&path).expect("it can be written");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"one");
        again.write(b"two").expect("written");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"two");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        WholeFile::create(&link).and_then(|file| file.write(b"three")).expect("written");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).expect("it is there"), b"three");
    }

    #[test]
    fn streams_are_written_as_they_are_and_full_ones_say_so() {
        WholeFile::create(Path::new("/dev/null")).and_then(|file| file.write(b"gone")).expect("written");
        let error =
            WholeFile::create(Path::new("/dev/full")).and_then(|file| file.write(b"none")).unwrap_err();
        assert!(error.to_string().contains("cannot write /dev/full: No space left"), "{error}");
        let error = WholeFile::create(Path::new("/nonexistent/x.json")).err().expect("no such folder");
        assert!(error.to_string().contains("/nonexistent/x.json"), "{error}");
    }
}
