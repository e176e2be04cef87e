//! Values of options that clap does not know how to read.

/// Sizes and counts as people write them: `8`, `64K`, `1MiB`, `8..1M` (doublings).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

const ADVICE: &str = "write 64, 4K, 1M, or a range of doublings such as 8..1M";

/// Reads one element of a list of sizes.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let Some((first, last)) = text.split_once("..") else { return Ok(Sizes(vec![size(text)?])) };
    let (first, last) = (size(first)?, size(last.trim_start_matches('='))?);
    if first == 0 || first > last {
        return Err(format!("the range begins at {first} and ends at {last}: {ADVICE}"));
    }
    Ok(Sizes(std::iter::successors(Some(first), |n| n.checked_mul(2)).take_while(|n| *n <= last).collect()))
}

fn size(text: &str) -> Result<u64, String> {
    let text = text.trim().replace('_', "");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no size: {ADVICE}"))?;
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        other => return Err(format!("`{other}` is no unit: {ADVICE}")),
    };
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` does not fit 64 bits"))
}

/// A time in seconds, such as `2` or `0.5`.
pub fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number: f64 = text.parse().map_err(|_| "write seconds, such as 2 or 0.5".to_string())?;
    if !(0.001..=86_400.0).contains(&number) {
        return Err("use 0.001 to 86400 seconds".into());
    }
    Ok(std::time::Duration::from_secs_f64(number))
}

/// A time with its unit, such as `60s`, `1.5m`, `500ms`; seconds without one.
pub fn time(text: &str) -> Result<std::time::Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is no unit of time: use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| "write a time such as 60s, 1.5m or 500ms".to_string())?;
    // A year, which no clock overflows.
    std::time::Duration::try_from_secs_f64(number * unit)
        .ok()
        .filter(|time| time.as_secs() <= 31_536_000)
        .ok_or_else(|| "use a time from 0 to a year".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(sizes("8"), Ok(Sizes(vec![8])));
        assert_eq!(sizes("4K"), Ok(Sizes(vec![4096])));
        assert_eq!(sizes("1_024"), Ok(Sizes(vec![1024])));
        assert_eq!(sizes("8..64"), Ok(Sizes(vec![8, 16, 32, 64])));
        assert_eq!(sizes("1K..=4KiB"), Ok(Sizes(vec![1024, 2048, 4096])));
        assert_eq!(sizes("1..18446744073709551615").unwrap().0.len(), 64);
    }

    #[test]
    fn wrong_sizes_say_what_to_write() {
        for text in ["", "K", "8X", "-1", "1.5M", "64..8", "0..8", "..", "99999999999999999999", "16777216T"]
        {
            assert!(sizes(text).is_err(), "{text} was accepted");
        }
        assert!(sizes("17179869184G").unwrap_err().contains("64 bits"));
    }

    #[test]
    fn times_have_units() {
        let ms = std::time::Duration::from_millis;
        for (text, want) in [("60s", 60_000), ("2", 2000), ("1.5m", 90_000), ("500ms", 500), ("0", 0)] {
            assert_eq!(time(text), Ok(ms(want)), "{text}");
        }
        for text in ["", "s", "-1s", "1d", "nan", "inf", "1e9h", "soon"] {
            assert!(time(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(std::time::Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(seconds(text).is_err(), "{text} was accepted");
        }
    }
}
