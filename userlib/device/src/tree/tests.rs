use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use extoll_abi::regs::*;
use extoll_sim::torus::Direction;

use super::*;
use crate::sim::SimNetwork;

const LINK: &str = "extoll_rf_nw_lp_top_rf_lp0_status";

fn tree_of(network: &SimNetwork, node: usize) -> Vec<File> {
    render(&*network.device(node).unwrap()).unwrap()
}

fn text<'a>(files: &'a [File], name: &str) -> &'a str {
    &files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no file {name}")).text
}

/// As old clients look: the line that they grep, and the character before the last semicolon (spec 9.5).
fn says_ready(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| line.contains("ready"));
    let line = lines.next().expect("a line to grep");
    assert!(lines.next().is_none(), "more than one line to grep: {text}");
    line[..line.rfind(';').expect("a semicolon")].ends_with('1')
}

#[test]
fn a_register_is_the_bytes_that_old_clients_parse() {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let files = tree_of(&network, 1);
    let ready =
        "enable [0:0] : 1;\nready [1:1] : 1;\nretransmit [5:2] : 0;\ninit [6:6] : 0;\nerrors [11:7] : 0;\n";
    assert_eq!(text(&files, LINK), ready);
    assert_eq!(text(&files, &format!("{LINK}_raw")), "3\n");
    assert_eq!(text(&files, "extoll_rf_nw_lp_top_rf_lp6_status_raw"), "0\n");
    let node = "\nnode_id [39:24] : 1;\nvpids [55:40] : 100;\n";
    assert!(text(&files, "extoll_rf_info_rf_node").ends_with(node));
    // Hex without anything in front of it; elements by their number.
    assert_eq!(text(&files, "extoll_rf_rma_rf_lock_cfg_raw"), "8000000010\n");
    let pad = text(&files, "extoll_rf_info_rf_scratchpad");
    assert!(pad.contains("3 [63:0] : 1;\n") && pad.lines().count() == 8, "{pad}");
}

#[test]
fn links_of_the_torus_are_ready_and_others_are_not() {
    let network = SimNetwork::builder().nodes(6).torus(3, 2, 1).build().unwrap();
    let torus = *network.torus().unwrap().torus();
    for node in 0..6u16 {
        let files = tree_of(&network, node.into());
        for link in 0..7 {
            let other = Direction::from_index(link).and_then(|direction| torus.neighbour(node, direction));
            let file = text(&files, &format!("extoll_rf_nw_lp_top_rf_lp{link}_status"));
            assert_eq!(says_ready(file), other.is_some(), "link {link} of node {node}: {file}");
        }
    }
}

#[test]
fn arrays_have_pages_of_128_elements_as_sysfs_gives_them_out() {
    for register in REGISTERS {
        let count = match register.place {
            Place::Array { count, .. } => count,
            _ => 1,
        };
        let reading = register.reading("x".into(), vec![u64::MAX; count], count > 1);
        let files = reading.files();
        assert_eq!(files.len(), 2 * count.div_ceil(128), "{}", register.name);
        for file in &files {
            // The old driver's files were pages of 4,096 bytes.
            assert!(file.text.len() <= 4096, "{} has {} bytes", register.name, file.text.len());
        }
    }
    let values: Vec<u64> = (0..256).map(|i| 0xabc0 + i).collect();
    let reading = Reading { name: "vpids".into(), values, is_array: true, fields: &[] };
    let files = reading.files();
    let names: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let wanted = ["p0", "p0_raw", "p1", "p1_raw"].map(|end| format!("extoll_rf_vpids_{end}"));
    assert_eq!(names, wanted.iter().map(String::as_str).collect());
    let last = text(&files, "extoll_rf_vpids_p1");
    assert!(last.starts_with("128 [63:0] : ac40;\n129 [63:0] : ac41;\n"), "{last}");
    assert!(last.ends_with("255 [63:0] : acbf;\n"), "{last}");
    assert!(text(&files, "extoll_rf_vpids_p0_raw").ends_with("ac3e\nac3f\n"));
}

#[test]
fn the_table_makes_sense() {
    let mut names = HashSet::new();
    for register in REGISTERS {
        let (stride, count, numbered) = match register.place {
            Place::Alone => (0, 1, false),
            Place::Array { stride, count } => (stride, count, false),
            Place::Numbered { stride, count } => (stride, count, true),
        };
        assert!(names.insert(register.name), "{} twice", register.name);
        assert_eq!(register.name.contains("{}"), numbered, "{}", register.name);
        let mut next = 0;
        for bits in register.fields {
            assert!(
                next <= bits.low && bits.low <= bits.high && bits.high < 64,
                "{}: {bits:?}",
                register.name
            );
            next = bits.high + 1;
        }
        for offset in (0..count as u64).map(|i| register.offset + stride * i) {
            assert!(offset < EXTOLL_BAR0_PART_BYTES && offset % 8 == 0, "{}: {offset:#x}", register.name);
            assert!(!reading_changes_it(offset), "{}: {offset:#x} is not just read", register.name);
        }
    }
    assert_eq!(Bits { name: "", high: 63, low: 0 }.get(u64::MAX), u64::MAX);
    assert_eq!(Bits { name: "", high: 33, low: 32 }.get(0xa_1234_5678), 2);
}

/// Taken by reading, or written only (spec 4.1, 8.3).
fn reading_changes_it(offset: u64) -> bool {
    let vectors = EXTOLL_RF_RMA_INT_VEC..EXTOLL_RF_RMA_CONFIG;
    let histories = [EXTOLL_RF_RMA_REQ_HISTORY, EXTOLL_RF_RMA_RESP_HISTORY, EXTOLL_RF_RMA_COMPL_HISTORY];
    vectors.contains(&offset)
        || histories.iter().any(|first| (*first..*first + 16).contains(&offset))
        || [EXTOLL_RF_ATU_COMMAND, EXTOLL_RF_RMA_PERF_CONTROL].contains(&offset)
}

/// A place for a folder, cleared away at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ggas-tree-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file(name: &str, text: &str) -> File {
    File { name: name.into(), text: text.into() }
}

#[test]
fn a_tree_is_replaced_file_by_file_and_read_either_way() {
    let scratch = Scratch::new("replaced");
    let folder = scratch.join("tree");
    write(&[file(LINK, "before\n")], &folder).unwrap();
    let mut reader = fs::File::open(folder.join(LINK)).unwrap();
    write(&[file(LINK, "now\n"), file("extoll_rf_more", "1\n")], &folder).unwrap();
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "before\n", "whoever reads has a whole file");
    assert_eq!(fs::read_to_string(folder.join(LINK)).unwrap(), "now\n");
    assert_eq!(fs::read_to_string(folder.join("extoll_rf").join(LINK)).unwrap(), "now\n");
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["extoll_rf", "extoll_rf_more", LINK], "nothing else is left");
    assert!(fs::metadata(folder.join(LINK)).unwrap().permissions().readonly());
}

#[test]
fn whoever_reads_while_a_tree_is_written_finds_whole_files() {
    let scratch = Scratch::new("meanwhile");
    let folder = scratch.join("tree");
    let states = ["a", "b"].map(|letter| [file(LINK, &letter.repeat(4000))]);
    write(&states[0], &folder).unwrap();
    let reading = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while reading.load(Ordering::Relaxed) {
                let text = fs::read_to_string(folder.join(LINK)).unwrap();
                assert!(states.iter().any(|state| state[0].text == text), "{} bytes", text.len());
            }
        });
        for round in 0..1000 {
            write(&states[round % 2], &folder).unwrap();
        }
        reading.store(false, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn links_and_folders_of_others_stay_as_they_are() {
    let scratch = Scratch::new("refused");
    let tree = [file(LINK, "x\n")];
    let (real, link) = (scratch.join("real"), scratch.join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    for path in [link.clone(), scratch.join("link/"), scratch.join("link/.")] {
        assert!(matches!(write(&tree, &path), Err(TreeError::NoFolder { .. })), "{}", path.display());
    }
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0, "the link was followed");
    fs::write(scratch.join("plain"), "mine").unwrap();
    assert!(matches!(write(&tree, &scratch.join("plain")), Err(TreeError::NoFolder { .. })));
    assert!(matches!(write(&tree, &scratch.join("no/such")), Err(TreeError::Refused { .. })));

    let not_empty = |what: &str| match write(&tree, &real).unwrap_err() {
        TreeError::NotEmpty { entry, .. } => assert_eq!(entry, what),
        error => panic!("{error}"),
    };
    fs::write(real.join("thesis.tex"), "years of work").unwrap();
    not_empty("thesis.tex");
    assert!(!real.join(LINK).exists());
    fs::remove_file(real.join("thesis.tex")).unwrap();
    // Links under the names of files, and under the name of the one link that belongs there.
    fs::write(scratch.join("target"), "mine").unwrap();
    symlink(scratch.join("target"), real.join(LINK)).unwrap();
    not_empty(LINK);
    fs::remove_file(real.join(LINK)).unwrap();
    symlink("..", real.join("extoll_rf")).unwrap();
    not_empty("extoll_rf");
    assert_eq!(fs::read_to_string(scratch.join("target")).unwrap(), "mine");
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    let scratch = Scratch::new("owner");
    let folder = scratch.join("tree");
    fs::create_dir(&folder).unwrap();
    let given = nix::unistd::chown(&folder, Some(nix::unistd::Uid::from_raw(65_534)), None).is_ok();
    // Who may not give a folder away does not own this one.
    let folder = if given { folder } else { PathBuf::from("/proc") };
    let error = write(&[file(LINK, "x\n")], &folder).unwrap_err();
    assert!(matches!(error, TreeError::NotOurs { .. }), "{error}");
    assert!(!folder.join(LINK).exists());
}
