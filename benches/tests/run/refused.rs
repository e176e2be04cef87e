//! Options that do not fit.

use ggas_benches::{Options, Progress, Team, find};

use crate::small;

#[test]
fn only_what_needs_no_nic_goes_by_peer_memory() {
    let options = Options { via: ggas_benches::Via::Nvlink, gpus: 2, ..Options::default() };
    let refused =
        |name: &str, options: &Options| options.validate(find(name).unwrap()).unwrap_err().to_string();
    assert!(refused("alltoall", &options).contains("put-signal"));
    assert!(refused("put-signal", &options).contains("--device gpu"));
    let options = Options { device: ggas_benches::Device::Gpu, ..options };
    assert!(options.validate(find("put-signal").unwrap()).is_ok());
    let options = Options { nodes: 3, ..options };
    assert!(refused("put-signal", &options).contains("--gpus 3"));
}

#[test]
fn options_that_do_not_fit_say_what_would() {
    let mut silent = Progress::silent();
    let refuse = |name: &str, options: Options| {
        let error = find(name).unwrap().run(&Team::alone(), &options, &mut Progress::silent()).unwrap_err();
        error.to_string()
    };
    assert!(refuse("rma-pingpong", Options { nodes: 1, ..small(&[8]) }).contains("2 to 1024"));
    assert!(refuse("rma-pingpong", Options { method: Some("push".into()), ..small(&[]) }).contains("poll"));
    assert!(refuse("rma-pingpong", small(&[0])).contains("use 1 to"));
    assert!(refuse("rma-pingpong", small(&[(8 << 20) + 1])).contains("use 1 to"));
    assert!(
        refuse("rma-pingpong", Options { method: Some("poll".into()), ..small(&[9]) })
            .contains("multiples of 8")
    );
    assert!(refuse("rma-rate", Options { threads: vec![33], ..small(&[]) }).contains("multiples of 32"));
    assert!(refuse("barrier", small(&[8])).contains("no size"));
    assert!(refuse("gaspi-barrier", small(&[8])).contains("gaspi-barrier has no sizes; leave --sizes out"));
    let threads = Options { threads: vec![3], ..small(&[]) };
    assert!(refuse("gaspi-pingpong", threads).contains("has no kernels; leave --threads out"));
    assert!(refuse("randomaccess", small(&[1000])).contains("power of two"));
    assert!(refuse("randomaccess", Options { nodes: 65, ..small(&[]) }).contains("64 nodes"));
    assert!(refuse("allreduce", Options { slots: 3, ..small(&[8]) }).contains("power of two"));
    assert!(refuse("rma-rate", Options { requesters: Some(2), ..small(&[]) }).contains("--via nvlink"));
    assert!(refuse("barrier", Options { helpers: Some(1), ..small(&[]) }).contains("--via nvlink"));
    assert!(refuse("ggas-pingpong", Options { threads: vec![1025], ..small(&[]) }).contains("1024"));
    assert!(find("rma-pong").err().unwrap().to_string().contains("rma-pingpong"));
    silent.finish();
}

#[test]
fn without_a_gpu_the_reason_is_given() {
    if ggas_gpu::probe().is_ok() {
        return;
    }
    let options = Options { device: ggas_benches::Device::Gpu, ..small(&[8]) };
    let error = find("barrier").unwrap().run(
        &Team::alone(),
        &Options { sizes: vec![], ..options },
        &mut Progress::silent(),
    );
    let error = error.unwrap_err();
    assert!(std::error::Error::source(&error).is_some(), "{error}");
}

#[test]
fn nodes_that_a_process_has_no_room_for_are_refused_before_it_takes_it() {
    let options = Options { nodes: 512, method: Some("gather".to_owned()), ..small(&[16]) };
    let error = find("allreduce").unwrap().run(&Team::alone(), &options, &mut Progress::silent());
    let error = error.unwrap_err().to_string();
    for part in ["--nodes 512: ", "at most 2048 MiB", "use fewer nodes, or --fabric process"] {
        assert!(error.contains(part), "{error}");
    }
}
