//! Networks that stay, and what their nodes' registers show.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Networks of a test's own.
struct Networks(PathBuf);

impl Networks {
    fn new(name: &str) -> Networks {
        let path = std::env::temp_dir().join(format!("ggas-{name}-{}", std::process::id()));
        Networks(path)
    }

    /// On the model, in these networks, whatever the environment says.
    fn ggas(&self, variables: &[(&str, &str)], args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
        for name in ["EXTOLL_DEVICE", "GGAS_NETWORK", "GGAS_NODE", "GGAS_RANK", "GGAS_SIZE", "GGAS_JOB"] {
            command.env_remove(name);
        }
        command.env("GGAS_DEVICE", "sim").env("GGAS_RUNTIME_DIR", &self.0).envs(variables.iter().copied());
        command.args(args).stdin(Stdio::null()).output().expect("ggas starts")
    }

    fn says(&self, variables: &[(&str, &str)], args: &[&str]) -> String {
        let output = self.ggas(variables, args);
        assert!(output.status.success(), "{args:?}: {}", err(&output));
        assert!(output.stderr.is_empty(), "{args:?} says: {}", err(&output));
        out(&output)
    }

    /// Fails with this code and says `what`.
    fn refuses(&self, code: i32, args: &[&str], what: &str) {
        let output = self.ggas(&[], args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(what), "{args:?} says: {}", err(&output));
        assert!(output.stdout.is_empty(), "{args:?} prints: {}", out(&output));
    }

    /// The link's bits `enable` and `ready`, as a node of network `lab` shows them.
    fn link(&self, node: &str, link: u32) -> [bool; 2] {
        let variables = [("GGAS_NETWORK", "lab"), ("GGAS_NODE", node)];
        let text = self.says(&variables, &["registers", &format!("lp{link}_status")]);
        ["enable         0x1\n", "ready          0x1\n"].map(|line| text.contains(line))
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn links_go_down_and_up_and_all_nodes_show_it() {
    let networks = Networks::new("links");
    networks.refuses(1, &["net", "link", "0", "x+", "down"], "there is no network default");
    networks.refuses(2, &["net", "up", "a/b"], "no network can be called `a/b`");
    networks.says(&[], &["net", "up", "lab", "--torus", "3x1x1"]);
    assert_eq!([networks.link("0", 0), networks.link("1", 1)], [[true; 2]; 2]);
    let said = networks.says(&[], &["net", "link", "1", "x-", "down", "lab"]);
    assert!(said.contains("that of node 0 in x+, is down; routes are computed anew"), "{said}");
    assert_eq!([networks.link("0", 0), networks.link("1", 1)], [[false; 2]; 2], "both ends");
    assert_eq!(networks.link("0", 1), [true; 2], "another link");
    let said = networks.says(&[], &["net", "link", "0", "x+", "up", "lab"]);
    assert!(said.contains("is up"), "{said}");
    assert_eq!([networks.link("0", 0), networks.link("1", 1)], [[true; 2]; 2]);
    let said = networks.says(&[], &["net", "link", "0", "x+", "down", "lab", "--keep-routes"]);
    assert!(said.contains("is down; routes are as they were"), "{said}");
    networks.says(&[], &["net", "kill", "2", "lab"]);
    assert_eq!(networks.link("0", 1), [true, false], "enabled, and nobody at its other end");
    let list = networks.says(&[], &["net", "list"]);
    assert!(list.contains("  0x+, node 2"), "{list}");
    networks.refuses(2, &["net", "link", "0", "y+", "down", "lab"], "the torus has no link of node 0");
    networks.refuses(2, &["net", "link", "0", "up", "down", "lab"], "give x+, x-, y+, y-, z+ or z-");
    networks.refuses(2, &["net", "kill", "3", "lab"], "the torus has no node 3");
    networks.says(&[], &["net", "down", "lab"]);
    assert_eq!(std::fs::read_dir(&networks.0).expect("a directory").count(), 0, "nothing is left");
}

#[test]
fn registers_become_the_tree_that_old_clients_read() {
    let networks = Networks::new("tree");
    let folder = std::env::temp_dir().join(format!("ggas it's registers {}", std::process::id()));
    let path = folder.to_str().expect("UTF-8");
    let output = networks.says(&[], &["net", "up"]);
    assert!(output.contains("torus 2x2x2"), "{output}");
    networks.says(&[], &["net", "link", "0", "y-", "down"]);
    let output = networks.ggas(&[], &["registers", "--write", path]);
    assert!(output.status.success(), "{}", err(&output));
    // As an old client goes about it: the variable from the shell, the line with `ready`, the character before the
    // last semicolon.
    let script = format!(
        r#"{} cd / && for n in 2 3 6; do f=$(grep ready "$EXTOLL_R2_SYSFS/extoll_rf_nw_lp_top_rf_lp${{n}}_status"); f=${{f%;}}; printf %s "${{f#"${{f%?}}"}}"; done"#,
        out(&output).replace('\n', ";")
    );
    let client = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    assert_eq!(
        out(&client),
        "100",
        "a link that is up, one that is down, one without a cable: {}",
        err(&client)
    );
    // Again over the tree of before; and not into a folder with anything else.
    assert!(networks.ggas(&[], &["registers", "--write", path, "lp0"]).status.success());
    std::fs::write(folder.join("mine"), "").expect("written");
    let refused = "holds mine, which is no part of a register tree";
    networks.refuses(1, &["registers", "--write", path], refused);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn registers_are_shown_by_name() {
    let networks = Networks::new("names");
    let text = networks.says(&[], &["registers", "lp1_status", "extoll_rf_info_rf_node", "--node", "1"]);
    assert!(text.contains("info_rf_node\n") && text.contains("  node_id        0x1\n"), "{text}");
    assert!(text.contains("nw_lp_top_rf_lp1_status\n") && !text.contains("lp0"), "{text}");
    let all = networks.says(&[], &["registers"]);
    assert!(all.contains("rma_rf_vpid_table\n  256 of 256 are 0\n"), "{all}");
    assert!(all.contains("info_rf_scratchpad[3]\n  value          0x1\n"), "{all}");
    networks.refuses(2, &["registers", "nonsense"], "no register has `nonsense` in its name");
    networks.refuses(2, &["registers", "--node", "8"], "network default has nodes 0 to 7, not 8");
    networks.refuses(2, &["registers", "--nodes", "2"], "unexpected argument");
    assert_eq!(std::fs::read_dir(&networks.0).expect("a directory").count(), 0, "it has left");
    // In a job, beside its ranks, before they have joined.
    let ggas = env!("CARGO_BIN_EXE_ggas");
    let text = networks.says(&[], &["run", "-n", "2", "--", ggas, "registers", "info_rf_node"]);
    assert!(
        text.contains("[0]   node_id        0x0\n") && text.contains("[1]   node_id        0x1\n"),
        "{text}"
    );
}

#[test]
fn a_name_that_no_network_can_have_is_said_as_such() {
    let networks = Networks::new("names");
    for name in ["a/b", "", ".hidden"] {
        for args in [&["net", "up", name][..], &["net", "down", name]] {
            let text = format!("no network can be called `{name}`: use 1 to 64 letters");
            let output = networks.ggas(&[], args);
            assert!(!output.status.success() && err(&output).contains(&text), "{}", err(&output));
            assert!(!err(&output).contains("GGAS_NETWORK"), "{}", err(&output));
        }
    }
}

#[test]
fn info_says_which_nodes_a_network_has() {
    let networks = Networks::new("nodes");
    let info = |variables: &[(&str, &str)]| out(&networks.ggas(variables, &["info"]));
    let text = info(&[("GGAS_NODE", "99")]);
    assert!(text.contains("none: network default has nodes 0 to 7, not 99: set GGAS_NODE"), "{text}");
    assert!(text.contains("GGAS_NETWORK"), "{text}");
    assert!(info(&[("GGAS_NODE", "7")]).contains("default, on node 7"));
    networks.says(&[], &["net", "up", "lab", "--torus", "2x1x1"]);
    let text = info(&[("GGAS_NETWORK", "lab"), ("GGAS_NODE", "2")]);
    assert!(text.contains("none: network lab has nodes 0 to 1, not 2"), "{text}");
    networks.says(&[], &["net", "down", "lab"]);
}
