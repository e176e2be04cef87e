//! `gaspi_logger [-p PORT]`: prints what `gaspi_printf` sends to this host.

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::ExitCode;

const USAGE: &str = "\
usage: gaspi_logger [-p PORT]
  -p, --port PORT  where to listen, 1024 to 65535; programs send to 17825
  -h, --help       this text
";
/// Where programs send to.
const PORT: u16 = 17825;
/// More than a text has.
const ROOM: usize = 2048;

/// The port; `None`: help is wanted.
fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<u16>, String> {
    let (mut arguments, mut port) = (arguments.into_iter(), PORT);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "--help" => return Ok(None),
            "-p" | "--port" => {
                let value =
                    arguments.next().and_then(|value| value.parse().ok()).filter(|port| *port >= 1024);
                port = value.ok_or("-p needs a port from 1024 to 65535")?;
            }
            _ => return Err(format!("there is no option {argument}")),
        }
    }
    Ok(Some(port))
}

fn run() -> Result<(), String> {
    let Some(port) = parse(std::env::args().skip(1))? else {
        print!("{USAGE}");
        return Ok(());
    };
    let socket =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| format!("port {port}: {error}"))?;
    let (mut out, mut text) = (std::io::stdout(), [0; ROOM]);
    loop {
        let bytes = socket.recv(&mut text).map_err(|error| error.to_string())?;
        // Whoever read it has gone.
        if out.write_all(&text[..bytes]).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("gaspi_logger: {error}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_below_1024_are_refused() {
        let parse = |words: &[&str]| parse(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(parse(&[]), Ok(Some(17825)));
        assert_eq!(parse(&["-p", "1024"]), Ok(Some(1024)));
        assert_eq!(parse(&["-h"]), Ok(None));
        for bad in [&["-p"][..], &["-p", "1023"], &["-p", "x"], &["x"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
