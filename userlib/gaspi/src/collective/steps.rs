//! The steps of a recursive doubling.

/// What a member does in a step: gives what it has to one, and gets what one has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub to: Option<usize>,
    pub from: Option<usize>,
    pub gets: Gets,
}

/// What it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Gets {
    /// Of members behind it.
    #[default]
    Higher,
    Lower,
    Result,
}

/// Of the largest power of two that the members have, and what comes before and behind.
pub(super) fn steps(members: usize) -> usize {
    members.max(1).ilog2() as usize + 2
}

pub(super) fn step(me: usize, members: usize, number: usize) -> Step {
    let pairs = members - (1 << members.ilog2());
    let (is_paired, is_giver) = (me < 2 * pairs, me < 2 * pairs && me % 2 == 1);
    let last = steps(members) - 1;
    match number {
        0 if is_giver => Step { to: Some(me - 1), ..Step::default() },
        0 if is_paired => Step { from: Some(me + 1), ..Step::default() },
        _ if number == last && is_giver => Step { from: Some(me - 1), gets: Gets::Result, ..Step::default() },
        _ if number == last && is_paired => Step { to: Some(me + 1), ..Step::default() },
        _ if number == 0 || number == last || is_giver => Step::default(),
        _ => {
            let place = if is_paired { me / 2 } else { me - pairs };
            let other = place ^ 1 << (number - 1);
            let member = Some(if other < pairs { 2 * other } else { other + pairs });
            Step { to: member, from: member, gets: if other < place { Gets::Lower } else { Gets::Higher } }
        }
    }
}
