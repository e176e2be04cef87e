//! Bounds: waits of kernels end, and a million operations fit.

use super::*;
use ggas_device::sim::{Faults, Simulation};
use ggas_kernels::CpuConfig;
use ggas_tn::TriggerLookup;

#[test]
fn a_threshold_that_is_never_reached_ends_kernels_with_a_report() {
    for config in configs() {
        let simulation = Simulation::new(5);
        let network = builder().simulation(&simulation).build().unwrap();
        let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
        let port = PortConfig { kernel_timeout: Duration::from_secs(60), ..PortConfig::default() };
        let pair = Pair::on(&network, Config { port, ..config }, &cpu);
        let never = pair.put(TAG, Piece { first: 0, words: 1, threshold: BLOCKS + 1 }, false).unwrap();
        let _armed = pair.triggers.arm();
        let args = pair.args(SELFTEST_TN_BY_GROUPS, 1, never.word());
        pair.start(&args).wait(Duration::from_secs(600)).unwrap();
        assert_eq!(pair.failed(), u64::from(extoll_abi::layout::GGAS_ERR_TIMEOUT));
        let report = pair.triggers.report().unwrap();
        assert!(report.waited >= Duration::from_secs(60), "{report}");
        assert!(report.to_string().contains("the completion of a triggered operation"), "{report}");
        assert_eq!((pair.triggers.counted(TAG), pair.triggers.counts().waiting), (Some(BLOCKS), 1));
        let error = pair.triggers.wait(never, 1, Duration::from_secs(60)).unwrap_err().to_string();
        assert!(error.contains("has counted 3 triggers"), "{error}");
    }
}

#[test]
fn kernels_that_trigger_take_part_in_simulations_with_faults() {
    let time = |seed: u64| {
        let simulation = Simulation::new(seed);
        let faults = Faults::none().seed(seed).drop(0.05).duplicate(0.02);
        let network = builder().faults(faults).simulation(&simulation).build().unwrap();
        let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
        let pair = Pair::on(&network, Config::default(), &cpu);
        pair.register(SELFTEST_TN_PAIRS);
        pair.run(&pair.args(SELFTEST_TN_PAIRS, 1, 0)).unwrap();
        pair.check(SELFTEST_TN_PAIRS, 1);
        simulation.elapsed()
    };
    let times = [1, 2, 1].map(time);
    assert_eq!(times[0], times[2], "the same seed, the same time");
    assert_ne!(times[0], times[1], "another seed drops other frames");
}

#[test]
fn a_million_operations_are_registered_and_started() {
    const MANY: u64 = 1_000_000;
    let config = Config { tags: MANY as u32, lookup: TriggerLookup::Hash, ..Config::default() };
    let pair = Pair::new(&network(Progress::Inline), config);
    let (to, nla) = (pair.target.address(), pair.destination.nla(0).unwrap());
    let put = |tag| pair.triggers.put(When::tag(tag), &pair.source, 0..8, to, nla, Spec::empty());
    let mut last = None;
    for tag in 0..MANY {
        last = Some(put(tag).unwrap());
    }
    assert!(put(MANY).is_err());
    let counts = pair.triggers.counts();
    assert_eq!((counts.used, counts.waiting, counts.started), (MANY, MANY, 0));
    pair.triggers.trigger(MANY);
    for tag in 0..MANY {
        pair.triggers.trigger(tag);
    }
    pair.triggers.wait(last.unwrap(), 1, SOON).unwrap();
    let counts = pair.triggers.counts();
    assert_eq!((counts.waiting, counts.started, counts.refused), (0, MANY, 1));
}
