//! Modules that come with a Debian kernel, for guests: with all that they need, in the order in which they load.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names and contents of the modules in `folder` that these names need. One that is built into the kernel is none.
pub fn modules(folder: &Path, names: &[String]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut there = BTreeMap::new();
    find(&folder.join("kernel"), &mut there)?;
    let built_in = fs::read_to_string(folder.join("modules.builtin"));
    let built_in = built_in.with_context(|| format!("no modules.builtin in {}", folder.display()))?;
    let built_in = built_in.lines().filter_map(|line| name_of(Path::new(line))).collect();
    let mut order = Order { there, built_in, done: Vec::new() };
    names.iter().try_for_each(|name| order.add(name))?;
    Ok(order.done)
}

struct Order {
    there: BTreeMap<String, PathBuf>,
    built_in: Vec<String>,
    done: Vec<(String, Vec<u8>)>,
}

impl Order {
    fn add(&mut self, name: &str) -> Result<()> {
        let is = |other: &String| other == name;
        if self.built_in.iter().any(is) || self.done.iter().any(|(other, _)| is(other)) {
            return Ok(());
        }
        let path = self.there.get(name).with_context(|| format!("the kernel has no module {name}"))?;
        let bytes = content(path)?;
        for needed in needs(&bytes).with_context(|| format!("{} says not what it needs", path.display()))? {
            self.add(&needed)?;
        }
        self.done.push((name.to_owned(), bytes));
        Ok(())
    }
}

/// Adds the modules of a folder and those below.
fn find(folder: &Path, all: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, all)?;
        } else if let Some(name) = name_of(&path) {
            all.insert(name, path);
        }
    }
    Ok(())
}

/// A module's name, by its file's: the kernel writes `_` where files may have `-`.
fn name_of(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_string_lossy();
    let (name, end) = file.split_once('.')?;
    ["ko", "ko.xz"].contains(&end).then(|| name.replace('-', "_"))
}

fn content(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_none_or(|end| end != "xz") {
        return fs::read(path).with_context(|| format!("no {}", path.display()));
    }
    let out = Command::new("xz").arg("-dc").arg(path).output().context("xz does not run")?;
    if !out.status.success() {
        bail!("xz -dc {}: {}", path.display(), String::from_utf8_lossy(&out.stderr));
    }
    Ok(out.stdout)
}

/// What a module says of itself: strings behind each other, each with a zero byte at its end.
fn needs(module: &[u8]) -> Option<Vec<String>> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|bytes| bytes == KEY)? + KEY.len();
    let end = at + module[at..].iter().position(|byte| *byte == 0)?;
    let names = String::from_utf8_lossy(&module[at..end]).replace('-', "_");
    Some(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_behind_what_they_need() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("kernel/net");
        fs::create_dir_all(&kernel).unwrap();
        let module = |name: &str, needs: &str| {
            fs::write(kernel.join(name), format!("x\0license=GPL\0depends={needs}\0name=y\0")).unwrap();
        };
        module("top.ko", "left-side,right,inside");
        module("left-side.ko", "base");
        module("right.ko", "base");
        module("base.ko", "");
        fs::write(dir.path().join("modules.builtin"), "kernel/lib/inside.ko\n").unwrap();
        let order = |name: &str| {
            let all = modules(dir.path(), &[name.to_owned()])?;
            anyhow::Ok(all.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(order("top").unwrap(), "base left_side right top");
        assert_eq!(order("inside").unwrap(), "");
        assert!(order("none").unwrap_err().to_string().contains("no module none"));
    }
}
