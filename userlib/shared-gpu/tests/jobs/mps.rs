//! MPS that ends in the middle of a run, and a GPU whose memory cannot be passed on. On a libcuda whose GPUs are host memory (`fake_libcuda.c`), and, as these end the MPS of this
//! machine, on the first GPU with `GGAS_TEST_GPUS=1` and `GGAS_TEST_MPS_STOP=server` or `quit` only.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{in_job, signal};
use crate::ranks::{self, Rank, SOON, config, floats, number, short, sum};
use ggas_gpu::GpuError;
use ggas_kernels::Processor;
use ggas_members::Job;
use ggas_shared_gpu::{Algorithm, Config, Mps, SharedGpu, SharedGpuError};

const RANKS: usize = 3;
const COUNT: usize = 1000;

/// Runs `member` as the ranks of a job, on GPUs that are host memory, with a daemon of MPS that is the process of this test.
fn on_a_fake_gpu(test: &str, variable: Option<&str>, member: fn(&Job)) {
    if std::env::var_os("GGAS_TEST_FAKE").is_some() {
        return in_job(test, (RANKS as u32, 1), member);
    }
    let name = test.trim_start_matches("mps::");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/tests/fake_libcuda.c");
    let mut compiler = Command::new("cc");
    // The name that is looked for first: under another one, that of this machine would come before it.
    let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libcuda.so")).arg(source);
    assert!(built.status().expect("a C compiler").success());
    let _listens = UnixListener::bind(folder.join("control")).expect("a socket");
    fs::write(folder.join("nvidia-cuda-mps-control.pid"), std::process::id().to_string()).expect("a file");
    // Libcuda is loaded once in a process, and found as the process begins.
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("GGAS_TEST_FAKE", "1")
        .env("LD_LIBRARY_PATH", &folder)
        .env("CUDA_MPS_PIPE_DIRECTORY", &folder)
        .envs(variable.map(|name| (name, "1")))
        .output()
        .expect("a process");
    let _ = fs::remove_dir_all(&folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    eprint!("{said}");
}

/// A rank on the first of these; none where the build has no code for GPUs.
fn rank(job: &Job, timeout: std::time::Duration) -> Option<Rank> {
    match Processor::gpu(0) {
        Err(GpuError::NoImage) => {
            eprintln!("skipped: this build has no code for GPUs");
            return None;
        }
        other => drop(other.expect("a GPU")),
    }
    assert!(Mps::find().is_on(), "{}", Mps::find());
    let rank = Rank::on(
        job,
        Processor::gpu(0).expect("it was there"),
        &Config { timeout, ..config(Algorithm::Host) },
        COUNT,
    );
    job.barrier(SOON).expect("all are set up");
    Some(rank)
}

/// Has the streams of this process give an error from now on, or none any more.
fn streams_give(error: i32) {
    // SAFETY: looks a function of the loaded library up, which has this type.
    unsafe {
        let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let function = libc::dlsym(library, c"fake_fail".as_ptr());
        assert!(!function.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn(i32)>(function)(error);
    }
}

fn is_told(error: &SharedGpuError) {
    eprintln!("{error}");
    assert!(matches!(error, SharedGpuError::MpsEnded { .. }), "{error}");
    let text = error.to_string();
    assert!(
        ["MPS ended", "nvidia-cuda-mps-control -d", "new job"].iter().all(|part| text.contains(part)),
        "{text}"
    );
}

/// Behind a call that failed: the vector, and what the last one that succeeded gave.
fn is_intact(rank: &Rank) {
    let own = rank.shared.rank();
    assert!(
        floats(&rank.input, COUNT).iter().enumerate().all(|(i, one)| *one == -number(own, i)),
        "its vector"
    );
    let before: Vec<f32> = (0..COUNT).map(|i| sum(RANKS, Algorithm::Host, i)).collect();
    assert!(floats(&rank.output, COUNT) == before, "nobody has a result");
}

fn negated(rank: &Rank) {
    let numbers = (0..COUNT).flat_map(|i| (-number(rank.shared.rank(), i)).to_ne_bytes());
    rank.input.write(0, &numbers.collect::<Vec<u8>>()).expect("in range");
}

fn one_rank_is_refused(job: &Job) {
    // The last one leaves a process no GPU.
    for code in [805, 806, 807, 810] {
        let Some(mut rank) = rank(job, SOON) else { return };
        rank.allreduce(COUNT).expect("all are there");
        negated(&rank);
        job.barrier(SOON).expect("all have their sums");
        let is_refused = rank.shared.rank() == 1;
        if is_refused {
            streams_give(code);
        }
        let error = rank.allreduce(COUNT).expect_err("MPS ended for one");
        is_told(&error);
        assert_eq!(error.to_string().contains(&format!("{code})")), is_refused, "{error}");
        // The daemon that others have, too, runs on.
        let SharedGpuError::MpsEnded { rank: found, folder, .. } = &error else { unreachable!() };
        assert_eq!((*found, folder.is_some()), (1, is_refused), "{error}");
        assert!(matches!(rank.allreduce(COUNT), Err(SharedGpuError::Broken)));
        if is_refused {
            streams_give(0);
        }
        if !is_refused || code != 810 {
            is_intact(&rank);
        }
        job.barrier(SOON).expect("all have seen it");
    }
}

#[test]
fn a_rank_that_mps_refuses_ends_the_call_of_all_and_all_name_mps() {
    on_a_fake_gpu(
        "mps::a_rank_that_mps_refuses_ends_the_call_of_all_and_all_name_mps",
        None,
        one_rank_is_refused,
    );
}

fn work_does_not_end(job: &Job) {
    let Some(mut rank) = rank(job, short()) else { return };
    rank.allreduce(COUNT).expect("all are there");
    negated(&rank);
    job.barrier(SOON).expect("all have their sums");
    if rank.shared.rank() == 1 {
        streams_give(600);
        fs::remove_file(
            Path::new(&std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").expect("it is set")).join("control"),
        )
        .expect("a file");
    }
    let error = rank.allreduce(COUNT).expect_err("the daemon of MPS has ended");
    is_told(&error);
    let own = rank.shared.rank();
    let is_named = matches!(&error, SharedGpuError::MpsEnded { rank, folder: Some(_), .. } if *rank == own);
    assert!(is_named, "it was that of all: {error}");
    if rank.shared.rank() == 1 {
        streams_give(0);
    }
    is_intact(&rank);
    job.barrier(SOON).expect("all have seen it");
}

#[test]
fn work_that_does_not_end_as_the_daemon_of_mps_has_is_told_to_all() {
    on_a_fake_gpu(
        "mps::work_that_does_not_end_as_the_daemon_of_mps_has_is_told_to_all",
        None,
        work_does_not_end,
    );
}

/// All are told at the set-up, and go on.
fn memory_cannot_be_passed_on(job: &Job) {
    let processor = match Processor::gpu(0) {
        Err(GpuError::NoImage) => return eprintln!("skipped: this build has no code for GPUs"),
        other => other.expect("a GPU"),
    };
    for algorithm in [Algorithm::Gsb, Algorithm::Host] {
        let error = SharedGpu::new(job, &processor, &config(algorithm)).expect_err("nothing can be shared");
        match &error {
            SharedGpuError::Gpu(GpuError::Unsupported { gpu: 0, .. }) if job.rank() == 0 => {}
            SharedGpuError::Peer { rank: 0, .. } if job.rank() != 0 => {}
            _ => panic!("{error}"),
        }
        assert!(error.to_string().contains("memory that other processes map"), "{error}");
    }
    let memory = processor.alloc(64).expect("its own memory");
    memory.write(0, &[7; 64]).expect("in range");
    job.barrier(SOON).expect("all have seen it");
}

#[test]
fn a_gpu_whose_memory_cannot_be_passed_on_is_named_by_all() {
    let name = "mps::a_gpu_whose_memory_cannot_be_passed_on_is_named_by_all";
    on_a_fake_gpu(name, Some("FAKE_NO_HANDLES"), memory_cannot_be_passed_on);
}

/// Ranks of the first GPU add vectors of many chunks for ever; one of them ends MPS.
fn ends(job: &Job) {
    assert!(Mps::find().is_on(), "start MPS for this test: {}", Mps::find());
    const COUNT: usize = 4 << 20;
    let config = Config { timeout: short(), ..config(Algorithm::Gsb) };
    let mut rank = Rank::new(job, &config, COUNT);
    (0..10).for_each(|_| rank.add(COUNT).expect("all are there"));
    job.barrier(SOON).expect("all have made them");
    let ended = (job.rank() == 0).then(|| std::thread::spawn(end_mps));
    // Nobody reads a result: its memory may be gone as soon as the call that made it has succeeded.
    let error = loop {
        if let Err(error) = rank.add(COUNT) {
            break error;
        }
    };
    is_told(&error);
    assert!(matches!(rank.allreduce(COUNT), Err(SharedGpuError::Broken)));
    ended.into_iter().for_each(|thread| thread.join().expect("it ended MPS"));
    job.barrier(SOON).expect("all have seen it");
}

fn way() -> Option<String> {
    std::env::var("GGAS_TEST_MPS_STOP").ok().filter(|_| ranks::is_on_gpu())
}

fn end_mps() {
    if way().as_deref() == Some("quit") {
        let mut control = Command::new("nvidia-cuda-mps-control")
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program is in the PATH");
        control.stdin.take().expect("a pipe").write_all(b"quit -t 0\n").expect("it reads");
        control.wait().expect("it ends");
        return;
    }
    let servers = servers();
    assert!(!servers.is_empty(), "the ranks have a server");
    servers.into_iter().for_each(|server| signal(server, libc::SIGKILL));
}

/// The processes in which the daemon of MPS serves.
fn servers() -> Vec<u32> {
    let Mps::On(folder) = Mps::find() else { panic!("{}", Mps::find()) };
    let daemon = fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid")).expect("the daemon's number");
    let parent = format!("\nPPid:\t{}\n", daemon.trim());
    let all = fs::read_dir("/proc").expect("a folder").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/status")).is_ok_and(|status| status.contains(&parent))
    };
    numbers.filter(is_child).collect()
}

#[test]
fn mps_that_ends_in_a_call_is_told_to_all() {
    match way().as_deref() {
        None => eprintln!("skipped: it ends the MPS of this machine, see above"),
        Some("quit" | "server") => in_job("mps::mps_that_ends_in_a_call_is_told_to_all", (4, 1), ends),
        Some(other) => panic!("GGAS_TEST_MPS_STOP={other}: use server or quit"),
    }
}
