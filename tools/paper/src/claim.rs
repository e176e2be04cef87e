use serde::Serialize;

/// When a value agrees with a paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expect {
    Near { value: f64, tolerance: f64 },
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

/// What a paper says, in a form that a number can contradict.
#[derive(Clone, Debug)]
pub struct Claim {
    text: String,
    source: &'static str,
    unit: &'static str,
    expect: Expect,
}

impl Claim {
    fn new(text: &str, source: &'static str, unit: &'static str, expect: Expect) -> Claim {
        Claim { text: text.to_owned(), source, unit, expect }
    }

    /// A value within `tolerance` (of the same unit) around the paper's; `source` is the section, table or figure
    /// that says it.
    pub fn near(text: &str, source: &'static str, value: f64, tolerance: f64, unit: &'static str) -> Claim {
        Claim::new(text, source, unit, Expect::Near { value, tolerance })
    }

    /// A value that is not lower.
    pub fn at_least(text: &str, source: &'static str, value: f64, unit: &'static str) -> Claim {
        Claim::new(text, source, unit, Expect::AtLeast(value))
    }

    /// A value that is not higher.
    pub fn at_most(text: &str, source: &'static str, value: f64, unit: &'static str) -> Claim {
        Claim::new(text, source, unit, Expect::AtMost(value))
    }

    /// A value of this range, for claims such as "around" and "medium".
    pub fn between(text: &str, source: &'static str, low: f64, high: f64, unit: &'static str) -> Claim {
        Claim::new(text, source, unit, Expect::Between(low, high))
    }

    /// Compares with what the model gave. No value: what the claim speaks of did not happen at all.
    pub fn judge(self, ours: impl Into<Option<f64>>) -> Verdict {
        let ours = ours.into().filter(|value| value.is_finite());
        let miss = ours.map(|ours| self.expect.miss(ours));
        let unit = |text: String| format!("{text}{}{}", if self.unit == "%" { "" } else { " " }, self.unit);
        let why = match miss {
            Some(miss) if miss <= 0.0 => None,
            Some(miss) => Some(format!("off by {} more than the tolerance", unit(short(miss)).trim_end())),
            None => Some("it does not happen at any point of the sweep".to_owned()),
        };
        Verdict {
            paper: unit(self.expect.text()).trim_end().to_owned(),
            ours: ours.map_or_else(|| "never".to_owned(), |ours| unit(short(ours)).trim_end().to_owned()),
            value: ours,
            holds: why.is_none(),
            claim: self.text,
            source: self.source,
            why,
            today: None,
        }
    }

    /// A claim of order: the names from the lowest value to the highest.
    pub fn order(text: &str, source: &'static str, values: &[(&str, f64)]) -> Verdict {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let mut ours = values.to_vec();
        ours.sort_by(|a, b| a.1.total_cmp(&b.1));
        let shown: Vec<String> =
            ours.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
        let is_below = |a: f64, b: f64| a.partial_cmp(&b) == Some(std::cmp::Ordering::Less);
        let wrong = values.windows(2).find(|pair| !is_below(pair[0].1, pair[1].1));
        Verdict {
            claim: text.to_owned(),
            source,
            paper: names.join(" < "),
            ours: shown.join(" < "),
            value: None,
            holds: wrong.is_none(),
            why: wrong.map(|pair| format!("{} is not below {}", pair[0].0, pair[1].0)),
            today: None,
        }
    }
}

impl Expect {
    /// By how much a value is outside; 0 or less: it is within.
    fn miss(self, ours: f64) -> f64 {
        // Percentages come from divisions: a value on the edge is inside.
        let edge = 1e-9;
        let (low, high) = match self {
            Expect::Near { value, tolerance } => (value - tolerance, value + tolerance),
            Expect::AtLeast(low) => (low, f64::INFINITY),
            Expect::AtMost(high) => (f64::NEG_INFINITY, high),
            Expect::Between(low, high) => (low, high),
        };
        (low - ours).max(ours - high) - edge
    }

    fn text(self) -> String {
        match self {
            Expect::Near { value, tolerance } => format!("{} ±{}", short(value), short(tolerance)),
            Expect::AtLeast(low) => format!("≥ {}", short(low)),
            Expect::AtMost(high) => format!("≤ {}", short(high)),
            Expect::Between(low, high) => format!("{} to {}", short(low), short(high)),
        }
    }
}

/// A claim beside what the model gave.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What the paper says, in words.
    pub claim: String,
    /// Where it says so.
    pub source: &'static str,
    /// The paper's value with its tolerance.
    pub paper: String,
    /// The model's.
    pub ours: String,
    /// The model's as a number, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Whether they agree.
    pub holds: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was measured on GPUs of today, and where that stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today: Option<String>,
}

impl Verdict {
    /// Adds what explains a difference; nothing where there is none.
    #[must_use]
    pub fn because(mut self, reason: impl FnOnce() -> String) -> Verdict {
        if let Some(why) = &mut self.why {
            *why = format!("{why}: {}", reason());
        }
        self
    }

    /// Adds what was measured on GPUs of today.
    #[must_use]
    pub fn today(mut self, measured: String) -> Verdict {
        self.today = Some(measured);
        self
    }
}

/// Three digits that mean something, and none more.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(ours: f64) -> Verdict {
        Claim::near("a is below b", "5.2", 25.0, 10.0, "%").judge(ours)
    }

    #[test]
    fn a_value_within_the_tolerance_holds_and_its_edges_too() {
        for ours in [15.0, 25.0, 35.0, 100.0 * (1.0 - 0.65)] {
            assert!(near(ours).holds, "{ours}");
            assert_eq!(near(ours).why, None);
        }
        assert_eq!((near(24.96).paper, near(24.96).ours), ("25 ±10%".to_owned(), "25%".to_owned()));
    }

    #[test]
    fn a_value_outside_says_by_how_much_and_why() {
        let verdict = near(40.0).because(|| "the launch costs more".to_owned());
        assert!(!verdict.holds);
        assert_eq!(verdict.why.unwrap(), "off by 5% more than the tolerance: the launch costs more");
        assert!(!near(14.9).holds);
        assert!(near(20.0).because(|| unreachable!("it holds")).holds);
    }

    #[test]
    fn what_never_happens_does_not_hold() {
        let claim = || Claim::between("they cross", "5.4", 20.0, 28.0, "nodes");
        let verdict = claim().judge(None);
        assert_eq!((verdict.holds, verdict.ours.as_str()), (false, "never"));
        assert!(verdict.why.unwrap().contains("does not happen"));
        assert!(!claim().judge(f64::NAN).holds);
        assert!(claim().judge(24.0).holds);
        assert_eq!(claim().judge(24.0).paper, "20 to 28 nodes");
    }

    #[test]
    fn bounds_have_one_side() {
        assert!(Claim::at_least("", "", 1.0, "").judge(1.0).holds);
        assert!(!Claim::at_least("", "", 1.0, "").judge(0.99).holds);
        assert!(Claim::at_most("", "", 1.0, "").judge(-5.0).holds);
        assert!(!Claim::at_most("", "", 1.0, "").judge(1.01).holds);
    }

    #[test]
    fn an_order_holds_only_if_strict() {
        let order = |b: f64| Claim::order("quickest first", "5.2", &[("TN", 2.0), ("GDS", b), ("HDN", 4.0)]);
        let verdict = order(3.0);
        assert!(verdict.holds);
        assert_eq!(
            (verdict.paper.as_str(), verdict.ours.as_str()),
            ("TN < GDS < HDN", "TN 2 < GDS 3 < HDN 4")
        );
        for b in [2.0, 4.0, 5.0, f64::NAN] {
            assert!(!order(b).holds, "{b}");
        }
        assert_eq!(order(5.0).why.unwrap(), "GDS is not below HDN");
        assert_eq!(order(5.0).ours, "TN 2 < HDN 4 < GDS 5");
    }
}
