//! The kernels under ThreadSanitizer: one thread per CUDA thread, a loopback NIC
//! in C++ (`kernels/exec/tsan`). Skipped, with a message, where the C++ compiler
//! has no ThreadSanitizer.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

/// Exit status of a program in which ThreadSanitizer saw a race.
const RACE: i32 = 66;
const LIMIT: Duration = Duration::from_secs(600);

/// The program, or why there is none.
static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(build);

fn build() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tsan");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let probe = folder.join("probe.cpp");
    fs::write(&probe, "int main() { return 0; }\n").map_err(|error| error.to_string())?;
    let probe_program = folder.join(format!("probe-{}", std::process::id()));
    compile(&[probe], &probe_program)?;
    let probed = run(&probe_program, &[])?;
    fs::remove_file(&probe_program).map_err(|error| error.to_string())?;
    if !probed.status.success() {
        return Err(String::from_utf8_lossy(&probed.stderr).into_owned());
    }
    let program = folder.join("kernels");
    // A program that runs cannot be written; another process of this test may run it.
    let fresh = folder.join(format!("kernels-{}", std::process::id()));
    // From here on a failure is ours.
    compile(&sources(), &fresh).unwrap_or_else(|error| panic!("{error}"));
    fs::rename(&fresh, &program).map_err(|error| error.to_string())?;
    Ok(program)
}

/// The folder of the program. `cargo xtask test --only headers` compiles each source of it too, for errors alone.
const FOLDER: &str = "kernels/exec/tsan";

fn suite() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the suite's folder")
}

fn sources() -> Vec<PathBuf> {
    let entries = fs::read_dir(suite().join(FOLDER)).expect("the program's folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "cpp")).collect();
    assert!(!found.is_empty(), "no sources in {FOLDER}");
    found
}

fn compile(sources: &[PathBuf], program: &Path) -> Result<(), String> {
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut command = Command::new(compiler);
    command.current_dir(suite()).arg(format!("@{FOLDER}/flags")).args(["-O1", "-g", "-fsanitize=thread"]);
    let done = command.args(sources).arg("-o").arg(program).output().map_err(|error| error.to_string())?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

/// Runs a program to its end, at most for `LIMIT`.
fn run(program: &Path, arguments: &[&str]) -> Result<Output, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("TSAN_OPTIONS", format!("exitcode={RACE}"));
    // SAFETY: personality is a plain system call, allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // gcc's ThreadSanitizer does not know the address layout of newer kernels.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
    let child = command.spawn().map_err(|error| error.to_string())?;
    let watched = watch(&child);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    drop(watched);
    Ok(output)
}

/// Kills a child that runs too long; its status then tells.
fn watch(child: &Child) -> std::sync::mpsc::Sender<()> {
    let id = child.id() as libc::pid_t;
    let (sender, done) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        if done.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: the child was not waited for yet: its sender still lives.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    });
    sender
}

/// Exit status and messages of a scenario; `None` where there is no ThreadSanitizer.
fn scenario(name: &str) -> Option<(Option<i32>, String)> {
    match &*PROGRAM {
        Ok(program) => {
            let begun = Instant::now();
            let output = run(program, &[name]).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            eprintln!("{name}: {:?} after {:?}", output.status, begun.elapsed());
            Some((output.status.code(), text))
        }
        Err(reason) => {
            eprintln!("skipped: no working ThreadSanitizer here ({})", reason.trim());
            None
        }
    }
}

fn clean(names: &[&str]) {
    for name in names {
        if let Some((status, text)) = scenario(name) {
            assert_eq!(status, Some(0), "{name}:\n{text}");
        }
    }
}

fn racy(name: &str, file: &str) {
    if let Some((status, text)) = scenario(name) {
        assert_eq!(status, Some(RACE), "{name} is a race and was not seen:\n{text}");
        assert!(text.contains("data race") && text.contains(file), "{text}");
    }
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn rma_on_slots_is_clean() {
    clean(&["pingpong-slots", "pingpong-one-slot", "posts-slots", "posts-one-slot"]);
    clean(&["posts-batch", "posts-batch-few-slots", "calls-slots", "calls-one-slot"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn rma_on_the_card_path_is_clean() {
    clean(&["pingpong-card", "posts-card", "posts-batch-card", "calls-card"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn puts_are_clean() {
    clean(&["put-thread", "put-warp", "put-block", "put-grid"]);
    clean(&["packed-thread", "packed-warp", "packed-block"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn triggers_are_clean() {
    clean(&["triggers-page", "triggers-page-items", "triggers-page-kernel", "triggers-page-fields"]);
    clean(&["triggers-slots", "triggers-slots-kernel", "triggers-slots-fields"]);
    clean(&["triggers-poster-items", "triggers-poster-warps", "triggers-poster-groups"]);
    clean(&["triggers-poster-alike", "triggers-poster-alike-groups"]);
    clean(&["triggers-poster-kernel", "triggers-poster-all", "triggers-poster-fields"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn a_trigger_without_a_release_is_found() {
    clean(&["good-trigger"]);
    racy("missing-trigger-release", "triggers.cpp");
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn queues_are_clean() {
    clean(&["queue-exchange-stores", "queue-last-stores", "queue-read-stores", "queue-notify-stores"]);
    clean(&["queue-exchange-slots", "queue-last-slots", "queue-read-slots", "queue-notify-slots"]);
    clean(&["queue-exchange-card", "queue-last-card", "queue-read-card", "queue-notify-card"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn messages_from_kernel_to_kernel_are_clean() {
    clean(&["direct-messages", "direct-places"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn parts_that_wait_for_those_beside_them_are_clean() {
    clean(&["parts-wait", "parts-meet"]);
    racy("missing-parts-release", "selftest_blocks.cu");
    racy("missing-parts-wait", "selftest_blocks.cu");
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn engines_are_clean() {
    clean(&["engine-bystander", "engine-pair", "engine-changes"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn barriers_are_clean() {
    clean(&["barrier", "barrier-grid", "barrier-master", "sync"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn reductions_are_clean() {
    clean(&["reduce", "one-shot", "one-shot-shared", "two-shot"]);
    clean(&["reduce-tree", "remote-read", "gather", "all-gather", "tree", "all-to-all", "all-to-all-grid"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn moves_of_vectors_are_clean() {
    clean(&["reduce-scatter", "broadcast", "vectors-gathered", "vectors-exchanged"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn collectives_that_the_host_starts_are_clean() {
    clean(&["started-barrier", "started-broadcast", "started-all-gather", "started-all-to-all"]);
    clean(&["started-reduce", "started-reduce-scatter", "started-allreduce", "started-allreduce-by-writes"]);
    clean(&["started-allreduce-by-writes-in-place"]);
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn a_meeting_without_order_is_found() {
    clean(&["good-meeting"]);
    racy("missing-meeting-order", "planted_meeting.cu");
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn a_missing_barrier_is_found() {
    clean(&["good-barrier"]);
    racy("missing-barrier", "planted_races.cu");
}

#[test]
#[ignore = "the step `tsan` runs it: cargo test -p ggas-kernels --test tsan -- --ignored"]
fn a_missing_release_is_found() {
    clean(&["good-release"]);
    racy("missing-release", "planted_races.cu");
}
