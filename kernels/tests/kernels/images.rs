//! Kernels of other crates: what is refused. `kernels/examples/own-kernel` runs some.

use ggas_kernels::args::coll_started;
use ggas_kernels::{ImageError, Launch, LaunchError, Processor, add, kernels, start};

// These are kernels of the library, claimed by another crate.
kernels! {
    static TWICE = [ggas_collective(coll_started)];
}
kernels! {
    static OTHER_ARGUMENTS = [ggas_collective(coll_started), ggas_engine(u32)];
}

#[test]
fn a_second_kernel_of_one_name_is_refused() {
    let error = add(&TWICE).expect_err("the library has it");
    assert!(matches!(error, ImageError::Taken { kernel: "ggas_collective" }), "{error}");
}

#[test]
fn structures_of_different_size_are_refused() {
    let error = add(&OTHER_ARGUMENTS).expect_err("no kernel takes 4 bytes");
    assert!(matches!(error, ImageError::Arguments { kernel: "ggas_engine", rust: 4, .. }), "{error}");
}

#[test]
fn kernels_are_unknown_until_they_are_added() {
    let cpu = Processor::cpu();
    // SAFETY: nothing starts.
    let launch = unsafe { Launch::new(&cpu, "own_square_ask", 1, 1, &0u64) };
    let error = start(&[launch]).err().expect("nobody added it");
    assert!(matches!(error, LaunchError::UnknownKernel { .. }), "{error}");
    assert!(error.to_string().contains("ggas_kernels::add"), "{error}");
}
