//! Parameter files: those that there are, and what is said of wrong ones.

use std::path::Path;

use extoll_sim::timed::{System, Timed, TimedError};
use extoll_sim::torus::Torus;

fn text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems").join(format!("{name}.toml"));
    std::fs::read_to_string(file).expect("a file")
}

/// What is said of a system's file in which `from` is `to`.
fn told(from: &str, to: &str) -> String {
    let text = text("gpu-tn");
    assert!(text.contains(from), "{from}");
    System::parse(&text.replacen(from, to, 1), "my.toml").expect_err("an error").to_string()
}

#[test]
fn every_file_is_a_system_that_is_always_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("a folder")
        .filter_map(|file| Some(file.ok()?.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    assert_eq!(names, System::NAMES);
    for name in System::NAMES {
        let system = System::named(name).expect("a system");
        assert_eq!(System::load(&folder.join(format!("{name}.toml"))).expect("the same"), system);
        assert_eq!(Timed::new(&system, 2, 1).expect("two nodes").system(), &system);
    }
}

/// A cost without a source is a guess.
#[test]
fn every_entry_names_its_source() {
    for name in System::NAMES {
        let text = text(name);
        for table in text.split("\n[").skip(1) {
            let said_for_all = table.lines().nth(1).is_some_and(|line| line.starts_with('#'));
            for line in table.lines().filter(|line| line.contains(" = ")) {
                assert!(said_for_all || line.contains('#'), "{name}: {line}");
            }
        }
    }
}

#[test]
fn wrong_entries_are_named_with_what_is_allowed() {
    for (from, to, says) in [
        ("link_ns = 100", "link_ns = -1", ["network.link_ns = -1", "not negative"]),
        ("link_ns = 100", "link_ns = nan", ["network.link_ns = NaN", "not negative"]),
        ("link_ns = 100", "link_ns = inf", ["network.link_ns = inf", "not negative"]),
        ("link_bytes_per_ns = 12.5", "link_bytes_per_ns = 0", ["network.link_bytes_per_ns = 0", "above 0"]),
        ("poll_ns = 10 ", "poll_ns = 0 ", ["host.poll_ns = 0", "above 0"]),
        ("sms = 24", "sms = 0", ["gpu.sms = 0", "above 0"]),
        ("packet_bytes = 4096", "packet_bytes = 0", ["network.packet_bytes = 0", "above 0"]),
        ("sms = 24", "sms = -3", ["line ", "sms = -3"]),
        ("link_ns = 100", "link_ns = \"100\"", ["line ", "link_ns = \"100\""]),
        ("link_ns = 100", "", ["line ", "missing field `link_ns`"]),
        ("link_ns = 100", "link_ns = 100\nlink_us = 1", ["link_us", "unknown field `link_us`"]),
        ("link_ns = 100", "link_ns = 100\nlink_ns = 100", ["line ", "duplicate key"]),
        ("topology = \"star\"", "topology = \"ring\"", ["ring", "`torus`, `star`, `direct`"]),
        ("[gpu]", "[cpu]", ["cpu", "unknown field `cpu`"]),
        ("[gpu]", "[gpu", ["line ", "gpu"]),
    ] {
        let told = told(from, to);
        assert!(told.starts_with("my.toml: "), "{told}");
        says.iter().for_each(|says| assert!(told.contains(says), "{to:?}: no {says:?} in {told}"));
    }
}

#[test]
fn what_is_not_there_is_said() {
    let told = System::named("gpu").expect_err("an error").to_string();
    System::NAMES.iter().for_each(|name| assert!(told.contains(name), "{told}"));
    let told = System::load(Path::new("no-such-folder/x.toml")).expect_err("an error").to_string();
    assert!(told.contains("no-such-folder/x.toml"), "{told}");
}

#[test]
fn systems_that_cannot_be_are_refused() {
    let system = System::named("gpu-tn").expect("a system");
    for nodes in [0, 65_537] {
        assert!(matches!(Timed::new(&system, nodes, 1), Err(TimedError::Nodes { .. })), "{nodes}");
    }
    let torus = System::named("extoll-fpga").expect("a system");
    assert!(matches!(Timed::new(&torus, 0, 1), Err(TimedError::Torus(_))));
    let mut wrong = system;
    wrong.gpu.launch_ns = f64::NAN;
    let two = Torus::new(2, 1, 1).expect("a torus");
    for error in [Timed::new(&wrong, 2, 1).map(|_| ()), Timed::on_torus(&wrong, two, 1).map(|_| ())] {
        assert!(error.expect_err("an error").to_string().contains("GPU-TN, Table 2: gpu.launch_ns = NaN"));
    }
}
