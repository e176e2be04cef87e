use std::fs;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("ggas-trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    /// A file without its line of the run.
    fn read(&self, number: usize) -> String {
        let text = fs::read_to_string(self.0.join(format!("run.{number}.prof"))).expect("written");
        text.split_inclusive('\n').filter(|line| !line.starts_with("# RUN\t")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_goes_one_after_the_other_is_in_one_file_that_is_whole_at_the_end() {
    let folder = Folder::new("one");
    let mut first = Trace::new(&folder.0.join("run"), 1, Some(3));
    let open = format!("# RANKS\t3\n# POINT TO POINT\n# NOT WHOLE\t{}\n", file::OPEN);
    assert_eq!(folder.read(1), open);
    let mut second = Trace::new(&folder.0.join("run"), 1, Some(3));
    first.add(0, [10, 1]);
    first.add(1, [5, 1]);
    second.add(0, [7, 2]);
    second.add_got(2, [100, 3]);
    // A process that a rank started is none.
    second.add(3, [1, 1]);
    drop(first);
    assert_eq!(folder.read(1), open, "the second one counts yet");
    drop(second);
    let text = "# RANKS\t3\n# POINT TO POINT\nE\t1\t0\t17 bytes\t3 msgs sent\n# OSC\nR\t1\t2\t100 bytes\t3 msgs sent\n";
    assert_eq!(folder.read(1), format!("{text}# END\n"));
}

#[test]
fn what_was_written_is_written_once() {
    let folder = Folder::new("twice");
    let trace = || Trace::new(&folder.0.join("run"), 7, None);
    drop(trace());
    assert_eq!(folder.read(7), "# NETWORK\n# POINT TO POINT\n# END\n");
    trace().add(900, [10, 1]);
    let mut last = trace();
    last.add(900, [5, 2]);
    drop(last);
    assert_eq!(folder.read(7), "# NETWORK\n# POINT TO POINT\nE\t7\t900\t15 bytes\t3 msgs sent\n# END\n");
    let trace = trace();
    trace.lose("nobody knows\nwhose port it was");
    drop(trace);
    assert!(folder.read(7).ends_with("# NOT WHOLE\tnobody knows whose port it was\n"), "{}", folder.read(7));
}

#[test]
fn a_run_that_follows_in_the_same_process_begins_anew() {
    let folder = Folder::new("runs");
    let mut first = Trace::new(&folder.0.join("run"), 0, Some(2));
    first.add(1, [10, 1]);
    drop(first);
    // As ranks of another job are told.
    run::is_of("another".to_owned());
    drop(Trace::new(&folder.0.join("run"), 0, Some(2)));
    assert_eq!(folder.read(0), "# RANKS\t2\n# POINT TO POINT\n# END\n");
}

#[test]
fn a_file_that_cannot_be_written_leaves_no_earlier_one() {
    let folder = Folder::new("none");
    let path = folder.0.join("run.0.prof");
    file::write(&path, "first");
    // What is written first has no place.
    let mut blocked = OsString::from(&path);
    blocked.push(format!(".{}.new", std::process::id()));
    fs::create_dir(&blocked).expect("a folder in its place");
    file::write(&path, "second");
    assert!(!path.exists());
}
