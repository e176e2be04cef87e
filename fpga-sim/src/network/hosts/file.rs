//! The file that says which hosts a network has.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most nodes of a network, as between the processes of a host.
const NODES_MAX: usize = 1024;
/// A line has less than 300 bytes.
const FILE_MAX: u64 = 512 << 10;

/// After so much silence a process is lost, unless the file says otherwise; and the shortest and longest that it may say.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
const SILENCES: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// Which hosts a network has: node 0, 1, ... each `HOST:PORT`, and the secret that their processes have to have.
#[derive(Clone)]
pub struct HostsFile {
    pub(super) path: PathBuf,
    pub(super) nodes: Vec<String>,
    pub(super) secret: [u8; 16],
    /// A process from which nothing is heard for so long is lost.
    pub(super) silence: Duration,
}

/// What is wrong with a [`HostsFile`].
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HostsFileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others may read the secret, or write the file.
    #[error(
        "{}: it holds a secret, so it has to belong to you, and to be for you alone: chmod 600 {0}",
        .path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// A line is not what it should be.
    #[error(
        "{}:{line}: write `secret` and 32 hexadecimal digits (head -c16 /dev/urandom | xxd -p), a node's HOST:PORT, or `silence` and \
         the seconds (0.1 to 3600) after which a process that says nothing is lost", path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// Something is missing, or too much.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What.
        what: String,
    },
}

ggas_errors::debug_as_display!(HostsFileError);

impl HostsFile {
    /// Where a node is met: `HOST:PORT`.
    pub fn place(&self, node: u16) -> Option<&str> {
        self.nodes.get(usize::from(node)).map(String::as_str)
    }

    /// Reads it: a line `secret` with 32 hexadecimal digits, and a line `HOST:PORT` for each node, in order. Empty lines, and
    /// what follows a `#`, do not count. A line `silence SECONDS` says after how long a process is lost of which nothing is
    /// heard, instead of 5 s. The file belongs to the user, and nobody else may read it.
    pub fn read(path: &Path) -> Result<HostsFile, HostsFileError> {
        let failed = |source| HostsFileError::Read { path: path.to_owned(), source };
        // A pipe without a writer would keep who opens it.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(failed(std::io::Error::new(ErrorKind::InvalidInput, "it is no file")));
        }
        if about.mode() & 0o077 != 0 || about.uid() != nix::unistd::geteuid().as_raw() {
            return Err(HostsFileError::Open { path: path.to_owned() });
        }
        let mut text = String::new();
        let len = file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if len as u64 > FILE_MAX {
            let what = format!("it has more than {FILE_MAX} bytes");
            return Err(HostsFileError::Content { path: path.to_owned(), what });
        }
        HostsFile::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<HostsFile, HostsFileError> {
        let content = |what: &str| HostsFileError::Content { path: path.to_owned(), what: what.to_owned() };
        let (mut secret, mut silence, mut nodes) = (None, None, Vec::new());
        for (number, line) in text.lines().enumerate() {
            let wrong = || HostsFileError::Line { path: path.to_owned(), line: number + 1 };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(seconds) = line.strip_prefix("silence ") {
                let first = silence.replace(parse_silence(seconds).ok_or_else(wrong)?);
                if first.is_some() {
                    return Err(content("it has two lines with a silence"));
                }
                continue;
            }
            match line.strip_prefix("secret ") {
                Some(digits) if secret.is_none() => {
                    secret = Some(parse_secret(digits.trim()).ok_or_else(wrong)?)
                }
                Some(_) => return Err(content("it has two secrets")),
                None if is_place(line) => nodes.push(line.to_owned()),
                None => return Err(wrong()),
            }
        }
        let secret = secret.ok_or_else(|| content("it has no line with a secret"))?;
        let is_at = |at: usize, other: &String| other.eq_ignore_ascii_case(&nodes[at]);
        if let Some(twice) = (1..nodes.len()).find(|at| nodes[..*at].iter().any(|other| is_at(*at, other))) {
            return Err(content(&format!("two nodes are at {}", nodes[twice])));
        }
        match nodes.len() {
            0 => Err(content("it names no node")),
            1..=NODES_MAX => {
                Ok(HostsFile { path: path.to_owned(), nodes, secret, silence: silence.unwrap_or(SILENCE) })
            }
            many => Err(content(&format!("it names {many} nodes, and a network has at most {NODES_MAX}"))),
        }
    }

    /// Nodes of the network.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

fn parse_secret(digits: &str) -> Option<[u8; 16]> {
    let fits = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = fits.then(|| u128::from_str_radix(digits, 16).ok())??;
    (number != 0).then(|| number.to_be_bytes())
}

fn parse_silence(seconds: &str) -> Option<Duration> {
    let seconds = seconds.trim().parse::<f64>().ok().filter(|seconds| SILENCES.contains(seconds))?;
    Some(Duration::from_secs_f64(seconds))
}

fn is_place(line: &str) -> bool {
    let Some((host, port)) = line.rsplit_once(':') else { return false };
    let fits = !host.is_empty() && host.len() < 256 && !host.contains(char::is_whitespace);
    fits && port.parse::<u16>().is_ok_and(|port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "secret 00112233445566778899aabbccddeeff\n";

    fn parse(text: &str) -> Result<HostsFile, String> {
        HostsFile::parse(Path::new("hosts"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_nodes_in_order() {
        let file = parse(&format!("# lab\n{SECRET}\nh1:7000 # the first\n[::1]:7001\n")).unwrap();
        assert_eq!(file.nodes, ["h1:7000", "[::1]:7001"]);
        assert_eq!((file.secret[0], file.secret[15]), (0x00, 0xff));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for line in ["h1", "h1:0", "h1:70000", ":7000", "h 1:7000", "secret 12", "secret 0", "secretx h:1"] {
            let error = parse(&format!("{SECRET}h0:1\n{line}\n")).err().unwrap();
            assert!(error.starts_with("hosts:3: ") || error.contains("two secrets"), "{line}: {error}");
        }
        assert!(parse("h1:7000").err().unwrap().contains("no line with a secret"));
        assert!(parse("secret 00000000000000000000000000000000\nh:1").err().unwrap().starts_with("hosts:1"));
        assert!(parse(SECRET).err().unwrap().contains("names no node"));
        assert!(
            parse(&format!("{SECRET}h1:1\nh2:1\nh1:1\n")).err().unwrap().contains("two nodes are at h1:1")
        );
        assert!(parse(&format!("{SECRET}h1:1\nH1:1\n")).err().unwrap().contains("two nodes are at H1:1"));
        let many: String = (1..1100).map(|port| format!("h:{port}\n")).collect();
        assert!(parse(&format!("{SECRET}{many}")).err().unwrap().contains("1099 nodes"));
    }

    #[test]
    fn a_file_may_say_when_processes_are_lost() {
        let silence = |text: &str| parse(&format!("{SECRET}h1:1\n{text}")).map(|file| file.silence);
        assert_eq!(silence(""), Ok(SILENCE));
        assert_eq!(silence("silence 0.5\n"), Ok(Duration::from_millis(500)));
        for wrong in ["silence 0", "silence x", "silence 1e9", "silence nan", "silence 1\nsilence 1"] {
            assert!(silence(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("ggas-hosts-{}", std::process::id()));
        std::fs::write(&path, format!("{SECRET}h1:7000\n")).unwrap();
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            HostsFile::read(&path).map(|file| file.nodes()).map_err(|error| error.to_string())
        };
        assert_eq!(read(0o600), Ok(1));
        assert!(read(0o640).unwrap_err().contains("chmod 600"));
        std::fs::remove_file(&path).unwrap();
        assert!(read_missing(&path).contains("No such file"));
    }

    /// Not a file that ends somewhere in a line, nor what has no end.
    #[test]
    fn only_whole_files_are_read() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("ggas-long-{}", std::process::id()));
        std::fs::write(&path, format!("{SECRET}h1:7000\n{}", "#".repeat(FILE_MAX as usize))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read_missing(&path).contains("more than 524288 bytes"));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(read_missing(&path).contains("it is no file"));
        std::fs::remove_file(&path).unwrap();
        assert!(read_missing(Path::new("/dev/zero")).contains("it is no file"));
    }

    fn read_missing(path: &Path) -> String {
        HostsFile::read(path).err().unwrap().to_string()
    }
}
