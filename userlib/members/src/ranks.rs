//! Lists of ranks as people read them: `rank 3`, `ranks 1, 4-6`.

/// Ranks in ascending order, runs of three and more joined.
pub(crate) fn ranks(list: &[u32]) -> String {
    let mut parts = Vec::new();
    let mut rest = list;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|(rank, want)| **rank == *want).count();
        let taken = if run >= 3 { run } else { 1 };
        parts.push(if taken == 1 { first.to_string() } else { format!("{first}-{}", rest[taken - 1]) });
        rest = &rest[taken..];
    }
    match list {
        [] => "no rank".into(),
        [_] => format!("rank {}", parts[0]),
        _ => format!("ranks {}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn runs_are_joined() {
        assert_eq!(ranks(&[]), "no rank");
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 2]), "ranks 1, 2");
        assert_eq!(ranks(&[0, 2, 3, 4, 9]), "ranks 0, 2-4, 9");
    }
}
