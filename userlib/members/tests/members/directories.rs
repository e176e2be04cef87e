//! What lies where networks should be: directories of others, files and links in their place, tables that are none. Each
//! is refused with what to do, and nobody else's network is touched.

use std::fs::{OpenOptions, Permissions, create_dir, read, set_permissions, write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use crate::common::{Dir, Shell, ended, until};

/// A process whose networks would be there.
fn at(dir: &Dir, path: &Path) -> Shell {
    let mut command = dir.command("");
    command.env("GGAS_RUNTIME_DIR", path);
    Shell::start(command)
}

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
}

#[test]
fn directories_that_are_not_ones_own() {
    let dir = Dir::new("base");
    let inner = dir.path().join("inner");
    create_dir(&inner).expect("a directory");
    for (bits, said) in [(0o755, "0755"), (0o770, "0770"), (0o701, "0701"), (0o1777, "1777")] {
        mode(&inner, bits);
        let said = format!("others may enter it (mode {said}); chmod 700 it");
        for command in ["enter", "nets", "up=lab"] {
            at(&dir, &inner).is_refused(command, &[&said, "GGAS_RUNTIME_DIR"]);
        }
    }
    mode(&inner, 0o700);
    let link = dir.path().join("link");
    symlink(&inner, &link).expect("a link");
    at(&dir, &link).is_refused("enter", &["it is a symbolic link, or no directory; remove it"]);
    let file = dir.path().join("file");
    write(&file, "mine").expect("a file");
    at(&dir, &file).is_refused("enter", &["it cannot be made", "GGAS_RUNTIME_DIR"]);
    at(&dir, &file.join("below")).is_refused("enter", &["it cannot be made"]);
    at(&dir, Path::new("/proc/nobody")).is_refused("enter", &["it cannot be made"]);
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&inner, Some(12345), None).expect("root may");
        at(&dir, &inner).is_refused("enter", &["it belongs to user 12345, this process runs as 0"]);
        std::os::unix::fs::chown(&inner, Some(0), None).expect("root may");
    }
    assert_eq!(
        (std::fs::read_dir(&inner).expect("it is there").count(), read(&file).expect("a file")),
        (0, b"mine".into())
    );
    // One that is not there is made, for this user alone.
    let new = dir.path().join("some/where/new");
    let mut one = at(&dir, &new);
    one.does("enter");
    assert_eq!(std::fs::metadata(&new).expect("it was made").permissions().mode() & 0o7777, 0o700);
}

#[test]
fn files_of_a_network_are_private() {
    let dir = Dir::new("modes");
    let mut one = dir.shell("");
    one.does("enter");
    one.does("node-memory=3,4096");
    one.does("publish=card,10");
    let bits =
        |path: &Path| std::fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777;
    let network = dir.path().join("default");
    assert_eq!(bits(&network), 0o700);
    assert_eq!(dir.files("default"), ["members", "node.3", "said.0.key.card", "socket.0"]);
    for file in dir.files("default") {
        assert_eq!(bits(&network.join(&file)), 0o600, "{file}");
    }
}

#[test]
fn a_network_whose_place_is_taken() {
    let dir = Dir::new("taken");
    write(dir.path().join("file"), "mine").expect("a file");
    symlink(dir.path(), dir.path().join("link")).expect("a link");
    symlink("/nowhere", dir.path().join("dangling")).expect("a link");
    create_dir(dir.path().join("open")).expect("a directory");
    mode(&dir.path().join("open"), 0o755);
    let mut one = dir.shell("");
    one.does("enter-as=lab,2x2x2,0");
    for name in ["file", "link", "dangling"] {
        let words = ["it is no directory of a network; remove what is there, or choose another name"];
        one.is_refused(&format!("enter-as={name},2x2x2,0"), &words);
        one.is_refused(&format!("up={name}"), &words);
        one.is_refused(&format!("down={name}"), &words);
    }
    one.is_refused("enter-as=open,2x2x2,0", &["others may enter it (mode 0755)"]);
    assert_eq!(one.ask("nets"), "lab (torus 2x2x2) 1");
    assert_eq!(read(dir.path().join("file")).expect("a file"), b"mine");
    assert_eq!(std::fs::read_link(dir.path().join("link")).expect("a link"), dir.path());
}

/// Whatever directory somebody names as the one of networks: nothing in it is lost.
#[test]
fn what_others_keep_is_left_alone() {
    let dir = Dir::new("home");
    let thesis = dir.path().join("thesis");
    create_dir(&thesis).expect("a directory");
    mode(&thesis, 0o700);
    for file in ["chapter.1", "members.tex", "node.js", "said"] {
        write(thesis.join(file), "years").expect("a file");
    }
    create_dir(thesis.join("node.1")).expect("a directory");
    write(dir.path().join("letter"), "dear").expect("a file");
    let all = dir.files("thesis");
    let mut one = dir.shell("");
    assert_eq!(one.ask("nets"), "");
    one.does("enter");
    one.does("leave");
    assert_eq!((dir.files("thesis"), dir.files("")), (all.clone(), vec!["letter".into(), "thesis".into()]));
    // Even as a network: its own files come and go.
    one.does("enter-as=thesis,2x2x2,0");
    assert_eq!(dir.files("thesis").len(), all.len() + 2);
    one.does("leave");
    assert_eq!(dir.files("thesis"), all);
    one.does("enter-as=thesis,2x2x2,0");
    one.kill();
    let mut two = dir.shell("");
    assert_eq!(two.ask("nets"), "");
    assert_eq!(dir.files("thesis"), all);
}

/// A table of a network that stands, to be spoilt.
fn table(dir: &Dir) -> std::fs::File {
    dir.shell("").ask("up=lab");
    OpenOptions::new().write(true).read(true).open(dir.path().join("lab/members")).expect("a table")
}

#[test]
fn tables_of_another_version() {
    let dir = Dir::new("version");
    let mut one = dir.shell("");
    let members = dir.path().join("lab/members");
    let good = {
        table(&dir);
        read(&members).expect("a table")
    };
    let refused = |one: &mut Shell, said: &str| {
        let path = dir.path().join("lab").display().to_string();
        let words = [
            "network lab was made by another version of ggas",
            said,
            "or is damaged",
            "build ggas and the programs from the same version",
            "remove",
            &path,
            "for this version with GGAS_NETWORK",
        ];
        one.is_refused("enter-as=lab,2x2x2,0", &words);
        one.is_refused("up=lab", &words);
        one.is_refused("down=lab", &words);
        assert_eq!(one.ask("nets"), "lab (?) 0 stands");
    };
    // The version lies behind the first word.
    let mut other = good.clone();
    other[8..12].copy_from_slice(&4u32.to_le_bytes());
    write(&members, &other).expect("a table");
    refused(&mut one, "networks of version 4, networks of version 9 here");
    for len in [0, 1, 100, 4096, good.len() - 1, good.len() + 1, good.len() + 4096, 1 << 20] {
        write(&members, &good).expect("a table");
        OpenOptions::new()
            .write(true)
            .open(&members)
            .and_then(|file| file.set_len(len as u64))
            .expect("its size");
        refused(&mut one, "another version");
    }
    // Shapes that cannot be: nodes, members, job, words.
    for (at, value) in [(16, 0u32), (16, 65536), (12, 0), (12, 100), (28, 5000), (40, 4000)] {
        let mut other = good.clone();
        other[at..at + 4].copy_from_slice(&value.to_le_bytes());
        write(&members, &other).expect("a table");
        refused(&mut one, "networks of version 9, networks of version 9 here");
    }
    write(&members, &good).expect("a table");
    one.does("enter-as=lab,2x2x2,0");
    // What is no file at all.
    for kind in ["directory", "link", "pipe"] {
        let name = format!("squat-{kind}");
        let network = dir.path().join(&name);
        create_dir(&network).expect("a directory");
        mode(&network, 0o700);
        match kind {
            "directory" => create_dir(network.join("members")).expect("a directory"),
            "link" => symlink(&members, network.join("members")).expect("a link"),
            _ => {
                nix::unistd::mkfifo(&network.join("members"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe")
            }
        }
        let command = format!("enter-as={name},2x2x2,0");
        one.is_refused(&command, &[&name, "GGAS_NETWORK"]);
        assert!(network.join("members").symlink_metadata().is_ok(), "{kind} is gone");
    }
}

#[test]
fn what_others_keep_in_a_network_is_told_of_when_it_goes() {
    let dir = Dir::new("kept");
    let mut one = dir.shell("");
    one.ask("up=lab");
    let lab = dir.path().join("lab");
    create_dir(lab.join("socket.0")).expect("a directory");
    one.is_refused("down=lab", &["the network is gone", "remove it", &lab.display().to_string()]);
    assert!(lab.join("socket.0").is_dir() && !lab.join("members").exists());
    std::fs::remove_dir_all(&lab).expect("by hand");
    one.ask("up=lab");
    one.ask("down=lab");
    assert!(!lab.exists());
}

#[test]
fn errors_name_the_file_at_fault() {
    let dir = Dir::new("whole");
    let mut one = dir.shell("NETWORK=lab");
    one.ask("enter");
    create_dir(dir.path().join("lab/whole")).expect("a directory");
    one.is_refused("whole=lab", &["lab/whole"]);
}

/// Random bytes anywhere in a table: whoever joins, looks or leaves does not crash, and does so in bounded time.
#[test]
fn scribbled_tables() {
    let dir = Dir::new("scribbled");
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let name = format!("round {round} of seed {seed}");
        let mut inside = dir.shell("NETWORK=lab JOIN_TIMEOUT=5");
        let file = table(&dir);
        inside.ask("enter");
        let len = file.metadata().expect("a file").len();
        for _ in 0..random.usize(1..200) {
            let mut bytes = [0; 64];
            random.fill(&mut bytes);
            // The header as a whole in some rounds, else behind what is refused at once.
            let from = if round % 4 == 0 { 0 } else { 128 };
            let at = random.u64(from..len - 64);
            file.write_all_at(&bytes[..random.usize(1..64)], at).expect("it is written");
        }
        let mut other = dir.shell("NETWORK=lab JOIN_TIMEOUT=5");
        for command in ["enter", "list", "state=3", "word=5,hello", "nets", "leave", "down=lab"] {
            other.ask(command);
        }
        for command in ["list", "word=1,hello", "word=9,hello", "lose=4", "leave"] {
            inside.ask(command);
        }
        assert!(inside.end().success() && other.end().success(), "{name}");
        std::fs::remove_dir_all(dir.path().join("lab"))
            .or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .expect("by hand");
    }
}

/// Ranks that wait in a table that is scribbled over end by their time-out at the latest.
#[test]
fn scribbled_jobs() {
    let dir = Dir::new("scribbled-job");
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..10 {
        let mut ranks: Vec<Shell> =
            (0..3).map(|rank| dir.shell(&format!("RANK={rank} SIZE=3 JOB=trio JOIN_TIMEOUT=1"))).collect();
        ranks.iter_mut().for_each(|it| it.begin("join"));
        let joined = ranks.iter_mut().filter_map(|it| it.answer().is_empty().then_some(())).count();
        let members = dir.path().join("job-trio/members");
        if let Ok(file) = OpenOptions::new().write(true).open(members) {
            for _ in 0..40 {
                let mut bytes = [0; 16];
                random.fill(&mut bytes);
                file.write_all_at(&bytes, random.u64(4096..4096 + 3 * 128 - 16)).expect("it is written");
            }
        }
        for command in ["try-barrier=200", "try-exchange=10", "leave"] {
            if command.starts_with("try-ex") && joined < 3 {
                continue;
            }
            ranks.iter_mut().for_each(|it| it.begin(&command.replace("try-exchange=10", "try-barrier=100")));
            ranks.iter_mut().for_each(|it| drop(it.answer()));
        }
        ranks.into_iter().for_each(|it| assert!(it.end().success(), "round {round} of seed {seed}"));
        let _ = std::fs::remove_dir_all(dir.path().join("job-trio"));
    }
}

#[test]
fn a_socket_whose_place_is_taken() {
    let dir = Dir::new("socket");
    let mut one = dir.shell("NETWORK=lab");
    one.ask("up=lab");
    let place = dir.path().join("lab/socket.0");
    // A file, a link: as what a killed member left.
    write(&place, "squat").expect("a file");
    one.does("enter");
    one.does("leave");
    let mine = dir.path().join("lab/mine");
    write(&mine, "mine").expect("a file");
    symlink(&mine, &place).expect("a link");
    one.does("enter");
    one.does("leave");
    assert_eq!(read(&mine).expect("a file"), b"mine");
    create_dir(&place).expect("a directory");
    let path = place.display().to_string();
    one.is_refused("enter", &[&path, "no socket", "remove it"]);
    std::fs::remove_dir(&place).expect("by hand");
    one.does("enter");
}

/// Somebody who is stopped while it holds the lock of a network: others are told in bounded time, and go on elsewhere.
#[test]
fn a_stopped_process_in_the_way() {
    let dir = Dir::new("busy");
    let mut inside = dir.shell("NETWORK=lab");
    inside.does("enter");
    let mut holder = dir.shell("");
    assert_eq!(holder.ask("stop-locked=lab"), "locked");
    let mut other = dir.shell("NETWORK=lab JOIN_TIMEOUT=0.3");
    let path = dir.path().join("lab").display().to_string();
    let words = ["is held by a process that is stopped or stuck", &format!("fuser {path}")];
    other.is_refused("enter", &words);
    other.is_refused("down=lab", &words);
    // Neither lists nor other networks wait for it, nor do members who talk.
    assert_eq!(other.ask("nets"), "lab (torus 2x2x2) 1");
    other.does("enter-as=other,2x2x2,0");
    other.does("leave");
    // Who leaves does so, and what it leaves is cleared by the next who can.
    inside.does("leave");
    assert_eq!(other.ask("nets"), "lab (torus 2x2x2) 0");
    holder.signal(libc::SIGCONT);
    until("the lock to be free", || other.ask("nets").is_empty());
    dir.is_empty();
    // One that is killed holds nothing.
    inside.does("enter");
    let mut killed = dir.shell("");
    assert_eq!(killed.ask("stop-locked=lab"), "locked");
    killed.signal(libc::SIGKILL);
    until("its end", || ended(killed.pid()));
    other.does("enter");
}
