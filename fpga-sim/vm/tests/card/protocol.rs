//! Clients that do not keep to the protocol, on the program's socket: each is refused, it is said once for each
//! connection, memory stays bounded, and the next client is served.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use vfio_user::Client;

/// Bound of every wait that is expected to succeed.
const PATIENCE: Duration = Duration::from_secs(60);

const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const READ: u16 = 9;
const WRITE: u16 = 10;
const EINVAL: u32 = 22;
const EOPNOTSUPP: u32 = 95;
/// Capabilities of a client that leaves all to the server.
const NOTHING_ASKED: &str = r#"{"capabilities":{}}"#;
/// The region of configuration space; it begins with vendor and device.
const CONFIG: u32 = 7;
const IDENTITY: [u8; 4] = [0xad, 0x1c, 0x11, 0x00];

/// The program with one card.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_extoll-vm-server"))
            .arg("--until-eof")
            .arg("--guest")
            .arg(format!("nic={}", folder.path().join("card.sock").display()))
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"ready\n");
        Server { child, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("card.sock")
    }

    fn connect(&self) -> Guest {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Guest(stream)
    }

    /// A client that keeps to the protocol sees the card.
    fn serves(&self) {
        let mut guest = self.connect();
        guest.negotiate(NOTHING_ASKED);
        assert_eq!(guest.read(CONFIG, 0, 4), Ok(IDENTITY.to_vec()));
    }

    /// The most memory that it had, in MiB.
    fn most_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// What it said, all in all.
    fn ends(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said.lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to do where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One end of a connection, byte by byte.
struct Guest(UnixStream);

fn message(command: u16, size: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = 0x77u16.to_le_bytes().to_vec();
    bytes.extend(command.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend([0; 8]); // flags: a command; no error
    bytes.extend(body);
    bytes
}

fn access(offset: u64, region: u32, count: u32) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &region.to_le_bytes(), &count.to_le_bytes()].concat()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

impl Guest {
    fn send(&mut self, bytes: &[u8]) {
        // The other end may have closed the connection.
        let _ = self.0.write_all(bytes);
    }

    fn command(&mut self, command: u16, body: &[u8]) -> Result<Vec<u8>, u32> {
        self.send(&message(command, 16 + body.len() as u32, body));
        self.reply(command)
    }

    /// The reply's body, or its error number.
    fn reply(&mut self, command: u16) -> Result<Vec<u8>, u32> {
        let mut header = [0; 16];
        self.0.read_exact(&mut header).expect("a reply");
        assert_eq!((&header[..2], &header[2..4]), (&0x77u16.to_le_bytes()[..], &command.to_le_bytes()[..]));
        let mut body = vec![0; u32_at(&header, 4) as usize - 16];
        self.0.read_exact(&mut body).unwrap();
        match u32_at(&header, 8) {
            1 => Ok(body),
            0x21 => Err(u32_at(&header, 12)),
            flags => panic!("flags {flags:#x}"),
        }
    }

    fn negotiate(&mut self, capabilities: &str) {
        let body = [&[0; 4][..], capabilities.as_bytes(), &[0]].concat();
        let reply = self.command(VERSION, &body).expect("a version");
        assert!(reply.ends_with(b"}\0"), "{}", reply.escape_ascii());
    }

    fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<Vec<u8>, u32> {
        self.command(READ, &access(offset, region, count)).map(|body| body[16..].to_vec())
    }

    fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn what_is_larger_than_was_agreed_is_refused_without_memory_for_it() {
    let server = Server::start();
    let before = server.most_memory();
    let mut guest = server.connect();
    guest.negotiate(NOTHING_ASKED);
    assert_eq!(guest.read(0, 0, u32::MAX), Err(EINVAL));
    assert_eq!(guest.read(0, 0, (1 << 20) + 8), Err(EINVAL));
    assert_eq!(guest.read(CONFIG, 0, 4), Ok(IDENTITY.to_vec()), "the connection goes on");
    assert_eq!(guest.read(0, 0, 1 << 20).map(|bytes| bytes.len()), Ok(1 << 20), "as much as was agreed");
    // A write whose count is not what comes.
    assert_eq!(guest.command(WRITE, &access(0, 0, u32::MAX)), Err(EINVAL));
    assert_eq!(guest.read(CONFIG, 0, 4), Ok(IDENTITY.to_vec()));
    drop(guest);

    let mut guest = server.connect();
    guest.negotiate(r#"{"capabilities":{"max_data_xfer_size":4096}}"#);
    assert_eq!(guest.read(0, 0, 4096).map(|bytes| bytes.len()), Ok(4096));
    assert_eq!(guest.read(0, 0, 4104), Err(EINVAL));
    let write = [&access(0x10_0000, 0, 4104)[..], &[0; 4104]].concat();
    assert_eq!(guest.command(WRITE, &write), Err(EINVAL));
    drop(guest);

    server.serves();
    let more = server.most_memory() - before;
    assert!(more < 64, "{more} MiB more than at the start");
    let said = server.ends();
    assert_eq!(said.len(), 2, "once for each connection: {said:#?}");
    assert!(said[0].contains("4294967295 bytes") && said[0].contains("1048576"), "{}", said[0]);
    assert!(said[1].contains("4104 bytes") && said[1].contains("4096"), "{}", said[1]);
}

#[test]
fn what_lies_outside_of_a_region_is_refused() {
    let server = Server::start();
    let mut guest = server.connect();
    for (region, offset, count) in
        [(CONFIG, 4092, 8), (0, u64::MAX - 3, 8), (2, 256 << 20, 4), (1, 0, 4), (99, 0, 4)]
    {
        assert_eq!(guest.read(region, offset, count), Err(EINVAL), "region {region} {offset:#x}+{count}");
        let write = [&access(offset, region, count)[..], &vec![0; count as usize]].concat();
        assert_eq!(guest.command(WRITE, &write), Err(EINVAL), "region {region} {offset:#x}+{count}");
    }
    assert_eq!(guest.read(CONFIG, 0, 4), Ok(IDENTITY.to_vec()));
}

#[test]
fn a_version_that_is_none_is_refused() {
    let server = Server::start();
    let bodies: [&[u8]; 8] = [
        b"",
        b"\0\0",
        b"\0\0\0\0{}",
        b"\0\0\0\0\0\0",
        b"\0\0\0\0{}\0{}\0",
        b"\0\0\0\0\xff\xfe\0",
        b"\0\0\0\0{\"capabilities\":{\"max_data_xfer_size\":\"many\"}}\0",
        b"\x09\0\0\0{}\0",
    ];
    for body in bodies {
        let mut guest = server.connect();
        assert_eq!(guest.command(VERSION, body), Err(EINVAL), "{}", body.escape_ascii());
        guest.negotiate(NOTHING_ASKED);
        assert_eq!(guest.read(CONFIG, 0, 4), Ok(IDENTITY.to_vec()), "after {}", body.escape_ascii());
        drop(guest);
        server.serves();
    }
    assert_eq!(server.ends().len(), bodies.len());
}

#[test]
fn a_message_whose_size_cannot_be_ends_the_connection() {
    let server = Server::start();
    let before = server.most_memory();
    for size in [0, 8, 15, (1 << 20) + 33, u32::MAX] {
        let mut guest = server.connect();
        guest.send(&message(VERSION, size, b"\0\0\0\0{}\0"));
        assert!(guest.is_closed(), "size {size}");
        server.serves();
    }
    // A reply that nobody asked for, and half a header.
    let mut guest = server.connect();
    let mut reply = message(VERSION, 16, &[]);
    reply[8] = 1;
    guest.send(&reply);
    assert!(guest.is_closed());
    let mut guest = server.connect();
    guest.send(&message(READ, 32, &[])[..9]);
    drop(guest);
    server.serves();
    let more = server.most_memory() - before;
    assert!(more < 64, "{more} MiB more than at the start");
    let said = server.ends();
    assert_eq!(said.len(), 7, "{said:#?}");
}

#[test]
fn commands_that_are_none_or_too_short_are_refused_and_the_next_one_is_answered() {
    let server = Server::start();
    let mut guest = server.connect();
    guest.negotiate(NOTHING_ASKED);
    for (command, body) in [(0, 40), (11, 16), (14, 0), (77, 3)] {
        assert_eq!(guest.command(command, &vec![0xff; body]), Err(EOPNOTSUPP), "command {command}");
    }
    for command in [DMA_MAP, 3, 4, 5, 7, 8, READ, WRITE] {
        for len in [0, 1, 7, 11] {
            assert_eq!(
                guest.command(command, &vec![0; len]),
                Err(EINVAL),
                "command {command} of {len} bytes"
            );
        }
    }
    assert_eq!(guest.read(CONFIG, 0, 4), Ok(IDENTITY.to_vec()));
    drop(guest);
    assert_eq!(server.ends().len(), 1);
}

#[test]
fn a_client_of_the_protocols_library_is_served_and_its_files_are_not_kept() {
    let server = Server::start();
    let ram = tempfile::tempfile().unwrap();
    ram.set_len(1 << 20).unwrap();
    let mut files = Vec::new();
    for _ in 0..3 {
        let mut client = Client::new(&server.socket()).unwrap();
        let bar = client.region(0).unwrap();
        assert_eq!((bar.size, bar.file_offset.is_some()), (128 << 20, true));
        assert!(!bar.sparse_areas.is_empty());
        let fd = std::os::fd::AsRawFd::as_raw_fd(&ram);
        client.dma_map(0, 0x10_0000, 1 << 20, fd).unwrap();
        client.dma_map(0, 0x10_0000, 1 << 20, fd).unwrap(); // refused: it is there
        client.set_irqs(1, 0x24, 0, 1, &[fd]).unwrap();
        assert_eq!(client.get_irq_info(1).unwrap().count, 4);
        let mut identity = [0; 4];
        client.region_read(CONFIG, 0, &mut identity).unwrap();
        assert_eq!(identity, IDENTITY);
        client.region_write(CONFIG, 4, &[6, 0]).unwrap();
        let mut command = [0; 2];
        client.region_read(CONFIG, 4, &mut command).unwrap();
        assert_eq!(command, [6, 0]);
        client.dma_unmap(0x10_0000, 1 << 20).unwrap();
        client.reset().unwrap();
        client.shutdown().unwrap();
        drop(client);
        // Served only when everything of the one before is gone.
        let mut guest = server.connect();
        guest.negotiate(NOTHING_ASKED);
        files.push(server.open_files());
    }
    assert_eq!(files[0], files[2], "{files:?}");
}

/// A socket that a dead server left is replaced, anything else is not: it may be somebody's file.
#[test]
fn only_a_socket_gives_way_to_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let gpu = extoll_vm::Gpu::new(1 << 20).unwrap();
    let path = folder.path().join("thesis.tex");
    std::fs::write(&path, "three years").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/nonexistent", &link).unwrap();
    for path in [&path, &link] {
        let error = extoll_vm::listen(path, &gpu).err().expect("something is there");
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "three years");
    let socket = folder.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let live = extoll_vm::listen(&socket, &gpu).unwrap();
    assert_eq!(
        extoll_vm::listen(&socket, &gpu).err().expect("it is in use").kind(),
        std::io::ErrorKind::AddrInUse
    );
    drop(live);
}
