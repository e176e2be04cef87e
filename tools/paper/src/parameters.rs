use std::collections::BTreeMap;

use extoll_sim::timed::{Ps, System};

use crate::Settings;
use crate::report::Parameter;

/// All parameters of a built-in system with their sources; none where others were asked for, which have no known
/// ones.
pub(crate) fn parameters(settings: &Settings, system: &str) -> Vec<Parameter> {
    let text = System::text(system).ok().filter(|_| settings.system.is_none());
    text.map_or_else(Vec::new, of_text)
}

/// Entries `name = value # source` below their `[table]`.
pub(crate) fn of_text(text: &str) -> Vec<Parameter> {
    let mut table = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = name;
        }
        let Some((name, rest)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else { continue };
        let (value, source) = rest.split_once('#').unwrap_or((rest, ""));
        let name = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
        let value = value.trim().trim_matches('"').to_owned();
        found.push(Parameter { name, value, source: source.trim().to_owned() });
    }
    found
}

/// Numbers of such a text, by name.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    pub(crate) fn of(text: &str) -> Numbers {
        let number = |entry: Parameter| Some((entry.name, entry.value.parse().ok()?));
        Numbers(of_text(text).into_iter().filter_map(number).collect())
    }

    /// No number where there is none of that name.
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }

    /// The same but for one of them.
    pub(crate) fn with(&self, name: &str, value: f64) -> Numbers {
        let mut numbers = self.clone();
        numbers.0.insert(name.to_owned(), value);
        numbers
    }

    /// Whether there is one.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// An entry in nanoseconds.
    pub(crate) fn ns(&self, name: &str) -> Ps {
        Ps::ns(self.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_table_and_source() {
        let found =
            of_text("# a = comment\nname = \"x\"\n\n[gpu]\nsms = 24     # Table 2: 24 compute units\n");
        let shown: Vec<_> =
            found.iter().map(|p| (p.name.as_str(), p.value.as_str(), p.source.as_str())).collect();
        assert_eq!(shown, [("name", "x", ""), ("gpu.sms", "24", "Table 2: 24 compute units")]);
    }

    #[test]
    fn every_parameter_of_the_built_in_files_names_its_source() {
        for system in System::NAMES {
            let found = parameters(&Settings::default(), system);
            assert!(found.len() > 40, "{system}: {}", found.len());
            let bare: Vec<_> = found.iter().filter(|p| p.source.is_empty() && p.name != "name").collect();
            assert!(bare.is_empty(), "{system}: {bare:?}");
        }
    }
}
