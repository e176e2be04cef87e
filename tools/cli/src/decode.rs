//! `ggas decode`: words of a requester page or a notification queue, in words.

use crate::failure::Failure;
use crate::out;
use extoll_abi::{Address, Body, Descriptor, Header, Modifier, Notification, NotificationHeader, Request};
use std::fmt::{Display, Write};
use std::io::{BufRead, IsTerminal};

#[derive(clap::Args)]
pub struct DecodeArgs {
    /// Three hex words of a descriptor or two of a notification, in the order in which they lie in memory;
    /// 0x and underscores are allowed. None: one of either per line of standard input
    words: Vec<String>,
}

pub fn run(args: &DecodeArgs) -> Result<(), Failure> {
    if !args.words.is_empty() {
        return show(&args.words.join(" "));
    }
    if std::io::stdin().is_terminal() {
        out::note("ggas: reading words from standard input, a descriptor or a notification a line\n");
    }
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let at = |text| format!("line {}: {text}", number + 1);
        let line = line.map_err(|error| Failure::Usage(at(error.to_string())))?;
        let content = line.split('#').next().unwrap_or("").trim();
        if !content.is_empty() {
            show(content).map_err(|failure| match failure {
                Failure::Usage(text) => Failure::Usage(at(text)),
                Failure::Failed(text) => Failure::Failed(at(text)),
                other => other,
            })?;
        }
    }
    Ok(())
}

fn show(text: &str) -> Result<(), Failure> {
    let words = parse(text).map_err(Failure::Usage)?;
    let (text, illegal) = match words[..] {
        [a, b, c] => descriptor(&Descriptor { word: [a, b, c] }),
        [a, b] => notification(&Notification { word0: a, word1: b }),
        _ => {
            return Err(Failure::Usage(format!(
                "{} words: give three for a descriptor or two for a notification",
                words.len()
            )));
        }
    };
    out::print(&text)?;
    illegal.map_or(Ok(()), |why| Err(Failure::Failed(why)))
}

fn parse(text: &str) -> Result<Vec<u64>, String> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    words.map(word).collect()
}

fn word(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let digits = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")).unwrap_or(&plain);
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(format!("`{text}` is no hex number: write up to 16 hex digits, such as 0x100001fff0f"));
    }
    u64::from_str_radix(digits, 16)
        .map_err(|_| format!("`{text}` has more than 64 bits: write up to 16 hex digits"))
}

/// Lines of a name and a value each.
struct Lines(String);

impl Lines {
    fn new(title: &str) -> Self {
        Lines(format!("{title}\n"))
    }

    fn add(&mut self, name: &str, value: impl Display) -> &mut Self {
        let _ = writeln!(self.0, "  {name:<14} {value}");
        self
    }

    fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.add(name, format_args!("{value:#018x}"))
    }
}

/// The text, and why the words are no command that the card carries out.
fn descriptor(descriptor: &Descriptor) -> (String, Option<String>) {
    let mut lines = Lines::new("descriptor");
    let Header { command, dst, spec, modifier } = descriptor.header();
    lines.add("command", command);
    let group = modifier.contains(Modifier::MC);
    lines.add("to", if group { multicast(dst) } else { dst.to_string() });
    lines.add("notifications", spec).add("modifiers", modifier);
    let illegal = match descriptor.decode() {
        Ok((_, request)) => {
            parameters(&mut lines, &request);
            None
        }
        Err(error) => {
            lines.number("word 1", descriptor.word[1]).number("word 2", descriptor.word[2]);
            Some(error.to_string())
        }
    };
    for (i, bits) in descriptor.reserved_bits().into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
        lines.add("remark", format_args!("word {i} has bits set that this command leaves 0: {bits:#x}"));
    }
    (lines.0, illegal)
}

fn multicast(dst: Address) -> String {
    format!("multicast group {} vpid {}", dst.node, dst.vpid)
}

fn parameters(lines: &mut Lines, request: &Request) {
    match *request {
        Request::Put { read, write, size, .. } => {
            lines.number("local read", read).number("remote write", write).add("bytes", size);
        }
        Request::Get { read, write, size, .. } => {
            lines.number("remote read", read).number("local write", write).add("bytes", size);
        }
        Request::NotificationPut { class, payload } => {
            lines.add("class", class).number("payload", payload);
        }
        Request::ImmediatePut { count, write, value } => {
            lines.number("remote write", write).add("bytes", count).number("value", value);
        }
        Request::Lock { to_responder, number, compare, add } => {
            let unit = if to_responder { "the responder's" } else { "the completer's" };
            lines.add("lock", format_args!("{unit}, number {number}"));
            lines.add("if at most", compare).add("then add", add);
        }
    }
}

fn notification(notification: &Notification) -> (String, Option<String>) {
    let mut lines = Lines::new("notification");
    let (header, body) = match notification.decode() {
        Ok(parts) => parts,
        Err(error) => {
            lines.number("word 0", notification.word0).number("word 1", notification.word1);
            return (lines.0, Some(error.to_string()));
        }
    };
    let NotificationHeader { kind, command, remote, mode, error } = header;
    lines.add("written by", format_args!("the {kind}")).add("command", command);
    lines.add("other side", remote).add("mode", mode).add("errors", error);
    match body {
        Body::Transfer { size, address } => {
            lines.number("last fragment", address).add("its bytes", size);
        }
        Body::Class { class, payload } => {
            lines.add("class", class).number("payload", payload);
        }
        Body::Immediate { count, value } => {
            lines.add("bytes", count).number("value", value);
        }
        Body::Lock { number, result, value } => {
            lines.add("lock", number).add("added", if result == 1 { "yes" } else { "no" });
            lines.add("value", value);
        }
        Body::Unknown { field, word0 } => {
            lines.number("word 0", word0).add("field 22:0", format_args!("{field:#x}"));
        }
    }
    (lines.0, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_with_and_without_prefix() {
        assert_eq!(parse("0x10 ff, 0Xdead_beef"), Ok(vec![16, 255, 0xdead_beef]));
        assert_eq!(parse("ffffffffffffffff"), Ok(vec![u64::MAX]));
    }

    #[test]
    fn garbage_is_named() {
        for text in ["0x", "_", "xyz", "0x1g", "+1", "-1", "11111111111111111", "é"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
