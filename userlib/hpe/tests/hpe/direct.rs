//! Files past the host's memory: by a library of the test's that has libcufile's calls, as this machine need not have NVIDIA's.

use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use ggas_hpe::Runtime;
use ggas_hpe::address::view;

/// Reads and writes where kernels of the executor find memory; refuses files of an odd size when they are registered, and to read at odd
/// offsets. As many threads as it was built for read at a time: they wait for each other.
const LIBRARY: &str = r#"
#include <sched.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
struct status { int error, driver; };
struct description { int kind; union { int fd; void *handle; } file; const void *operations; };
struct status cuFileDriverOpen(void) { return (struct status){ OPENS, 0 }; }
struct status cuFileGetVersion(int *version) { *version = 1153; return (struct status){ 0, 0 }; }
/* Later versions write more than is looked at. */
struct status cuFileDriverGetProperties(unsigned *words)
{
	for (int i = 0; i < 40; i++)
		words[i] = 0;
	words[0] = MODULE;
	words[1] = 7 * !!MODULE;
	words[6] = 1 << 4;
	return (struct status){ 0, 0 };
}
struct status cuFileHandleRegister(void **handle, struct description *d)
{
	struct stat about;

	*handle = (void *)(long)(d->file.fd + 1);
	return (struct status){ d->kind != 1 || fstat(d->file.fd, &about) || about.st_size % 2 ? 5030 : 0, 0 };
}
void cuFileHandleDeregister(void *handle) { (void)handle; }
ssize_t cuFileRead(void *handle, void *to, size_t len, off_t at, off_t behind)
{
	static int readers;

	if (at % 2)
		return -1;
	__atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&readers, __ATOMIC_SEQ_CST) < READERS)
		sched_yield();
	return pread((int)(long)handle - 1, (char *)to + behind, len, at);
}
ssize_t cuFileWrite(void *handle, const void *from, size_t len, off_t at, off_t behind)
{
	return pwrite((int)(long)handle - 1, (const char *)from + behind, len, at);
}
"#;

fn library(name: &str, opens: i32, readers: usize) -> PathBuf {
    with_module(name, opens, readers, 0)
}

/// `module`: the version of the kernel module that it finds, or 0.
fn with_module(name: &str, opens: i32, readers: usize, module: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, built) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    std::fs::write(&source, LIBRARY).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&built).arg(&source);
    compiler.args([format!("-DOPENS={opens}"), format!("-DREADERS={readers}"), format!("-DMODULE={module}")]);
    assert!(compiler.status().unwrap().success());
    built
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 21) as u8).collect()
}

#[test]
fn long_transfers_go_by_the_library_and_what_it_refuses_by_buffers() {
    let library = library("fake-cufile", 0, 1);
    let runtime = Runtime::builder().executors(1).cufile(&library).build().unwrap();
    assert_eq!(runtime.direct_storage(), Ok(0));
    let len = (1 << 20) + 4322;
    let (sent, mut file) = (pattern(len), tempfile::tempfile().unwrap());
    file.write_all(&sent).unwrap();
    let there = runtime.alloc(runtime.devices()[0], 2 * len).unwrap();
    let seen = || {
        // SAFETY: memory of this test, as kernels find it.
        unsafe { std::slice::from_raw_parts(view(there as u64) as *const u8, len) }
    };
    // SAFETY: memory of this test.
    unsafe {
        // Up to the end of the file, at an offset and from its position, which moves on.
        assert_eq!(runtime.read_file(file.as_raw_fd(), there, 2 * len, Some(0)).unwrap(), len);
        assert!(seen() == sent);
        file.rewind().unwrap();
        assert_eq!(runtime.read_file(file.as_raw_fd(), there, len, None).unwrap(), len);
        assert_eq!(file.stream_position().unwrap(), len as u64);
        assert_eq!(runtime.direct_storage(), Ok(2 * len as u64));
        // Short ones, and files that it refuses, go by buffers; nobody notices.
        assert_eq!(runtime.read_file(file.as_raw_fd(), there, 1000, Some(3)).unwrap(), 1000);
        assert!(seen()[..1000] == sent[3..1003]);
        file.seek(std::io::SeekFrom::Start(1)).unwrap();
        assert_eq!(runtime.read_file(file.as_raw_fd(), there, len, None).unwrap(), len - 1);
        assert!(seen()[..len - 1] == sent[1..]);
        assert_eq!(file.stream_position().unwrap(), len as u64);
        assert_eq!(runtime.direct_storage(), Ok(2 * len as u64));
        let mut copy = tempfile::tempfile().unwrap();
        assert_eq!(runtime.write_file(copy.as_raw_fd(), there, len - 1, None).unwrap(), len - 1);
        assert_eq!(copy.stream_position().unwrap(), len as u64 - 1);
        assert_eq!(runtime.direct_storage(), Ok(3 * len as u64 - 1));
        let back = runtime.alloc(runtime.devices()[0], len).unwrap();
        copy.rewind().unwrap();
        assert_eq!(runtime.read_file(copy.as_raw_fd(), back, len, None).unwrap(), len - 1);
        assert_eq!(copy.stream_position().unwrap(), len as u64 - 1, "refused, as its size is odd");
        let back = std::slice::from_raw_parts(view(back as u64) as *const u8, len - 1);
        assert!(back == &sent[1..]);
    }
    assert_eq!(runtime.storage_library().unwrap().refused, 5030, "what it was refused with is told");
}

#[test]
fn what_the_library_is_and_how_it_reads_is_told() {
    for (module, how) in [(0, "1.15.3 in compatibility mode"), (2, "1.15.3 with nvidia-fs 2.7, directly")] {
        let library = with_module(&format!("cufile-module-{module}"), 0, 1, module);
        let runtime = Runtime::builder().executors(1).cufile(&library).build().unwrap();
        let library = runtime.storage_library().unwrap();
        assert_eq!((library.version, library.is_direct()), (Some([1, 15, 3]), module != 0));
        assert!(library.to_string().contains(how), "{library}");
    }
    // NVIDIA's own looks for libcuda for ever where there is none.
    let without = Runtime::builder().executors(1).direct_storage(true).build().unwrap();
    assert!(without.storage_library().unwrap_err().contains("no GPU"));
}

#[test]
fn what_is_appended_goes_to_the_end() {
    let library = library("appending-cufile", 0, 1);
    let runtime = Runtime::builder().executors(1).cufile(&library).build().unwrap();
    let (len, folder) = (1 << 20, tempfile::tempdir().unwrap());
    let there = runtime.alloc(runtime.devices()[0], len).unwrap();
    let path = folder.path().join("appended");
    std::fs::write(&path, [7; 1000]).unwrap();
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    // SAFETY: memory of this test.
    assert_eq!(unsafe { runtime.write_file(file.as_raw_fd(), there, len, None).unwrap() }, len);
    assert_eq!(file.stream_position().unwrap(), 1000 + len as u64);
    assert_eq!(runtime.direct_storage(), Ok(0), "the library writes where it is told");
    let written = std::fs::read(&path).unwrap();
    assert!(written[..1000] == [7; 1000] && written[1000..] == vec![0; len]);
}

#[test]
fn threads_that_share_a_file_read_each_byte_once() {
    const THREADS: usize = 3;
    // Each waits in its call of the library until all are there.
    let library = library("shared-cufile", 0, THREADS);
    let runtime = Runtime::builder().executors(1).cufile(&library).build().unwrap();
    let (len, mut file) = (1 << 20, tempfile::tempfile().unwrap());
    (0..THREADS as u8).for_each(|part| file.write_all(&vec![part; len]).unwrap());
    file.rewind().unwrap();
    let read = || {
        let there = runtime.alloc(runtime.devices()[0], len).unwrap();
        let mut back = vec![9; len];
        // SAFETY: memory of this thread.
        unsafe {
            assert_eq!(runtime.read_file(file.as_raw_fd(), there, len, None).unwrap(), len);
            runtime.copy(back.as_mut_ptr(), there, len).unwrap();
        }
        assert!(back.iter().all(|byte| *byte == back[0]));
        back[0]
    };
    let mut parts: Vec<u8> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    parts.sort_unstable();
    assert_eq!(parts, [0, 1, 2]);
    assert_eq!(runtime.direct_storage(), Ok((THREADS * len) as u64));
    assert_eq!(file.stream_position().unwrap(), (THREADS * len) as u64);
}

#[test]
fn a_library_that_is_missing_or_does_not_open_is_told() {
    let missing =
        Runtime::builder().executors(1).cufile(Path::new("/nowhere/libcufile.so.0")).build().unwrap();
    let why = missing.direct_storage().unwrap_err();
    assert!(why.contains("is not installed") && why.contains("pinned buffers"), "{why}");
    let closed = Runtime::builder().executors(1).cufile(&library("closed-cufile", 5001, 1)).build().unwrap();
    let why = closed.direct_storage().unwrap_err();
    assert!(why.contains("failed with 5001"), "{why}");
    let plain = Runtime::builder().executors(1).build().unwrap();
    assert!(plain.direct_storage().unwrap_err().contains("direct_storage"), "nobody asked for it");
}
