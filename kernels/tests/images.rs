//! Kernels of other crates: what is refused. `kernels/examples/own-kernel` runs some.

use ggas_kernels::args::selftest_threads;
use ggas_kernels::{ImageError, Launch, LaunchError, Processor, add, kernels, start};

// These are kernels of the suite, claimed by another crate.
kernels! {
    static TWICE = [ggas_selftest_threads(selftest_threads)];
}
kernels! {
    static OTHER_ARGUMENTS = [ggas_selftest_threads(selftest_threads), ggas_selftest_vocab(u32)];
}

#[test]
fn a_second_kernel_of_one_name_is_refused() {
    let error = add(&TWICE).expect_err("the suite has it");
    assert!(matches!(error, ImageError::Taken { kernel: "ggas_selftest_threads" }), "{error}");
}

#[test]
fn structures_of_different_size_are_refused() {
    let error = add(&OTHER_ARGUMENTS).expect_err("no kernel takes 4 bytes");
    assert!(matches!(error, ImageError::Arguments { kernel: "ggas_selftest_vocab", rust: 4, .. }), "{error}");
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
