//! Which library and provider carry messages between hosts: the one place that decides it.

use std::fmt;

use crate::error::WireError;
use crate::library::{Library, Version};
use crate::offer::Offer;

/// The variable that asks for a library or for one of its providers.
const ASKED: &str = "GGAS_FABRIC";
/// libfabric's own: the library hides all other providers.
const FILTER: &str = "FI_PROVIDER";
/// Candidates here on libfabric's `tcp` has endpoints for reliable datagrams of its own. The first of them, `net` of 1.17, loses
/// wake-ups, so `tcp;ofi_rxm` is taken there.
const TCP: Version = Version { major: 1, minor: 18 };

/// A library and its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The library.
    pub library: Library,
    /// Its version.
    pub version: Version,
    /// What its provider can do.
    pub offer: Offer,
    /// Why it was chosen.
    pub reason: Reason,
}

/// Why a provider was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `GGAS_FABRIC` names it.
    Asked,
    /// It is the first that `FI_PROVIDER` leaves.
    Filtered,
    /// Nobody asked for another one.
    Usual,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason {
            Reason::Asked => "GGAS_FABRIC asks for it",
            Reason::Filtered => "the first that FI_PROVIDER leaves",
            Reason::Usual => "the usual one of this version",
        };
        write!(f, "{} of {} {}: {why}", self.offer.provider, self.library, self.version)
    }
}

/// What a program takes that is started here: the provider that `GGAS_FABRIC` names (`libfabric:PROVIDER`), else the first
/// that is fit of those that `FI_PROVIDER` leaves, else `tcp`, or `tcp;ofi_rxm` where libfabric is older than 1.18. Others
/// are never taken unasked.
pub fn choose() -> Result<Choice, WireError> {
    let asked = match std::env::var(ASKED) {
        Ok(value) => provider_in(&value)?.map(str::to_owned),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(value)) => {
            return Err(WireError::Word { value: value.to_string_lossy().into_owned() });
        }
    };
    let filter = std::env::var_os(FILTER).is_some_and(|value| !value.is_empty());
    let library = Library::Libfabric;
    let candidates = Candidates { library, version: library.version()?, offers: library.offers()?, filter };
    candidates.pick(asked.as_deref())
}

/// The provider that a value of `GGAS_FABRIC` names.
fn provider_in(value: &str) -> Result<Option<&str>, WireError> {
    let refused = || WireError::Word { value: value.to_owned() };
    match value.split_once(':') {
        None if value.is_empty() || value == "libfabric" => Ok(None),
        Some(("libfabric", provider)) if !provider.is_empty() => Ok(Some(provider)),
        _ => Err(refused()),
    }
}

/// What there is to choose from.
struct Candidates {
    library: Library,
    version: Version,
    offers: Vec<Offer>,
    /// The library hides some of its providers.
    filter: bool,
}

impl Candidates {
    fn pick(self, asked: Option<&str>) -> Result<Choice, WireError> {
        let usual: &[&str] = if self.version >= TCP { &["tcp", "tcp;ofi_rxm"] } else { &["tcp;ofi_rxm"] };
        let named = |name: &str| self.offers.iter().find(|offer| offer.provider == name);
        let found = match asked {
            Some(name) => {
                let offer = named(name).ok_or_else(|| self.no_such(name))?;
                if !offer.fit {
                    let provider = name.to_owned();
                    return Err(WireError::Unfit { library: self.library, provider });
                }
                Some((offer, Reason::Asked))
            }
            None if self.filter => {
                self.offers.iter().find(|offer| offer.fit).map(|offer| (offer, Reason::Filtered))
            }
            None => {
                let fit = usual.iter().find_map(|name| named(name).filter(|offer| offer.fit));
                fit.map(|offer| (offer, Reason::Usual))
            }
        };
        let Some((offer, reason)) = found else { return Err(self.none_of(usual)) };
        Ok(Choice { library: self.library, version: self.version, offer: offer.clone(), reason })
    }

    fn no_such(&self, provider: &str) -> WireError {
        WireError::NoSuchProvider {
            library: self.library,
            provider: provider.to_owned(),
            filtered: self.filtered(),
            offered: self.fit_names(),
        }
    }

    fn none_of(&self, usual: &[&str]) -> WireError {
        WireError::NoProvider {
            library: self.library,
            version: self.version.to_string(),
            filtered: self.filtered(),
            wanted: usual.join(", "),
            offered: self.fit_names(),
        }
    }

    fn filtered(&self) -> &'static str {
        if self.filter { " (FI_PROVIDER hides all but those that it names)" } else { "" }
    }

    fn fit_names(&self) -> String {
        let fit: Vec<&str> =
            self.offers.iter().filter(|offer| offer.fit).map(|offer| offer.provider.as_str()).collect();
        if fit.is_empty() { "none that is fit".to_owned() } else { fit.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(minor: u32, offers: &[(&str, bool)], filter: bool) -> Candidates {
        let offer = |(name, fit): &(&str, bool)| Offer {
            provider: (*name).to_owned(),
            device: "eth0".to_owned(),
            write_max: 1 << 30,
            fit: *fit,
            notifies: true,
            sleeps: true,
            gpu_memory: false,
        };
        let version = Version { major: 1, minor };
        Candidates {
            library: Library::Libfabric,
            version,
            offers: offers.iter().map(offer).collect(),
            filter,
        }
    }

    fn picked(candidates: Candidates, asked: Option<&str>) -> (String, Reason) {
        let choice = candidates.pick(asked).unwrap();
        (choice.offer.provider, choice.reason)
    }

    const ALL: &[(&str, bool)] =
        &[("shm", true), ("net", true), ("tcp", true), ("tcp;ofi_rxm", true), ("udp", false)];

    #[test]
    fn the_usual_provider_depends_on_the_version() {
        assert_eq!(picked(with(18, ALL, false), None), ("tcp".to_owned(), Reason::Usual));
        // `tcp` of 1.17 has no such endpoints, whatever it says.
        assert_eq!(picked(with(17, ALL, false), None), ("tcp;ofi_rxm".to_owned(), Reason::Usual));
        let without = &[("tcp", false), ("tcp;ofi_rxm", true)];
        assert_eq!(picked(with(20, without, false), None).0, "tcp;ofi_rxm");
    }

    #[test]
    fn who_asks_gets_it_or_hears_why_not() {
        assert_eq!(picked(with(17, ALL, false), Some("net")), ("net".to_owned(), Reason::Asked));
        let error = with(17, ALL, false).pick(Some("udp")).unwrap_err();
        assert!(matches!(&error, WireError::Unfit { provider, .. } if provider == "udp"), "{error}");
        let error = with(17, ALL, false).pick(Some("psm3")).unwrap_err().to_string();
        assert!(error.contains("psm3") && error.contains("shm, net, tcp, tcp;ofi_rxm"), "{error}");
    }

    #[test]
    fn the_librarys_own_variable_counts() {
        let left = &[("udp", false), ("net", true)];
        assert_eq!(picked(with(17, left, true), None), ("net".to_owned(), Reason::Filtered));
        let error = with(17, &[("udp", false)], true).pick(None).unwrap_err().to_string();
        assert!(error.contains("FI_PROVIDER"), "{error}");
    }

    #[test]
    fn others_are_not_taken_unasked() {
        let error = with(18, &[("shm", true), ("verbs;ofi_rxm", true)], false).pick(None).unwrap_err();
        assert!(matches!(&error, WireError::NoProvider { .. }), "{error}");
        assert!(error.to_string().contains("shm, verbs;ofi_rxm"), "{error}");
    }

    #[test]
    fn values_of_the_variable() {
        assert!(matches!(provider_in(""), Ok(None)));
        assert!(matches!(provider_in("libfabric"), Ok(None)));
        assert!(matches!(provider_in("libfabric:tcp;ofi_rxm"), Ok(Some("tcp;ofi_rxm"))));
        for wrong in ["tcp", "libfabric:", "ucx", "ucx:tcp", "Libfabric"] {
            let error = provider_in(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("ggas info"), "{error}");
        }
    }
}
