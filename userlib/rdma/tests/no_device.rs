//! What the crate says where no adapter is: on every machine that has built it so far.

use ggas_rdma::{Endpoint, Options, RdmaError, devices};

#[test]
fn a_host_without_adapters_is_told() {
    match devices() {
        Ok(all) => assert!(!all.is_empty(), "an empty list is no answer"),
        Err(error @ (RdmaError::NoDevice | RdmaError::Missing(_))) => {
            let text = error.to_string();
            assert!(text.starts_with("no RDMA device found: "), "{text}");
            let opened = Endpoint::open("mlx5_0", &Options::default()).unwrap_err();
            assert_eq!(opened.to_string(), text);
        }
        Err(error) => assert!(error.to_string().contains("apt-get install libibverbs-dev"), "{error}"),
    }
}

#[test]
fn numbers_out_of_range_are_refused_first() {
    let refused = |options: Options| Endpoint::open("mlx5_0", &options).unwrap_err().to_string();
    let options = Options::default();
    assert_eq!(refused(Options { sends: 0, ..options }), "sends is 0: it has to be 1 to 32768");
    assert_eq!(refused(Options { port: 256, ..options }), "port is 256: it has to be 1 to 255");
}

#[test]
fn an_adapter_that_is_not_there_is_named() {
    if let Ok(all) = devices() {
        let text = Endpoint::open("mlx5_nowhere", &Options::default()).unwrap_err().to_string();
        assert!(text.contains("mlx5_nowhere") && text.contains(&all[0].name), "{text}");
    }
}
