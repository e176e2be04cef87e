//! What triggered operations move is in the trace that a mapping reads, where somebody asks: as much as the SMFU's counters say.

use std::path::Path;

use extoll_abi::regs::smfu_count;
use ggas_mapping::Pattern;
use ggas_members::Job;

use super::jobs::in_job_with;
use super::windows::{AT, Ends};
use super::*;
use ggas_window::Window;

/// Posted packets and others that node 0 sent to node 1, whose interval is the second of the members'.
fn packets(node: &Node) -> [u64; 2] {
    let count = node.read_register(smfu_count(2)).unwrap();
    [count >> 32, count & 0xffff_ffff]
}

/// Bytes to node 1 and from there.
fn traced(prefix: &Path) -> [u64; 2] {
    let pattern = Pattern::traced(prefix).unwrap();
    let of =
        |pair| pattern.messages().find(|(from, to, _)| (*from, *to) == pair).map_or(0, |(.., bytes)| bytes);
    [of((0, 1)), of((1, 0))]
}

#[test]
fn triggered_operations_are_traced_as_units_count() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tn-traced-{}", std::process::id()));
    if std::env::var_os("GGAS_TRACE").is_none() {
        std::fs::create_dir_all(&folder).unwrap();
    }
    let prefix = folder.join("run");
    let test = "traced::triggered_operations_are_traced_as_units_count";
    in_job_with(test, 1, ("GGAS_TRACE", prefix.to_str().unwrap()), compare);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn compare(_job: &Job) {
    let asked = std::env::var_os("GGAS_TRACE").unwrap();
    let mut before = [0; 2];
    for (form, ahead) in FORMS.into_iter().chain([SELFTEST_TN_GETS]).flat_map(|form| [(form, 0), (form, 1)]) {
        let network = SimNetwork::builder().nodes(2).build().unwrap();
        let nodes = [0, 1].map(|i| Node::new(network.device(i).unwrap()));
        let cpu = Processor::cpu();
        let window =
            |i: usize| Arc::new(Window::on_nodes(&nodes[i], &[0, 1], &cpu, AT + BYTES, SOON).unwrap());
        let (own, other) = (window(0), window(1));
        let ends = Ends::over(own, &cpu, ALL as u32);
        let gets = form == SELFTEST_TN_GETS;
        let operations = if gets { 1 } else { pieces(form).len() as u64 };
        if gets {
            let words: Vec<u8> = (0..ALL as u64).flat_map(|thread| value(thread, 1).to_le_bytes()).collect();
            other.write(1, AT, &words).unwrap();
            ends.triggers.get(When::tag(0).after(BLOCKS), &ends.data, 0..BYTES, (1, AT)).unwrap();
        } else {
            ends.register(form);
        }
        let args = selftest_tn { ahead, ..ends.args(form, 1) };
        ends.start(&args).wait(SOON).unwrap();
        assert_eq!(ends.status.load_u64(0).unwrap(), 0, "form {form}: {:?}", ends.triggers.report());
        until("signals have come", || gets || other.load_u64(1, 0).unwrap() == operations);
        // Stores of 8 bytes where an operation has no more, else of 16; each put signals.
        let each = if form == SELFTEST_TN_ITEMS || form == SELFTEST_TN_FIELDS { 8 } else { 16 };
        let [posted, loads] = packets(&nodes[0]);
        let counted = if gets { [0, 16 * loads] } else { [each * (posted - operations) + 8 * operations, 0] };
        assert_eq!(counted[usize::from(gets)], BYTES as u64 + if gets { 0 } else { 8 * operations });
        drop(ends);
        drop(other);
        let after = traced(Path::new(&asked));
        assert_eq!([after[0] - before[0], after[1] - before[1]], counted, "form {form}, ahead {ahead}");
        before = after;
    }
}
