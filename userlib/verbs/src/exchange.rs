//! What peers tell each other before they can talk, as bytes: they go whatever way the program has (thesis 5.5.1).

use std::net::IpAddr;

use crate::VerbsError;

/// A queue pair, for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address of the adapter; in place of InfiniBand's LID.
    pub address: IpAddr,
    /// Number of the queue pair.
    pub qp: u32,
    /// First sequence number of its requests.
    pub psn: u32,
}

/// A region, for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Its key.
    pub rkey: u32,
}

impl Endpoint {
    /// Bytes for the peer: 24.
    pub fn to_bytes(&self) -> [u8; 24] {
        let address = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&address.octets());
        bytes[16..20].copy_from_slice(&self.qp.to_be_bytes());
        bytes[20..].copy_from_slice(&self.psn.to_be_bytes());
        bytes
    }

    /// Reads the peer's bytes.
    ///
    /// # Errors
    /// [`VerbsError::Bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Endpoint, VerbsError> {
        let bytes: &[u8; 24] = bytes.try_into().map_err(|_| VerbsError::Bytes("an endpoint"))?;
        let [address @ .., q0, q1, q2, q3, p0, p1, p2, p3] = *bytes;
        let address = std::net::Ipv6Addr::from(address);
        let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
        let (qp, psn) = (u32::from_be_bytes([q0, q1, q2, q3]), u32::from_be_bytes([p0, p1, p2, p3]));
        if qp >> 24 != 0 || psn >> 24 != 0 || address.is_unspecified() {
            return Err(VerbsError::Bytes("an endpoint"));
        }
        Ok(Endpoint { address, qp, psn })
    }
}

impl RemoteRegion {
    /// Bytes for the peer: 20.
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rkey.to_be_bytes());
        bytes
    }

    /// Reads the peer's bytes.
    ///
    /// # Errors
    /// [`VerbsError::Bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<RemoteRegion, VerbsError> {
        let bad = || VerbsError::Bytes("a region");
        let (address, rest) = bytes.split_first_chunk::<8>().ok_or_else(bad)?;
        let (len, rkey) = rest.split_first_chunk::<8>().ok_or_else(bad)?;
        let rkey = u32::from_be_bytes(rkey.try_into().map_err(|_| bad())?);
        Ok(RemoteRegion { address: u64::from_be_bytes(*address), len: u64::from_be_bytes(*len), rkey })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_tell_is_read_as_written() {
        for address in ["10.0.0.1", "fe80::1"] {
            let endpoint = Endpoint { address: address.parse().unwrap(), qp: 0x12_3456, psn: 0xff_ffff };
            assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes()).unwrap(), endpoint);
        }
        let region = RemoteRegion { address: 1 << 40, len: 77, rkey: 0xdead_beef };
        assert_eq!(RemoteRegion::from_bytes(&region.to_bytes()).unwrap(), region);
        assert!(Endpoint::from_bytes(&[0xff; 24]).is_err());
        assert!(Endpoint::from_bytes(&[0; 24]).is_err(), "nobody's address");
        assert!(Endpoint::from_bytes(&[0; 23]).is_err() && RemoteRegion::from_bytes(&[0; 21]).is_err());
    }
}
