//! The Fortran modules of GASPI's calls, from the C headers that declare them.
//!
//! What a call only reads is passed by value, and what it gives is `intent(out)`. Lists, buffers and texts that it gives are
//! addresses (`c_ptr`); C does not tell a list from a single result, so calls with lists are known by their names.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

const FOLDER: &str = "userlib/gaspi/c";
/// Longest line of what is written.
const LINE: usize = 128;

/// A module, its header, and what is said at its top.
pub struct Module {
    name: &'static str,
    about: &'static str,
}

pub const MODULES: [Module; 2] = [
    Module {
        name: "GASPI",
        about: "Lists and vectors are addresses (c_loc); what a call only reads is passed by value.",
    },
    Module { name: "GASPI_Ext", about: "Texts end with c_null_char; formats take no arguments." },
];

impl Module {
    /// Where it is checked in.
    pub fn output(&self) -> String {
        format!("{FOLDER}/fortran/{}.f90", self.name)
    }

    /// Its text.
    pub fn text(&self, root: &Path) -> Result<String> {
        let header = format!("{FOLDER}/include/{}.h", self.name);
        let text =
            std::fs::read_to_string(root.join(&header)).with_context(|| format!("cannot read {header}"))?;
        let calls = calls(&text).with_context(|| header.clone())?;
        let interfaces =
            calls.iter().map(Call::text).collect::<Result<Vec<_>>>().with_context(|| header.clone())?;
        let Module { name, about } = self;
        Ok(format!(
            "! SPDX-License-Identifier: MIT OR Apache-2.0\n\
             !\n\
             ! The calls of {name}.h, from which `cargo xtask facts` writes this: do not edit.\n\
             ! {about}\n\
             module {name}\n  use, intrinsic :: iso_c_binding\n  use GASPI_types\n  implicit none\n  interface\n{}  \
             end interface\nend module {name}\n",
            interfaces.join("\n")
        ))
    }
}

/// A call as C declares it: name, type of its result, and its arguments by type and name.
struct Call {
    name: String,
    result: String,
    arguments: Vec<(String, String)>,
}

/// The declarations of a header.
fn calls(header: &str) -> Result<Vec<Call>> {
    let mut plain = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        plain += before;
        rest = comment.split_once("*/").context("a comment does not end")?.1;
    }
    plain += rest;
    let lines = plain.lines().filter(|line| !line.starts_with('#') && !line.starts_with("extern"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let declarations = text.split(';').filter(|declaration| declaration.contains('('));
    declarations.map(|declaration| call(declaration).with_context(|| declaration.trim().to_owned())).collect()
}

fn call(declaration: &str) -> Result<Call> {
    let (head, arguments) = declaration.split_once('(').context("no call")?;
    let arguments = arguments.trim().strip_suffix(')').context("no end of the arguments")?;
    let (result, name) = typed(head)?;
    let arguments = arguments.split(',').map(str::trim).filter(|one| !["void", "..."].contains(one));
    Ok(Call { name, result, arguments: arguments.map(typed).collect::<Result<_>>()? })
}

/// Type and name of a declaration; the type ends with `*` where it is an address.
fn typed(text: &str) -> Result<(String, String)> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let at = text.rfind([' ', '*']).context("no name")? + 1;
    Ok((text[..at].trim().replace(" *", "*"), text[at..].to_owned()))
}

impl Call {
    fn has_lists(&self) -> bool {
        ["_list", "_list_notify", "_ranks"].iter().any(|end| self.name.ends_with(end))
    }

    fn text(&self) -> Result<String> {
        let result = if self.result == "void" { None } else { Some(fortran(&self.result)?) };
        let mut lines = Vec::new();
        let mut kinds = BTreeSet::new();
        for (kind, name) in &self.arguments {
            let (declared, used) = self.argument(kind)?;
            kinds.insert(used);
            let dimension = if kind == "const char*" { "(*)" } else { "" };
            lines.push(format!("      {declared} :: {name}{dimension}\n"));
        }
        let what = if result.is_some() { "function" } else { "subroutine" };
        let answer = if result.is_some() { "result(res) " } else { "" };
        if let Some((declared, used)) = result {
            kinds.insert(used);
            lines.push(format!("      {declared} :: res\n"));
        }
        let name = &self.name;
        let names: Vec<&str> = self.arguments.iter().map(|(_, name)| name.as_str()).collect();
        let head = format!("    {what} {name}({}) {answer}bind(C, name=\"{name}\")", names.join(", "));
        let kinds: Vec<String> = kinds.into_iter().collect();
        let import = match kinds.is_empty() {
            true => String::new(),
            false => wrapped(&format!("      import :: {}", kinds.join(", "))) + "\n",
        };
        Ok(format!("{}\n{import}{}    end {what} {name}\n", wrapped(&head), lines.concat()))
    }

    /// How an argument is declared, and the kind that this needs.
    fn argument(&self, kind: &str) -> Result<(String, String)> {
        let address = ("type(c_ptr), value".to_owned(), "c_ptr".to_owned());
        match kind.strip_suffix('*') {
            Some("const char") => Ok(("character(kind=c_char), intent(in)".to_owned(), "c_char".to_owned())),
            Some(_) if self.has_lists() => Ok(address),
            Some(kind) => fortran(kind).map(|(declared, used)| (format!("{declared}, intent(out)"), used)),
            None => fortran(kind).map(|(declared, used)| (format!("{declared}, value"), used)),
        }
    }
}

/// A type of C, and the kind that is imported for it.
fn fortran(kind: &str) -> Result<(String, String)> {
    let (class, used) = match kind {
        "float" => ("real", "c_float"),
        "unsigned long" => ("integer", "c_long"),
        "gaspi_uchar" => ("integer", "c_signed_char"),
        "gaspi_time_t" => ("real", kind),
        "gaspi_config_t" => ("type", kind),
        "gaspi_reduce_operation_t" => ("type", "c_funptr"),
        "gaspi_pointer_t" | "gaspi_string_t" | "gaspi_reduce_state_t" | "gaspi_state_vector_t" => {
            ("type", "c_ptr")
        }
        _ if kind.starts_with("gaspi_") && kind.ends_with("_t") => ("integer", kind),
        _ => bail!("{kind} has no Fortran type: say in tools/facts/src/fortran.rs what it is"),
    };
    Ok((format!("{class}({used})"), used.to_owned()))
}

/// Breaks a line behind commas.
fn wrapped(line: &str) -> String {
    let (mut text, mut length) = (String::new(), 0);
    for word in line.split_inclusive(", ") {
        if length + word.len() > LINE - 2 && length > 0 {
            text = text.trim_end().to_owned() + " &\n      ";
            length = 6;
        }
        text += word;
        length += word.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(declaration: &str) -> String {
        calls(declaration).unwrap().iter().map(|call| call.text().unwrap()).collect()
    }

    #[test]
    fn results_are_intent_out_and_lists_are_addresses() {
        let single =
            written("gaspi_return_t gaspi_group_size(gaspi_group_t group, gaspi_number_t *group_size);");
        assert!(single.contains("integer(gaspi_number_t), intent(out) :: group_size\n"), "{single}");
        assert!(single.contains("integer(gaspi_group_t), value :: group\n"), "{single}");
        let list = written(
            "/* a */ gaspi_return_t gaspi_group_ranks(gaspi_group_t group, gaspi_rank_t *group_ranks);",
        );
        assert!(list.contains("type(c_ptr), value :: group_ranks\n"), "{list}");
        // A number about lists is none.
        let number = written("gaspi_return_t gaspi_rw_list_elem_max(gaspi_number_t *elem_max);");
        assert!(number.contains("integer(gaspi_number_t), intent(out) :: elem_max\n"), "{number}");
        let text = written("void gaspi_printf(const char *fmt, ...);");
        assert!(
            text.starts_with("    subroutine gaspi_printf(fmt) bind(C, name=\"gaspi_printf\")\n"),
            "{text}"
        );
    }

    #[test]
    fn what_has_no_type_is_said() {
        let error = calls("int gaspi_new(double x);").unwrap()[0].text().unwrap_err().to_string();
        assert!(error.starts_with("int has no Fortran type"), "{error}");
    }
}
