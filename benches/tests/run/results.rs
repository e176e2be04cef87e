//! The pages of `results/` and the files that they cite belong together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ggas_coll::Tuning;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// All files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn with_extension(extension: &str) -> Vec<PathBuf> {
    let found: Vec<_> = files(&folder())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    assert!(!found.is_empty(), "no file ends in .{extension}");
    found
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Where the links and pictures of a page lead, without those to other hosts: what stands between `](` and `)`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link.split('#').next().unwrap_or(link))
        .filter(|link| !link.is_empty() && !link.contains("://"))
}

/// The files that the pages link to, and the links that lead nowhere.
fn linked() -> (BTreeSet<PathBuf>, Vec<String>) {
    let (mut targets, mut dead) = (BTreeSet::new(), Vec::new());
    for path in with_extension("md") {
        for link in links(&text(&path)) {
            match path.with_file_name(link).canonicalize() {
                Ok(target) => _ = targets.insert(target),
                Err(_) => dead.push(format!("{}: {link}", path.display())),
            }
        }
    }
    (targets, dead)
}

#[test]
fn links_of_pages_lead_to_files() {
    let (targets, dead) = linked();
    assert!(targets.len() > 50, "only {} links: are they written in another way now?", targets.len());
    assert!(dead.is_empty(), "links to what is not there:\n{}", dead.join("\n"));
}

#[test]
fn every_file_is_cited() {
    let (targets, _) = linked();
    let index = folder().join("README.md").canonicalize().unwrap();
    let is_orphan = |path: &PathBuf| *path != index && !targets.contains(path);
    let all = files(&folder()).into_iter().map(|path| path.canonicalize().unwrap());
    let orphans: Vec<_> = all.filter(is_orphan).map(|path| path.display().to_string()).collect();
    assert!(orphans.is_empty(), "no page of results cites, so cite or delete:\n{}", orphans.join("\n"));
}

#[test]
fn every_json_is_whole() {
    let parse = |path: &Path, json: &str| -> serde_json::Value {
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    for path in with_extension("json") {
        let result = parse(&path, &text(&path));
        if result.get("choices").is_some() {
            // A table that `ggas tune` wrote.
            Tuning::read(&path).unwrap_or_else(|e| panic!("{e}"));
            continue;
        }
        assert_eq!(result["verified"], true, "{}: wrong data", path.display());
        let rows = result["rows"].as_array().map_or(0, Vec::len);
        assert!(rows > 0, "{}: no rows", path.display());
    }
    for path in with_extension("jsonl") {
        for line in text(&path).lines() {
            let figure = parse(&path, line);
            assert!(figure["value"].is_number(), "{}: {line}", path.display());
        }
    }
}
