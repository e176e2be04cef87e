//! Machine files.

use std::collections::HashMap;
use std::net::{ToSocketAddrs, UdpSocket};

/// How many processes the text of a machine file asks for, all on the host of this name.
///
/// # Errors
/// What is wrong with it, with the number of the line where it is one line.
pub fn processes(text: &[u8], host: &str, most: Option<u32>) -> Result<u32, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = std::str::from_utf8(line).map_err(|_| format!("line {number} is no text (UTF-8)"))?;
        let name = line.split('#').next().unwrap_or_default().trim();
        if !name.is_empty() {
            lines.push((number, name));
        }
    }
    if lines.is_empty() {
        return Err(format!("it names no host: write {host} in a line for each process"));
    }
    let count = most.unwrap_or(lines.len() as u32);
    if count as usize > lines.len() {
        return Err(format!("it has lines for {} processes, and -n asks for {count}", lines.len()));
    }
    let mut known = HashMap::new();
    for (number, name) in &lines[..count as usize] {
        if !*known.entry(*name).or_insert_with(|| is_here(name, host)) {
            return Err(format!(
                "line {number}: {name} is not this host ({host}): for processes of other hosts use \
                 `ggas run --host {name}:N,...`"
            ));
        }
    }
    Ok(count)
}

/// Whether a name is that of this host: its own, whole or without the domain, or one of an address of this host.
fn is_here(name: &str, host: &str) -> bool {
    let short = host.split('.').next().unwrap_or_default();
    [host, short, "localhost"].contains(&name) || is_own_address(name)
}

/// Only an own address can be bound to.
fn is_own_address(name: &str) -> bool {
    let addresses = (name, 0).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|address| UdpSocket::bind(address).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_file_names_this_host() {
        let count = |text: &str, most| processes(text.as_bytes(), "me.example.org", most);
        assert_eq!(count("me\nme.example.org\nlocalhost\n127.0.0.1\n", None), Ok(4));
        assert_eq!(count("# two\n\nme # one\nme\r\n  \n", None), Ok(2));
        assert_eq!(count("me\n192.0.2.7\n", Some(1)), Ok(1), "further lines are not looked at");
        let other = count("# hosts\nme\n192.0.2.7\n", None).unwrap_err();
        assert!(
            other.starts_with("line 3: 192.0.2.7 is not") && other.contains("ggas run --host"),
            "{other}"
        );
        // The same first word is not the same host.
        assert!(count("me.invalid\n", None).unwrap_err().starts_with("line 1: me.invalid"));
    }

    #[test]
    fn a_file_without_hosts_is_told() {
        for empty in ["", "\n# me\n"] {
            let told = processes(empty.as_bytes(), "me", None).unwrap_err();
            assert!(told.contains("names no host: write me"), "{told}");
        }
        assert!(processes(b"me\n\xff\n", "me", None).unwrap_err().starts_with("line 2 is no text"));
        assert!(processes(b"me\n", "me", Some(2)).unwrap_err().contains("-n asks for 2"));
    }
}
