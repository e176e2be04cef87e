//! The program of a job: found and executed as a shell does it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::{Launch, LaunchError};

/// Where programs are looked for if there is no PATH.
const PATH: &str = "/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";

/// The environment of a process.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// What is the same for all processes that have this program.
pub(super) struct Program {
    pub(super) name: OsString,
    args: Vec<OsString>,
    path: PathBuf,
    variables: Variables,
}

/// A program with its arguments and environment, ready to be executed between fork and exec.
pub(super) struct Image {
    path: CString,
    /// With the null pointers that end them; into `_strings`.
    args: Vec<*const c_char>,
    script_args: Vec<*const c_char>,
    variables: Vec<*const c_char>,
    _strings: Vec<CString>,
}

// SAFETY: nothing changes it after it is made, and its pointers go where its own strings are.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Program {
    pub(super) fn new(launch: &Launch, name: &OsStr, args: &[OsString]) -> Result<Program, LaunchError> {
        let mut variables: Variables = std::env::vars_os().collect();
        for (name, value) in &launch.envs {
            match value {
                Some(value) => variables.insert(name.clone(), value.clone()),
                None => variables.remove(name),
            };
        }
        // This job has no name.
        if let Some(dir) = &launch.dir {
            let enter = LaunchError::system("enter the directory of the processes");
            if !std::fs::metadata(dir).map_err(&enter)?.is_dir() {
                return Err(enter(Errno::ENOTDIR.into()));
            }
        }
        let search = variables.get(OsStr::new("PATH")).map_or(OsStr::new(PATH), OsString::as_os_str);
        let path =
            find(name, launch.dir.as_deref(), search).map_err(|errno| failed(launch, name, errno.into()))?;
        Ok(Program { name: name.into(), args: args.into(), path, variables })
    }

    /// Why it was not started.
    pub(super) fn failed(&self, launch: &Launch, source: io::Error) -> LaunchError {
        failed(launch, &self.name, source)
    }

    /// What a process executes that has these variables on top.
    pub(super) fn image(&self, launch: &Launch, more: &Variables) -> Result<Image, LaunchError> {
        let string = |bytes: Vec<u8>| CString::new(bytes).map_err(|error| self.failed(launch, error.into()));
        let path = string(self.path.as_os_str().as_bytes().to_vec())?;
        let mut strings = Vec::new();
        for text in [&self.name].into_iter().chain(&self.args) {
            strings.push(string(text.as_bytes().to_vec())?);
        }
        let count = strings.len();
        for (name, value) in self.variables.iter().filter(|(name, _)| !more.contains_key(*name)).chain(more) {
            strings.push(string([name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
        let end = || std::iter::once(std::ptr::null());
        let list = |strings: &[CString]| -> Vec<_> { strings.iter().map(|string| string.as_ptr()).collect() };
        let (args, variables) = (list(&strings[..count]), list(&strings[count..]));
        let script_args = [SHELL.as_ptr(), path.as_ptr()]
            .into_iter()
            .chain(args[1..].iter().copied())
            .chain(end())
            .collect();
        Ok(Image {
            args: args.into_iter().chain(end()).collect(),
            script_args,
            variables: variables.into_iter().chain(end()).collect(),
            path,
            _strings: strings,
        })
    }
}

impl Image {
    /// Becomes the program, or says why not. To be called between fork and exec.
    pub(super) fn execute(&self) -> io::Error {
        // SAFETY: strings that end, in lists that end. This returns only if it failed.
        unsafe { libc::execve(self.path.as_ptr(), self.args.as_ptr(), self.variables.as_ptr()) };
        let error = io::Error::last_os_error();
        // A text without a first line that names its interpreter is the shell's. What is for another machine is not.
        if error.raw_os_error() == Some(libc::ENOEXEC) && self.is_text() {
            // SAFETY: as above.
            unsafe { libc::execve(SHELL.as_ptr(), self.script_args.as_ptr(), self.variables.as_ptr()) };
        }
        error
    }

    /// Whether its first line is text, as shells judge it.
    fn is_text(&self) -> bool {
        let mut bytes = [0_u8; 128];
        // SAFETY: a string that ends, and bytes of ours. Nothing is kept of it: a failure ends this process.
        let read = unsafe {
            let file = libc::open(self.path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            libc::read(file, bytes.as_mut_ptr().cast(), bytes.len())
        };
        let Some(text) = usize::try_from(read).ok().and_then(|n| bytes.get(..n)) else { return false };
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        !text.starts_with(b"\x7fELF") && !line.contains(&0)
    }
}

/// Looks for a program in PATH, if its name has no slash.
fn find(program: &OsStr, dir: Option<&Path>, search: &OsStr) -> Result<PathBuf, Errno> {
    if program.as_bytes().contains(&b'/') {
        return Ok(program.into());
    }
    let mut error = Errno::ENOENT;
    if program.is_empty() {
        return Err(error);
    }
    for folder in std::env::split_paths(search) {
        let found = Path::new(".").join(folder).join(program);
        let at = place(&found, dir);
        if at.is_file() {
            match access(&at, AccessFlags::X_OK) {
                Ok(()) => return Ok(found),
                Err(_) => error = Errno::EACCES,
            }
        }
    }
    Err(error)
}

/// Where a path is that is meant from the processes' directory.
fn place(path: &Path, dir: Option<&Path>) -> PathBuf {
    dir.map_or_else(|| path.into(), |dir| dir.join(path))
}

/// Why a program of a launch was not started.
fn failed(launch: &Launch, name: &OsStr, source: io::Error) -> LaunchError {
    let at = place(Path::new(name), launch.dir.as_deref());
    let is_path = name.as_bytes().contains(&b'/');
    let advice = match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) if is_path && at.exists() => {
            "what runs it is not there: the interpreter that its first line names, or its dynamic loader"
        }
        Some(Errno::ENOENT) => "give its path, such as ./program, or a name in PATH",
        Some(Errno::EACCES) if is_path && at.is_dir() => "it is a directory",
        Some(Errno::EACCES) if is_path && access(&at, AccessFlags::X_OK).is_ok() => {
            "its file system may be mounted noexec, or its interpreter not be executable"
        }
        Some(Errno::EACCES) => "make it executable (chmod +x)",
        Some(Errno::ENOEXEC) => "it is no program for this machine (what `file` says of it may help)",
        Some(Errno::EAGAIN) => "raise the limit on processes (ulimit -u), or start fewer",
        _ => "see whether it runs by itself",
    };
    LaunchError::Program { program: name.into(), source, advice }
}
