//! The golden vectors of `tests/golden`, checked by the Rust, C, C++ and CUDA encoders.

use extoll_abi::smfu::{Interval, Target, masked_target};
use extoll_abi::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// Arguments by name, as the comment above a group of vectors names them.
struct Arguments<'a>(BTreeMap<&'a str, u64>);

impl Arguments<'_> {
    fn get(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("vector has no argument {name}"))
    }

    fn u32(&self, name: &str) -> u32 {
        u32::try_from(self.get(name)).unwrap()
    }

    fn u16(&self, name: &str) -> u16 {
        u16::try_from(self.get(name)).unwrap()
    }

    fn u8(&self, name: &str) -> u8 {
        u8::try_from(self.get(name)).unwrap()
    }

    fn i32(&self, name: &str) -> i32 {
        self.u32(name) as i32
    }

    fn address(&self) -> Address {
        Address::new(self.u16("node"), self.u8("vpid"))
    }
}

#[test]
fn rust_agrees() {
    let text = std::fs::read_to_string(golden().join("vectors.txt")).unwrap();
    let mut names: Vec<&str> = Vec::new();
    let mut checked = 0;
    for (i, line) in text.lines().enumerate() {
        let Some((left, right)) = line.split_once(" =") else { continue };
        if let Some(header) = left.strip_prefix("# ") {
            names = header.split(' ').skip(1).collect();
            continue;
        }
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (op, values) = left.split_once(' ').unwrap_or((left, ""));
        let values: Vec<u64> = values.split_whitespace().map(number).collect();
        assert_eq!(values.len(), names.len(), "line {}: {line}", i + 1);
        let expected: Vec<u64> = right.split_whitespace().map(number).collect();
        let arguments = Arguments(names.iter().copied().zip(values).collect());
        let found = words(op, &arguments, &expected);
        assert_eq!(found, expected, "line {}: {line}\nfound {found:x?}", i + 1);
        checked += 1;
    }
    assert!(checked > 400, "only {checked} vectors");
}

/// Registers and error counters. Rust's constants are the C headers' (`ggas-facts --check`).
#[test]
fn constants_agree() {
    let bindings = include_str!("../../src/bindings.rs");
    let text = std::fs::read_to_string(golden().join("constants.txt")).unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let mut counters = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["constant", name, value] => {
                let declared = format!("pub const {name}: u64 = {};", number(value));
                assert!(bindings.contains(&declared), "{line}: the header says otherwise");
            }
            ["error", unit, name, register, shift] => {
                let full = format!("{unit} {name}");
                let found = regs::ERROR_COUNTERS.iter().find(|counter| counter.name == full);
                let place = found.map(|counter| (counter.register, counter.shift as u64));
                assert_eq!(place, Some((number(register), number(shift))), "{line}");
                counters += 1;
            }
            _ => panic!("cannot read {line}"),
        }
    }
    assert_eq!(counters, regs::ERROR_COUNTERS.len());
}

/// The words that Rust makes. What can be decoded is also decoded from the expected words.
fn words(op: &str, a: &Arguments, expected: &[u64]) -> Vec<u64> {
    if let Some(request) = request(op, a) {
        return descriptor(&request, a, expected);
    }
    if let Some(body) = body(op, a) {
        return notification(&body, a, expected);
    }
    if let Some(name) = op.strip_prefix("rf_") {
        return vec![register(name, a.u32("index"))];
    }
    match op {
        "wcb" => wcb(WcbState(a.get("state"))),
        "vpid_entry" => vec![regs::vpid_entry(a.u16("protection"))],
        "lock_config" => vec![regs::lock_config(a.u32("locks"), a.u32("vpids"))],
        "trigger_where" => vec![regs::trigger_where(a.u32("local"), a.u32("remote"))],
        "trigger_what" => {
            let target = (a.get("target") != 0).then(|| (a.u16("node"), a.u8("vpid")));
            vec![regs::trigger_what(a.u32("size"), target)]
        }
        "smfu_control" => vec![Interval::new(a.u16("node"), 0, 4096).control],
        "smfu_interval" => {
            let interval = Interval { control: a.get("control"), start: a.get("start"), end: a.get("end") };
            match interval.target(a.get("address")) {
                Some(Target { node, offset }) => vec![1, node as u64, offset],
                None => vec![0, 0, 0],
            }
        }
        "smfu_masked" => {
            let target =
                masked_target(a.get("window"), a.get("mask"), a.u16("node_offset"), a.get("address"));
            vec![target.node as u64, target.offset]
        }
        "velo_size" => {
            let slot = if a.get("slot_bytes") == 64 { SlotSize::B64 } else { SlotSize::B128 };
            let length = a.u8("length");
            let header = VeloHeader { length, ..VeloHeader::default() }.encode().unwrap();
            let quadwords = VeloHeader::line_words(header) as u64 - 1;
            vec![quadwords, velo_slots(slot, usize::from(length)).into()]
        }
        _ => vec![single(op, a, expected[0])],
    }
}

fn request(op: &str, a: &Arguments) -> Option<Request> {
    let sized = || (op.starts_with("qw"), a.get("read"), a.get("write"), a.u32("size"));
    Some(match op {
        "bt_get" | "qw_get" => {
            let (qw, read, write, size) = sized();
            Request::Get { qw, read, write, size }
        }
        "bt_put" | "qw_put" => {
            let (qw, read, write, size) = sized();
            Request::Put { qw, read, write, size }
        }
        "notification_put" => Request::NotificationPut { class: a.u8("class"), payload: a.get("payload") },
        "immediate_put" => {
            Request::ImmediatePut { count: a.u8("count"), write: a.get("write"), value: a.get("value") }
        }
        "lock" => Request::Lock {
            to_responder: a.get("to_responder") == 1,
            number: a.u32("number"),
            compare: a.i32("compare"),
            add: a.i32("add"),
        },
        _ => return None,
    })
}

fn descriptor(request: &Request, a: &Arguments, expected: &[u64]) -> Vec<u64> {
    let spec = Spec::from_bits(a.u8("spec")).unwrap();
    let modifier = Modifier::from_bits(a.u8("modifier")).unwrap();
    let literal = Descriptor { word: expected.try_into().unwrap() };
    let (header, decoded) = literal.decode().unwrap();
    assert_eq!((header.dst, header.spec, header.modifier), (a.address(), spec, modifier));
    assert_eq!(decoded, *request);
    assert_eq!(literal.reserved_bits(), [0; 3]);
    Descriptor::encode(a.address(), spec, modifier, request).unwrap().word.to_vec()
}

fn body(op: &str, a: &Arguments) -> Option<Body> {
    Some(match op {
        "noti_transfer" => Body::Transfer { size: a.u32("size"), address: a.get("address") },
        "noti_class" => Body::Class { class: a.u8("class"), payload: a.get("payload") },
        "noti_immediate" => Body::Immediate { count: a.u8("count"), value: a.get("value") },
        "noti_lock" => Body::Lock { number: a.u32("number"), result: a.u8("result"), value: a.i32("value") },
        "noti_unknown" => Body::Unknown { field: a.u32("field"), word0: a.get("word0") },
        _ => return None,
    })
}

fn notification(body: &Body, a: &Arguments, expected: &[u64]) -> Vec<u64> {
    let header = NotificationHeader {
        kind: Kind::from_bits(a.u8("kind")).unwrap(),
        command: CommandCode::new(a.u8("command")).unwrap(),
        remote: a.address(),
        mode: Mode::from_bits(a.u8("mode")).unwrap(),
        error: ErrorUnits::from_bits(a.u8("error")).unwrap(),
    };
    let literal = Notification { word0: expected[0], word1: expected[1] };
    assert_eq!(literal.decode().unwrap(), (header, *body));
    let found = Notification::encode(&header, body).unwrap();
    vec![found.word0, found.word1]
}

fn wcb(state: WcbState) -> Vec<u64> {
    vec![
        state.committed() as u64,
        state.retry() as u64,
        state.idle() as u64,
        state.rejected() as u64,
        state.acknowledged().0,
    ]
}

fn register(name: &str, i: u32) -> u64 {
    match name {
        "wcb_state" => regs::wcb_state(i as u8),
        "bq_ub" => regs::bq_ub(i as u8),
        "bq_table" => regs::bq_table(i as u8),
        "bq_current" => regs::bq_current(i as u8),
        "bq_next" => regs::bq_next(i as u8),
        "bq_wp" => regs::bq_wp(i as u8),
        "bq_rp" => regs::bq_rp(i as u8),
        "vpid_table" => regs::vpid_table(i as u8),
        "gat" => regs::gat(i),
        "int_vec" => regs::int_vec(i),
        "scratchpad" => regs::scratchpad(i),
        "link_status" => regs::link_status(i),
        "link_ids" => regs::link_ids(i),
        "smfu_control" => regs::smfu_control(i),
        "smfu_start" => regs::smfu_start(i),
        "smfu_end" => regs::smfu_end(i),
        "smfu_count" => regs::smfu_count(i),
        "smfu_target_base" => regs::smfu_target_base(i),
        "velo_wcb_state" => regs::velo_wcb_state(i as u8),
        "velo_bq_ub" => regs::velo_bq_ub(i as u8),
        "velo_bq_table" => regs::velo_bq_table(i as u8),
        "velo_bq_current" => regs::velo_bq_current(i as u8),
        "velo_bq_next" => regs::velo_bq_next(i as u8),
        "velo_bq_wp" => regs::velo_bq_wp(i as u8),
        "velo_bq_rp" => regs::velo_bq_rp(i as u8),
        "velo_tx" => regs::velo_tx(i as u8),
        "velo_rx" => regs::velo_rx(i as u8),
        _ => panic!("no register {name}"),
    }
}

/// Operations that make one word.
fn single(op: &str, a: &Arguments, expected: u64) -> u64 {
    let command = |command: AtuCommand| {
        assert_eq!(AtuCommand::decode(expected).unwrap(), command);
        command.encode().unwrap()
    };
    match op {
        "page" => {
            let option = PageOption::new(a.u8("option")).unwrap();
            assert_eq!(PageOption::from_offset(expected | 16), (option, a.u8("vpid"), 16));
            option.page_offset(a.u8("vpid"))
        }
        "velo_page" => {
            assert_eq!(velo_page_at(expected | 120), (a.u8("tc"), a.u8("vpid"), 120));
            velo_page(a.u8("tc"), a.u8("vpid"))
        }
        "velo_header" => {
            let header = VeloHeader {
                destination: a.address(),
                multicast: a.get("group") == 1,
                mtt: a.u8("mtt"),
                interrupt: a.get("interrupt") == 1,
                tag: a.u8("tag"),
                length: a.u8("length"),
            };
            assert_eq!(VeloHeader::decode(expected), Ok(header));
            header.encode().unwrap()
        }
        "velo_status" => {
            let (status, end, error) = (VeloStatus(expected), a.get("end") == 1, a.get("error") == 1);
            assert_eq!((status.source(), status.mtt()), (a.address(), a.u8("mtt")));
            assert_eq!((status.is_end(), status.is_error()), (end, error));
            assert_eq!((status.tag(), status.length()), (a.u8("tag"), a.get("length") as usize));
            let status = VeloStatus::new(a.address(), a.u8("mtt"), a.u8("tag"), a.u8("length"));
            status.with_end(end).with_error(error).0
        }
        "velo_tx" => regs::velo_tx_value(a.u16("node"), a.u8("vpid"), a.u16("protection")),
        "velo_rx" => regs::velo_rx_value(a.u16("protection")),
        "nla" => {
            let nla = Nla::from_raw(expected).unwrap();
            assert_eq!(
                (nla.table(), nla.entry(), nla.offset()),
                (a.u32("table"), a.u32("entry"), a.u32("offset"))
            );
            Nla::new(a.u32("table"), a.u32("entry"), a.u32("offset")).unwrap().raw()
        }
        "gat" => {
            assert_eq!(GatRegister(expected).table(), Some(a.get("address")));
            GatRegister::new(a.get("address")).unwrap().0
        }
        "gate" => {
            let access = Access::from_bits(a.u8("access")).unwrap();
            let size = PageSize::from_code(a.u8("size")).unwrap();
            let gate = Gate(expected);
            assert_eq!(
                (gate.vpid(), gate.access(), gate.address()),
                (a.u16("vpid"), access, a.get("address"))
            );
            assert_eq!(gate.page_size(), Ok(size));
            Gate::new(a.u8("vpid"), access, a.get("address"), size).unwrap().0
        }
        "atu_flush_pages" => command(AtuCommand::FlushPages { page: a.u32("page"), count: a.u32("count") }),
        "atu_flush_vpid" => command(AtuCommand::FlushVpid(a.u16("vpid"))),
        "atu_fence" => command(AtuCommand::Fence),
        "atu_notify" => command(AtuCommand::Notify(a.get("address"))),
        "bq_segment" => {
            let slot =
                [SlotSize::B16, SlotSize::B32, SlotSize::B64, SlotSize::B128][a.get("slot_size") as usize];
            let segment = BqSegment(expected);
            assert_eq!((segment.slot_size(), segment.slots()), (slot, a.u32("slots")));
            assert_eq!((segment.address(), segment.is_valid()), (a.get("address"), a.get("valid") == 1));
            BqSegment::new(slot, a.u32("slots"), a.get("address")).unwrap().with_valid(a.get("valid") == 1).0
        }
        "bq_table" => {
            let table = BqTable(expected);
            assert_eq!((table.address(), table.segments()), (a.get("address"), a.u32("segments")));
            BqTable::new(a.get("address"), a.u32("segments")).unwrap().0
        }
        "bq_rp" => {
            let rp = BqReadPointer(expected);
            assert_eq!((rp.index(), rp.rearms()), (a.u32("index"), a.get("rearm") == 1));
            BqReadPointer::new(a.u32("index"), a.get("rearm") == 1).0
        }
        _ => panic!("no operation {op}"),
    }
}

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Compiles `check.c` with these arguments and lets it check the vectors.
fn check_with(compiler: &mut Process, arguments: &[&str], name: &str) {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let include = golden().join("../../kmod/uapi");
    let compiled =
        compiler.args(arguments).arg("-I").arg(include).arg(golden().join("check.c")).arg("-o").arg(&program);
    expect_success(compiled.output().unwrap_or_else(|e| panic!("cannot run {compiler:?}: {e}")), name);
    let output = Process::new(&program).arg(golden().join("vectors.txt")).output().unwrap();
    print!("{name}: {}", String::from_utf8_lossy(&output.stdout));
    expect_success(output, name);
}

fn expect_success(output: Output, name: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
}

/// The compiler that builds use: `CC` or `CXX`, else the system's.
fn compiler(cpp: bool) -> Process {
    let host =
        if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
    cc::Build::new()
        .cpp(cpp)
        .target(host)
        .host(host)
        .opt_level(1)
        .cargo_metadata(false)
        .get_compiler()
        .to_command()
}

#[test]
fn c_agrees() {
    check_with(&mut compiler(false), &[&STRICT[..], &["-std=c11"]].concat(), "golden-c");
}

#[test]
fn cpp_agrees() {
    check_with(&mut compiler(true), &[&STRICT[..], &["-std=c++17", "-x", "c++"]].concat(), "golden-cpp");
}

#[test]
fn clang_agrees() {
    if Process::new("clang").arg("--version").output().is_err() {
        println!("skipped: no clang");
        return;
    }
    check_with(&mut Process::new("clang"), &[&STRICT[..], &["-std=c11"]].concat(), "golden-clang");
}

/// `NVCC`, the one in `build/cuda`, or the search path's.
fn nvcc() -> Option<PathBuf> {
    let wheel = golden().join("../../build/cuda/nvidia/cu13/bin/nvcc");
    let candidates = [std::env::var_os("NVCC").map(PathBuf::from), Some(wheel), Some("nvcc".into())];
    candidates
        .into_iter()
        .flatten()
        .find(|path| Process::new(path).arg("--version").output().is_ok_and(|output| output.status.success()))
}

#[test]
fn cuda_agrees() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: no nvcc; `cargo xtask setup` fetches one, or set NVCC");
        return;
    };
    // The wheels' libraries lie where nvcc does not look.
    let libraries = nvcc.ancestors().nth(2).unwrap_or(Path::new("/")).join("lib");
    let search = format!("-L{}", libraries.display());
    let arguments = ["-std=c++17", "-x", "cu", "-Werror", "all-warnings", &search];
    check_with(&mut Process::new(&nvcc), &arguments, "golden-cuda");
}
