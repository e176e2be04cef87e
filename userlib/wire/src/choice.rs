//! Which library and provider carry messages between hosts: the one place that decides it.

use std::fmt;

use crate::error::WireError;
use crate::gpu::{self, GpuChoice, GpuWay};
use crate::library::{Library, Version};
use crate::offer::Offer;

/// The variable that asks for a library or for one of its providers.
const ASKED: &str = "GGAS_FABRIC";
/// From here on libfabric's `tcp` has endpoints for reliable datagrams of its own. The first of them, `net` of 1.17, loses
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
    /// How what is in GPU memory travels.
    pub gpu: GpuChoice,
}

/// Why a provider was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `GGAS_FABRIC` names it, or its library.
    Asked,
    /// It is the first that `FI_PROVIDER` or `UCX_TLS` leaves.
    Filtered,
    /// Nobody asked for another one.
    Usual,
    /// The library that is usual cannot be used here.
    Instead,
}

impl Choice {
    /// The value of `GGAS_FABRIC` that asks for it.
    pub fn word(&self) -> String {
        format!("{}:{}", self.library.word(), self.offer.provider)
    }

    /// What both ends of a connection have to have alike: UCX speaks only to its own version.
    pub fn speaks(&self) -> String {
        match self.library {
            Library::Libfabric => self.offer.provider.clone(),
            Library::Ucx => format!("{} of {} {}", self.offer.provider, self.library, self.version),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}: ", self.offer.provider, self.library, self.version)?;
        match self.reason {
            Reason::Asked => f.write_str("GGAS_FABRIC asks for it"),
            Reason::Filtered => write!(f, "the first that {} leaves", self.library.filter()),
            Reason::Usual if self.library == Library::Ucx => {
                f.write_str("GGAS_FABRIC asks for UCX, and this is usual")
            }
            Reason::Usual => f.write_str("the usual one of this version"),
            Reason::Instead => f.write_str("libfabric, which comes first, cannot be used here"),
        }
    }
}

/// What a program takes that is started here: the library that `GGAS_FABRIC` names (`libfabric`, `ucx`), else libfabric, or UCX
/// where libfabric is not installed; of it the provider that `GGAS_FABRIC` names (`libfabric:PROVIDER`), else the first that is
/// fit of those that `FI_PROVIDER` or `UCX_TLS` leaves, else `tcp`, or libfabric's `tcp;ofi_rxm` where that is older than 1.18.
/// Others are never taken unasked.
pub fn choose() -> Result<Choice, WireError> {
    gpu::asked()?; // what is wrong with that is wrong with each library
    let value = match std::env::var(ASKED) {
        Ok(value) => value,
        Err(std::env::VarError::NotPresent) => String::new(),
        Err(std::env::VarError::NotUnicode(value)) => {
            return Err(WireError::Word { value: value.to_string_lossy().into_owned() });
        }
    };
    if let Some((library, provider)) = asked_in(&value)? {
        return candidates(library)?.pick(provider);
    }
    let libfabric = match candidates(Library::Libfabric) {
        Ok(libfabric) => return libfabric.pick(None),
        Err(error) => Box::new(error),
    };
    match candidates(Library::Ucx) {
        Ok(ucx) => Ok(Choice { reason: Reason::Instead, ..ucx.pick(None)? }),
        Err(ucx) => Err(WireError::Nothing { libfabric, ucx: Box::new(ucx) }),
    }
}

/// What is taken of a library where nobody names a provider.
pub fn choose_of(library: Library) -> Result<Choice, WireError> {
    candidates(library)?.pick(None)
}

fn candidates(library: Library) -> Result<Candidates, WireError> {
    let filter = std::env::var_os(library.filter()).is_some_and(|value| !value.is_empty());
    let (version, offers, gpu) = (library.version()?, library.offers()?, gpu::asked()?);
    Ok(Candidates { library, version, offers, filter, gpu })
}

/// The library that a value of `GGAS_FABRIC` names, and its provider.
fn asked_in(value: &str) -> Result<Option<(Library, Option<&str>)>, WireError> {
    if value.is_empty() {
        return Ok(None);
    }
    let (word, provider) = match value.split_once(':') {
        Some((word, provider)) => (word, Some(provider)),
        None => (value, None),
    };
    match Library::ALL.into_iter().find(|library| library.word() == word) {
        Some(library) if provider != Some("") => Ok(Some((library, provider))),
        _ => Err(WireError::Word { value: value.to_owned() }),
    }
}

/// What there is to choose from.
struct Candidates {
    library: Library,
    version: Version,
    offers: Vec<Offer>,
    /// The library hides some of its providers.
    filter: bool,
    /// How GPU memory is to travel.
    gpu: Option<GpuWay>,
}

impl Candidates {
    fn pick(self, asked: Option<&str>) -> Result<Choice, WireError> {
        let usual: &[&str] = match self.library {
            Library::Ucx => &["tcp"],
            Library::Libfabric if self.version >= TCP => &["tcp", "tcp;ofi_rxm"],
            Library::Libfabric => &["tcp;ofi_rxm"],
        };
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
        let gpu = GpuChoice::of(self.library, offer, self.gpu)?;
        Ok(Choice { library: self.library, version: self.version, offer: offer.clone(), reason, gpu })
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

    fn filtered(&self) -> String {
        match self.filter {
            true => format!(" ({} hides all but those that it names)", self.library.filter()),
            false => String::new(),
        }
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
            keeps_order: true,
            sleeps: true,
            gpu_memory: false,
            rdma: false,
        };
        let version = Version { major: 1, minor };
        Candidates {
            library: Library::Libfabric,
            version,
            offers: offers.iter().map(offer).collect(),
            filter,
            gpu: None,
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
        assert!(matches!(asked_in(""), Ok(None)));
        assert!(matches!(asked_in("libfabric"), Ok(Some((Library::Libfabric, None)))));
        assert!(matches!(
            asked_in("libfabric:tcp;ofi_rxm"),
            Ok(Some((Library::Libfabric, Some("tcp;ofi_rxm"))))
        ));
        assert!(matches!(asked_in("ucx"), Ok(Some((Library::Ucx, None)))));
        assert!(matches!(asked_in("ucx:rc,self"), Ok(Some((Library::Ucx, Some("rc,self"))))));
        for wrong in ["tcp", "libfabric:", "ucx:", "UCX", "Libfabric"] {
            let error = asked_in(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("ggas info"), "{error}");
        }
    }

    #[test]
    fn transports_of_ucx() {
        let ucx = |offers: &[(&str, bool)], filter| Candidates {
            library: Library::Ucx,
            ..with(13, offers, filter)
        };
        let both = &[("tcp", true), ("all", true)];
        assert_eq!(picked(ucx(both, false), None), ("tcp".to_owned(), Reason::Usual));
        assert_eq!(picked(ucx(both, false), Some("all")).0, "all");
        assert_eq!(picked(ucx(&[("rc,self", true)], true), None), ("rc,self".to_owned(), Reason::Filtered));
        let error = ucx(&[("rc", false)], true).pick(None).unwrap_err().to_string();
        assert!(error.contains("UCX_TLS") && error.contains("GGAS_FABRIC=ucx:"), "{error}");
        // Processes with other versions of it are told so.
        let choice = ucx(both, false).pick(None).unwrap();
        assert_eq!(choice.speaks(), "tcp of UCX 1.13");
    }
}
