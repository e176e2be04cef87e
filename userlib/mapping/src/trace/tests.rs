use std::fs;
use std::path::PathBuf;

use super::*;

/// As Open MPI 4.1.4 writes them.
const ZERO: &str = "# POINT TO POINT\nE\t0\t1\t10000 bytes\t10 msgs sent\t0,0,0,10\nI\t0\t1\t8 bytes\t1 msgs sent\n# OSC\n\
                    S\t0\t2\t100 bytes\t1 msgs sent\nR\t0\t2\t7 bytes\t1 msgs sent\n# COLLECTIVES\nC\t0\t1\t8 bytes\t1 msgs sent\n\
                    D\tMPI_COMM_WORLD\tprocs: 0,1,2\nO2A\t0\t0 bytes\t0 msgs sent\nA2A\t0\t24 bytes\t1 msgs sent\n";

/// What a rank of Open MPI's has written that sent nothing.
const NOTHING: &str = "# POINT TO POINT\n";

fn written(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("run.of.mine");
    for (rank, text) in files.iter().enumerate() {
        fs::write(file_of(&prefix, rank), text).expect("written");
    }
    (folder, prefix)
}

/// What is said of files that are wrong.
fn said(files: &[&str]) -> String {
    let (_folder, prefix) = written(files);
    Pattern::traced(&prefix).expect_err("wrong").to_string()
}

/// A file of ours: of a job by its name, or of a network; when it counted; what it says, and whether it is whole.
fn ours(ranks: Option<usize>, name: &str, time: [u64; 2], lines: &str) -> String {
    let first = ranks.map_or("# NETWORK".to_owned(), |ranks| format!("# RANKS\t{ranks}"));
    format!("{first}\n# RUN\t{name}\t{}\t{}\n# POINT TO POINT\n{lines}# END\n", time[0], time[1])
}

#[test]
fn messages_of_all_kinds_count_and_calls_do_not() {
    let (_folder, prefix) = written(&[ZERO, NOTHING, "# POINT TO POINT\nE\t2\t1\t5 bytes\t1 msgs sent\n"]);
    let pattern = Pattern::traced(&prefix).expect("three ranks");
    let sent: Vec<_> = pattern.messages().collect();
    assert_eq!(sent, [(0, 1, 10008), (0, 2, 100), (2, 0, 7), (2, 1, 5)]);
}

#[test]
fn processes_of_a_network_are_ranks_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("run");
    let write = |number: usize, lines: &str| {
        fs::write(file_of(&prefix, number), ours(None, "-", [10, 20], lines)).expect("written");
    };
    write(12, "E\t12\t3\t5 bytes\t1 msgs sent\n# OSC\nR\t12\t700\t9 bytes\t1 msgs sent\n");
    write(3, "E\t3\t12\t70 bytes\t1 msgs sent\n");
    write(700, "");
    // None of them.
    for name in ["run.012.prof", "run.7.prof.old", "run.x.prof", "ran.8.prof"] {
        fs::write(folder.path().join(name), "E\t0\t1\tmany").expect("written");
    }
    let pattern = Pattern::traced(&prefix).expect("three processes");
    assert_eq!(pattern.messages().collect::<Vec<_>>(), [(0, 1, 70), (1, 0, 5), (2, 1, 9)]);
    assert_eq!(pattern.processes(), Some(&[3, 12, 700][..]));
    fs::remove_file(file_of(&prefix, 700)).expect("gone");
    let said = Pattern::traced(&prefix).expect_err("one is missing").to_string();
    assert!(said.contains("processes 700 and 12") && said.contains("GGAS_TRACE"), "{said}");
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let none = said(&[]);
    assert!(none.contains("of.mine.0.prof") && none.contains("pml_monitoring_filename"), "{none}");
    let short = said(&[ZERO, NOTHING]);
    assert!(short.contains("a run of 3 ranks") && short.contains("rank 2 has no file"), "{short}");
    // Of a library that does not say how many there were.
    let sent = "# POINT TO POINT\nE\t0\t2\t4 bytes\n";
    assert!(said(&[sent, NOTHING]).contains("line 2: ranks 0 and 2, but there are files of 2"));
    assert!(said(&["# POINT TO POINT\nE\t0\t1\tmany\n"]).contains("line 2"));
    for garbage in ["", "hello\n", "# RANKS\tmany\n# RUN\tx\t1\t2\n", "# NETWORK\n# RUN\t-\t1\n"] {
        let said = said(&[garbage]);
        assert!(
            said.contains("of.mine.0.prof: it") && (said.contains("remove it") || said.contains("again")),
            "{said}"
        );
    }
    let most = vec![NOTHING; Pattern::MOST_RANKS + 1];
    assert!(said(&most).contains("use 1 to 1024"));
}

#[test]
fn bytes_that_are_no_text_and_what_is_no_file_are_named() {
    let (folder, prefix) = written(&[NOTHING]);
    fs::write(file_of(&prefix, 1), b"\xff\xfe\0\x80").expect("written");
    let said = Pattern::traced(&prefix).expect_err("no text").to_string();
    assert!(said.contains("of.mine.1.prof"), "{said}");
    fs::remove_file(file_of(&prefix, 1)).expect("gone");
    fs::create_dir(file_of(&prefix, 1)).expect("a folder");
    let said = Pattern::traced(&prefix).expect_err("a folder").to_string();
    assert!(said.contains("of.mine.1.prof: it is no regular file"), "{said}");
    let said = Pattern::traced(&folder.path().join("none/run")).expect_err("no folder").to_string();
    assert!(said.contains("none/run.0.prof: there is no such file"), "{said}");
    let said = Pattern::traced(&file_of(&prefix, 0).join("run")).expect_err("no folder").to_string();
    assert!(said.contains("of.mine.0.prof/: Not a directory"), "{said}");
}

#[test]
fn a_prefix_may_end_with_the_name_of_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut prefix = folder.path().as_os_str().to_owned();
    prefix.push("/");
    fs::write(folder.path().join(".0.prof"), ours(Some(1), "a", [1, 2], "")).expect("written");
    assert_eq!(Pattern::traced(Path::new(&prefix)).expect("one rank").ranks(), 1);
    let said = Pattern::traced(folder.path()).expect_err("none of this name").to_string();
    assert!(said.contains("is a folder") && said.contains("/ has written is traced:"), "{said}");
}

#[test]
fn files_of_an_earlier_run_are_left_out_and_named() {
    let first = |lines: &str| ours(Some(3), "a", [1, 5], lines);
    let (_folder, prefix) =
        written(&[&first(""), &first("E\t1\t0\t7 bytes\t1\n"), &first("E\t2\t0\t7 bytes\t1\n")]);
    let second = |rank: usize, lines: &str| {
        fs::write(file_of(&prefix, rank), ours(Some(2), "b", [11, 12 + rank as u64], lines))
            .expect("written");
    };
    second(0, "E\t0\t1\t40 bytes\t1\n");
    // Rank 1 was killed before it counted.
    let said = Pattern::traced(&prefix).expect_err("one has none").to_string();
    assert!(
        said.contains("rank 1 has no file of that run (the one that is there is of another run)"),
        "{said}"
    );
    second(1, "");
    let pattern = Pattern::traced(&prefix).expect("both");
    assert_eq!(pattern.messages().collect::<Vec<_>>(), [(0, 1, 40)]);
    assert_eq!(pattern.left_out(), [file_of(&prefix, 2)]);
    // A network that was there later.
    fs::write(file_of(&prefix, 9), ours(None, "-", [13, 20], "")).expect("written");
    let pattern = Pattern::traced(&prefix).expect("a process");
    assert_eq!((pattern.processes(), pattern.left_out().len()), (Some(&[9][..]), 3));
}

#[test]
fn processes_that_were_never_in_a_network_together_are_of_two_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("run");
    // One stays while others come and go; two that were there before, and one of those beside the other alone.
    let all =
        [(1, [100, 200]), (2, [90, 110]), (3, [150, 160]), (4, [105, 120]), (5, [10, 30]), (6, [20, 80])];
    for (number, time) in all {
        fs::write(file_of(&prefix, number), ours(None, "-", time, "")).expect("written");
    }
    let pattern = Pattern::traced(&prefix).expect("a run");
    assert_eq!(pattern.processes(), Some(&[1, 2, 3, 4][..]));
    assert_eq!(pattern.left_out(), [file_of(&prefix, 5), file_of(&prefix, 6)]);
}

#[test]
fn files_that_are_not_whole_or_of_another_writer_are_refused() {
    let whole = ours(Some(2), "a", [1, 2], "");
    let open = whole.replace("# END", "# NOT WHOLE\tit was killed");
    let open = said(&[&whole, &open]);
    assert!(open.contains("1.prof: it is not whole: it was killed: let"), "{open}");
    let cut = said(&[&whole, &whole[..whole.len() - 6]]);
    assert!(cut.contains("1.prof: its end is missing"), "{cut}");
    let older = "# RANKS\t1\n# POINT TO POINT\n";
    let older = said(&[older]);
    assert!(
        older.contains("another version of this suite") && older.contains("trace the run again"),
        "{older}"
    );
    let mixed = said(&[&whole, NOTHING]);
    assert!(mixed.contains("1.prof: other files of this prefix are of this suite"), "{mixed}");
}

#[test]
fn open_mpis_files_of_a_run_of_another_number_of_ranks_do_not_join() {
    let of = |ranks: &str| format!("# POINT TO POINT\nD\tMPI_COMM_WORLD\tprocs: {ranks}\n");
    let (two, three) = (of("0,1"), of("0,1,2"));
    let (_folder, prefix) = written(&[&two, &two, &three]);
    let pattern = Pattern::traced(&prefix).expect("two ranks");
    assert_eq!((pattern.ranks(), pattern.left_out()), (2, &[file_of(&prefix, 2)][..]));
    let other = said(&[&three, &two, &three]);
    assert!(other.contains("1.prof: it is of a run of other than 3 ranks"), "{other}");
}
