//! Whether blocks of several kernels are all resident at once, wherever the GPU puts them.

/// Grids that a GPU runs at once (CUDA programming guide, "Maximum number of resident grids per device", 8.x and
/// 9.0).
pub(crate) const MAX_GRIDS: usize = 128;

/// Blocks of one kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub blocks: u64,
    /// How many of them fill one multiprocessor.
    pub per_sm: u32,
}

/// Whether all blocks fit on `sms` multiprocessors at once, in every order of placement.
///
/// A block takes 1 / `per_sm` of a multiprocessor. The GPU may spread small blocks so that no multiprocessor has
/// room for a large one, although their sum would fit; so for each kernel we count how many multiprocessors all
/// other blocks could close to it at most. It fits if one stays open.
pub(crate) fn fits(loads: &[Load], sms: u32) -> bool {
    if loads.iter().any(|load| load.per_sm == 0 && load.blocks > 0) {
        return false;
    }
    let loads: Vec<_> = loads.iter().copied().filter(|load| load.blocks > 0).collect();
    let unit = loads.iter().fold(1u64, |unit, load| lcm(unit, u64::from(load.per_sm)));
    let weight = |load: &Load| unit / u64::from(load.per_sm);
    let step = loads.iter().fold(0, |step, load| gcd(step, weight(load))).max(1);
    loads.iter().all(|load| {
        // A multiprocessor is closed to this kernel when more than `unit - weight` of it is taken; what is taken is
        // a multiple of `step`.
        let closing = ((unit - weight(load)) / step + 1) * step;
        let closed = |other: &Load| u128::from(other.blocks) * u128::from(weight(other).min(closing));
        let own = u128::from(weight(load).min(closing));
        let others = loads.iter().map(closed).sum::<u128>() - own;
        others / u128::from(closing) < u128::from(sms)
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Least common multiple; `per_sm` is at most 32, so it stays below lcm(1..=32) < 2⁴⁸.
fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(blocks: u64, per_sm: u32) -> Load {
        Load { blocks, per_sm }
    }

    #[test]
    fn one_kernel_fits_up_to_its_occupancy() {
        for per_sm in 1..=32 {
            let full = 132 * u64::from(per_sm);
            assert!(fits(&[load(full, per_sm)], 132), "{per_sm}");
            assert!(!fits(&[load(full + 1, per_sm)], 132), "{per_sm}");
            assert!(fits(&[load(full / 2, per_sm), load(full - full / 2, per_sm)], 132), "{per_sm}");
        }
    }

    #[test]
    fn nothing_fits_where_no_block_does() {
        assert!(fits(&[], 132));
        assert!(fits(&[load(0, 0)], 132));
        assert!(!fits(&[load(1, 0)], 132));
    }

    #[test]
    fn a_small_block_may_close_a_multiprocessor_to_a_large_one() {
        // By their sum 131 + 4/4 fit on 132; but the four small blocks can lie on four multiprocessors.
        assert!(!fits(&[load(131, 1), load(4, 4)], 132));
        assert!(fits(&[load(128, 1), load(4, 4)], 132));
        assert!(!fits(&[load(132, 1), load(1, 4)], 132));
        assert!(fits(&[load(131, 1), load(1, 4)], 132));
    }

    #[test]
    fn different_kernels_share_multiprocessors() {
        // Two of 1/2 and one of 1/4 a multiprocessor: the last 1/2 needs one that holds at most 1/2.
        assert!(fits(&[load(3, 2), load(1, 4)], 2));
        assert!(!fits(&[load(4, 2), load(1, 4)], 2));
        assert!(fits(&[load(100, 8), load(100, 16), load(1, 2)], 132));
    }
}
