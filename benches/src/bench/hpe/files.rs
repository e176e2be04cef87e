//! `hpe-file`: a file that is in the page cache, into memory of a device.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use ggas_hpe::{Runtime, StorageLibrary};

use super::{compare, devices, gpus, pattern};
use crate::bench::litmus::in_one_process;
use crate::bench::{iterations_for, methods_by_sizes};
use crate::error::Doing;
use crate::setup::{Setup, Worker};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

pub(crate) struct Files;

impl Bench for Files {
    fn name(&self) -> &'static str {
        "hpe-file"
    }

    fn about(&self) -> &'static str {
        "a file in the page cache to memory of a device by one call, by pread and a copy, and to pinned memory (HPE III-E)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["read-file", "direct", "pread-then-copy", "pread-pinned"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let sizes = options.sizes_or(&[4096, 1 << 20, 64 << 20], 1..=1 << 30, 1)?;
        methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            let setup = Setup::new(task, Worker::Kernels)?;
            if let ("direct", Err(why)) = (method, runtime(&setup, true)?.direct_storage()) {
                report.notes.push(format!("direct, {bytes} bytes: not run: {why}"));
                return Ok(());
            }
            let (samples, check, by_library) = measure(&setup, method, bytes as usize)?;
            let mut row = Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes);
            if let Some((library, percent)) = by_library {
                report
                    .notes
                    .push(format!("direct, {bytes} bytes: {library}; {percent:.0}% of the bytes went by it"));
                row = row.with("by_library_percent", percent);
            }
            report.push(row, check);
            Ok(())
        })
    }
}

/// A file that nobody else sees, with a pattern.
fn file(bytes: &[u8]) -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("ggas-hpe-file-{}", std::process::id()));
    std::fs::write(&path, bytes)?;
    let file = File::open(&path);
    std::fs::remove_file(&path)?;
    file
}

/// `direct`: by GPUDirect Storage, where it is there and takes the file.
fn runtime(setup: &Setup, direct: bool) -> Result<Runtime, BenchError> {
    let builder = devices(setup, 1)?.timeout(setup.options.timeout).direct_storage(direct);
    builder.build().doing("making a runtime")
}

/// Of `direct` what the library is, and how much of the bytes went by it: what it refuses goes through buffers.
type ByLibrary = Option<(StorageLibrary, f64)>;

fn measure(setup: &Setup, method: &str, bytes: usize) -> Result<(Samples, Check, ByLibrary), BenchError> {
    let runtime = runtime(setup, method == "direct")?;
    let there = runtime.alloc(runtime.devices()[0], bytes).doing("allocating memory of a device")?;
    let sent = pattern(bytes, setup.options.seed);
    let file = file(&sent).doing("writing a file")?;
    let iterations = setup.options.iterations.unwrap_or(iterations_for(200, bytes as u64)).max(20);
    let mut host = vec![0u8; bytes];
    if method == "pread-pinned" {
        let pinned = gpus(setup, 1)?
            .first()
            // SAFETY: the mapping goes before the buffer, which only this function uses.
            .map(|gpu| unsafe { gpu.map_host(host.as_mut_ptr(), bytes) })
            .transpose()
            .doing("pinning host memory")?;
        let samples = time_calls(iterations, |_| file.read_exact_at(&mut host, 0).doing("reading a file"))?;
        drop(pinned);
        return Ok((samples, compare(&sent, &host), None));
    }
    let mut read = 0u64;
    let samples = time_calls(iterations, |_| {
        read += bytes as u64;
        if method == "read-file" || method == "direct" {
            // SAFETY: memory of this function.
            let got = unsafe { runtime.read_file(file.as_raw_fd(), there, bytes, Some(0)) };
            let got = got.doing("reading a file")?;
            return if got == bytes { Ok(()) } else { Err(short(got, bytes)) };
        }
        file.read_exact_at(&mut host, 0).doing("reading a file")?;
        // SAFETY: the same.
        unsafe { runtime.copy(there, host.as_ptr(), bytes) }.doing("copying")
    })?;
    let by_library = match (method, runtime.storage_library(), runtime.direct_storage()) {
        ("direct", Ok(library), Ok(moved)) => Some((library, moved as f64 * 100.0 / read.max(1) as f64)),
        _ => None,
    };
    let mut seen = vec![0; bytes];
    // SAFETY: the same.
    unsafe { runtime.copy(seen.as_mut_ptr(), there, bytes) }.doing("copying")?;
    Ok((samples, compare(&sent, &seen), by_library))
}

fn short(got: usize, bytes: usize) -> BenchError {
    BenchError::Unsupported(format!("{got} of {bytes} bytes of a file were read"))
}
