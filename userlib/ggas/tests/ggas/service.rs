//! The example of a service and its clients, each a process that begins and ends by itself. The test starts this program
//! again, with itself as the only test.

#[path = "../../examples/service.rs"]
#[allow(dead_code, reason = "the example's main")]
mod example;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a process that the test started is to be.
const ROLE: &str = "GGAS_TEST_ROLE";
const NODE: u16 = 2;

/// Networks of this test alone.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ended with its guard.
struct Service(Child);

impl Service {
    fn start(networks: &Path) -> Service {
        Service(process(networks, "serve", NODE).spawn().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn process(networks: &Path, role: &str, node: u16) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "service::clients_come_and_go_and_so_may_the_service";
    command.args([test, "--exact", "--nocapture", "--quiet"]);
    for name in ["EXTOLL_DEVICE", "GGAS_NETWORK", "GGAS_RANK", "GGAS_SIZE", "GGAS_JOB"] {
        command.env_remove(name);
    }
    command.env("GGAS_DEVICE", "sim").env("GGAS_RUNTIME_DIR", networks);
    command.env("GGAS_NODE", node.to_string()).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn answers(client: Child) {
    let output = client.wait_with_output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("it says 144"), "{text}");
}

#[test]
fn clients_come_and_go_and_so_may_the_service() {
    match std::env::var(ROLE).as_deref() {
        Ok("serve") => return example::serve().unwrap(),
        Ok(_) => return println!("it says {}", example::ask(NODE, 12).unwrap()),
        Err(_) => {}
    }
    let folder = Folder(std::env::temp_dir().join(format!("ggas-service-{}", std::process::id())));
    // The first client is there before the service, and makes the network.
    let early = process(&folder.0, "ask", 1).spawn().unwrap();
    let first = Service::start(&folder.0);
    answers(early);
    for node in [1, 0, NODE] {
        answers(process(&folder.0, "ask", node).spawn().unwrap());
    }
    drop(first);
    let _second = Service::start(&folder.0);
    answers(process(&folder.0, "ask", 1).spawn().unwrap());
}
