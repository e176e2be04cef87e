//! The steps, in the order in which they tell most about a broken tree.

use super::{Check, Context, gaspi, gmpi, headers, hpe, librma2};
use crate::capi;
use crate::place;
use crate::run::{ask, cargo};
use crate::setup::{self, cuda};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const ALL: &[Check] = &[
    Check::new("fmt", "sources are formatted", fmt),
    Check::new("clippy", "no warnings in any target", clippy),
    Check::new(
        "headers",
        "C headers compile cleanly as C and C++, each by itself; so does the program of the step tsan",
        headers::check,
    ),
    Check::new("facts", "the Rust view of the headers is what bindgen makes of them", facts),
    Check::new("nvcc", "kernels compile for sm_80, sm_90 and PTX; programs embed no more", nvcc),
    Check::one_core("sim", "whole networks in virtual time, from seeds that take turns by the day", sim),
    Check::new("unit", "unit, property and scenario tests", unit),
    Check::new("doc", "examples in the documentation run, its links hold", doc),
    Check::new("librma2", "the C interface: its ABI, and programs in C and C++ on the model", librma2::check),
    Check::new(
        "gaspi",
        "the C interface of GASPI: its names, and programs in C and C++ as jobs",
        gaspi::check,
    ),
    Check::new("gmpi", "the C interface of GMPI as it is installed: its names, and the example", gmpi::check),
    Check::new(
        "hpe",
        "the C interface of HPE as it is installed: its names, programs linked and preloaded",
        hpe::check,
    ),
    Check::new("tsan", "kernels on threads under ThreadSanitizer", tsan),
    Check::new("demo", "the demo, built as the tests are", run_demo),
];

/// All of them even where one is meant: features of dependencies are those that the chosen packages ask for, and with
/// others everything is built once more.
const LIBRARIES: &[&str] = &["build", "--workspace", "--lib"];

/// Bytes of the library's kernels for GPUs of one architecture that would be too many, and the architectures.
const LIBRARY_IMAGE: u64 = 1_000_000;
const ARCHITECTURES: u64 = 2;

/// Crates whose unsafe code moves bytes on behalf of descriptors or users.
const UNSAFE_CRATES: [&str; 7] =
    ["extoll-abi", "extoll-sim", "ggas-clock", "ggas-device", "ggas-members", "ggas-rma", "ggas-window"];

fn fmt(context: &Context) -> Result<String> {
    context.run("fmt", cargo(&["fmt", "--all", "--check"]))?;
    Ok(String::new())
}

fn clippy(context: &Context) -> Result<String> {
    context.run("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(String::new())
}

fn facts(context: &Context) -> Result<String> {
    setup::facts(true, context.policy)?;
    Ok(String::new())
}

pub fn nvcc(context: &Context) -> Result<String> {
    let nvcc = match cuda::find() {
        Some(nvcc) => nvcc,
        None => cuda::install(context.policy).context("no nvcc (--skip nvcc leaves this step out)")?,
    };
    context.run("nvcc", cargo(LIBRARIES))?;
    let images = gpu_images()?;
    let size = |package: &str| {
        let image = images.get(package).with_context(|| format!("{package} has no kernels.fatbin"))?;
        match std::fs::metadata(image).map_or(0, |m| m.len()) {
            0 => bail!(
                "{} is empty: the build of {package} did not use {}",
                image.display(),
                nvcc.path.display()
            ),
            bytes => Ok(bytes),
        }
    };
    let bytes = size("ggas-kernels")?;
    let only = std::env::var("GGAS_CUDA_ARCH").ok();
    let most = LIBRARY_IMAGE * if only.is_some() { 1 } else { ARCHITECTURES };
    if bytes >= most {
        bail!(
            "the image of the library's kernels, which every program embeds, has {bytes} bytes; below {most} is \
             right. Kernels of tests belong in kernels/selftest, those of benchmarks in benches/kernels"
        );
    }
    accesses_by_the_host(context, &nvcc.path)?;
    let tests = size("ggas-selftest")?;
    size("ggas-benches")?;
    let (major, minor) = nvcc.version;
    let only = only.map(|arch| format!(" for sm_{arch} only")).unwrap_or_default();
    Ok(format!("nvcc {major}.{minor}{only}, {} KiB, tests' {} KiB", bytes >> 10, tests >> 10))
}

/// The vocabulary as compiled for windows whose parts the host accesses, which a build may have left out.
fn accesses_by_the_host(context: &Context, nvcc: &Path) -> Result<()> {
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "--expt-relaxed-constexpr", "-DGGAS_PROXY=1"]);
    command.args([
        "-ptx",
        "-arch=compute_90",
        "-I",
        "kernels/include",
        "-I",
        "kmod/uapi",
        "-Werror",
        "all-warnings",
    ]);
    command.args(["-o", "/dev/null", "kernels/selftest/kernels/selftest_access.cu"]);
    context.run("nvcc accesses by the host", command)
}

/// The fatbins that builds of packages with kernels made, by package; one is empty when there was no nvcc.
fn gpu_images() -> Result<BTreeMap<String, PathBuf>> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let messages = ask(program, &[LIBRARIES, &["--message-format", "json", "--quiet"]].concat());
    let messages = messages.context("cargo names no results of the build")?;
    Ok(messages.lines().filter_map(gpu_image).filter(|(_, image)| image.exists()).collect())
}

/// Of a line in which cargo says what a build script did: the package, and where its fatbin would be.
fn gpu_image(line: &str) -> Option<(String, PathBuf)> {
    let field = |name: &str| Some(line.split_once(&format!("\"{name}\":\""))?.1.split_once('"')?.0);
    // A path, and after `#` the version, with the name before it where the folder is called otherwise.
    let (folder, version) = field("package_id")?.split_once('#')?;
    let name = version.split_once('@').map_or_else(|| folder.rsplit('/').next(), |(name, _)| Some(name))?;
    (field("reason")? == "build-script-executed")
        .then_some((name.to_owned(), Path::new(field("out_dir")?).join("kernels.fatbin")))
}

pub fn unit(context: &Context) -> Result<String> {
    // It has no tests, and bindgen would be built for it with other features than `facts` has.
    let all = ["--workspace", "--exclude", "ggas-facts", "--no-fail-fast"];
    if place::which("cargo-nextest").is_some() {
        // What fails is shown at the end, too: that is the part of a log that a failed step prints.
        let how =
            ["nextest", "run", "--retries", "0", "--failure-output", "immediate-final", "--color", "never"];
        // One test more than there are cores, as tests wait now and then.
        let threads = (std::thread::available_parallelism().map_or(2, usize::from) + 1).to_string();
        let args = [&how[..], &["--test-threads", &threads], &all].concat();
        context.run("unit", with_seeds_of_the_day(cargo(&args)))?;
        return Ok("cargo nextest".into());
    }
    let args = [&["test", "--lib", "--bins", "--tests"][..], &all].concat();
    context.run("unit", with_seeds_of_the_day(cargo(&args)))?;
    Ok("cargo test".into())
}

/// Networks of hosts are simulated there, others each day as in the step `sim`.
fn with_seeds_of_the_day(mut command: Command) -> Command {
    if std::env::var_os(HOSTS_FIRST).is_none() {
        command.env(HOSTS_FIRST, first_of_day().to_string());
    }
    command
}

/// The variable that says which network of hosts is the first one.
pub const HOSTS_FIRST: &str = "GGAS_HOSTS_FIRST";

/// Networks of the step `sim`: a third of a minute of one core.
const NETWORKS: u64 = 500;
/// Days after which it comes to the same networks again.
const DAYS: u64 = 4;

fn first_of_day() -> u64 {
    place::day() % DAYS * NETWORKS
}

/// The networks of this day, one of four quarters of the same 2,000, and those that ever failed (network 247 did): a minute
/// at most. As the unit tests are built: a build for speed takes longer than it saves. `cargo xtask long` has others, and more.
fn sim(context: &Context) -> Result<String> {
    context.run("sim build", cargo(&["build", "--workspace", "--bin", "simulate"]))?;
    let mut command = Command::new(capi::target().join("debug/simulate"));
    let first = first_of_day();
    command.args(["--known", "tests/sim-seeds.txt", "--time", "60"]);
    command.args(["--first", &first.to_string(), "--seeds", &NETWORKS.to_string()]);
    context.run("sim", command)?;
    let log = std::fs::read_to_string(place::logs().join("sim.log")).context("the log is gone")?;
    let networks = log.lines().last().and_then(|line| line.split_once(" networks")).map(|(count, _)| count);
    let networks = networks.context("the log does not say how many")?;
    Ok(format!("{networks} networks, seeds from {first}"))
}

fn doc(context: &Context) -> Result<String> {
    context.run("doc", cargo(&["test", "--workspace", "--doc"]))?;
    let mut links = cargo(&["doc", "--workspace", "--lib", "--no-deps"]);
    links.env("RUSTDOCFLAGS", "-D warnings");
    context.run("doc links", links)?;
    Ok(String::new())
}

fn tsan(context: &Context) -> Result<String> {
    let command = cargo(&["test", "--workspace", "--test", "tsan", "--", "--ignored"]);
    context.run("tsan", command)?;
    Ok(String::new())
}

pub fn asan(context: &Context) -> Result<String> {
    let target = host_triple()?;
    let mut command =
        cargo(&["test", "--lib", "--tests", "--target", &target, "--target-dir", "target/asan"]);
    for name in UNSAFE_CRATES {
        command.args(["--package", name]);
    }
    let of_kernels = |arguments: &[&str]| {
        let mut command = cargo(&["test", "--package", "ggas-kernels"]);
        command.args(["--target", &target, "--target-dir", "target/asan"]).args(arguments);
        command
    };
    // Not all of its tests.
    let executor = of_kernels(&["--test", "kernels", "--", "executor::"]);
    for command in [command, of_kernels(&["--lib"]), executor] {
        run_asan(context, command)?;
    }
    Ok(format!("{} crates", UNSAFE_CRATES.len() + 1))
}

fn run_asan(context: &Context, mut command: Command) -> Result<()> {
    // The sanitizer is a compiler option that stable has but guards; the code stays on stable.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    command.env("NVCC", "none"); // no GPU code is run here, and compiling it takes a while
    context.run("asan", command)?;
    Ok(())
}

fn host_triple() -> Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let text = ask(rustc, &["-vV"]).context("rustc -vV does not run")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_string())
}

/// `.ci/run` runs it as people do, too, built for speed.
fn run_demo(context: &Context) -> Result<String> {
    context.run("demo build", cargo(&["build", "--workspace", "--bin", "ggas"]))?;
    let mut demo = Command::new(capi::target().join("debug/ggas"));
    demo.arg("demo");
    context.run("demo", demo)?;
    say!("{}", std::fs::read_to_string(place::logs().join("demo.log")).unwrap_or_default());
    Ok(String::new())
}
