//! What documents and comments point at is there: files, headings, and sections of the card's description.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

/// The documents whose sections are cited: by which word, and how many citations there are at least.
const CITED: [(&str, &str, usize); 2] =
    [("spec", "kmod/uapi/card.md", 400), ("design(?: section)?", "userlib/DESIGN.md", 10)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the suite's folder").to_path_buf()
}

/// Files of the suite with one of these extensions, from its folder on; not those that git ignores.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let root = root();
    let walk = WalkBuilder::new(&root).require_git(false).hidden(false).build();
    let is_meant =
        |path: &PathBuf| path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e));
    let found = walk.map(|entry| entry.expect("a readable folder").into_path());
    found.filter(is_meant).map(|path| path.strip_prefix(&root).expect("below it").to_path_buf()).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The words of the headings of a document, and where its links lead.
#[derive(Default)]
struct Document {
    headings: Vec<String>,
    links: Vec<String>,
}

fn parse(text: &str) -> Document {
    let mut document = Document::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => document.headings.extend(heading.take()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    document
}

/// The anchor that GitHub and GitLab give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// `folder/../file` as `file`; nothing where it leads out of the suite.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => parts.pop().then_some(())?,
            Component::Normal(name) => parts.push(name),
            _ => {}
        }
    }
    Some(parts)
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let paths = files(&["md"]);
    assert!(paths.iter().any(|path| path == Path::new("README.md")), "of {} documents", paths.len());
    let documents: HashMap<_, _> =
        paths.into_iter().map(|path| (path.clone(), parse(&text(&path)))).collect();
    let mut broken = Vec::new();
    for (path, document) in &documents {
        for link in document.links.iter().filter(|link| !link.contains("://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => Some(path.clone()),
                _ => normal(&path.parent().expect("a folder").join(file)),
            };
            let has_anchor = |target: &PathBuf| {
                let headings = documents.get(target).map_or(&[][..], |document| &document.headings);
                fragment.is_empty() || headings.iter().any(|heading| anchor(heading) == fragment)
            };
            if !target.is_some_and(|target| root().join(&target).exists() && has_anchor(&target)) {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    broken.sort();
    assert!(broken.is_empty(), "links to what is not there:\n{}", broken.join("\n"));
}

/// Numbers of a document's sections: `2`, `2.4`, `10.4b`.
fn sections(document: &str) -> BTreeSet<String> {
    let headings = parse(&text(Path::new(document))).headings;
    let number = |heading: &String| {
        let first = heading.split_whitespace().next()?.trim_end_matches('.');
        first.starts_with(|c: char| c.is_ascii_digit()).then(|| first.to_string())
    };
    headings.iter().filter_map(number).collect()
}

/// Citations of sections that `document` does not have, and how many citations there are.
fn citations(word: &str, document: &str) -> (usize, Vec<String>) {
    let known = sections(document);
    // "spec 2.4", "spec 2.1-2.3", "spec 3.1, 3.2 and 8.3", also over the end of a line of comments.
    let number = r"\d+(?:\.\d+[a-z]?)?";
    let gap = r"[\s/*!#]+";
    let more = format!("-|(?:,|;|{gap}and|{gap}or|{gap}to){gap}");
    let citation =
        Regex::new(&format!(r"\b{word}{gap}({number}(?:(?:{more}){number})*)\b")).expect("a pattern");
    let number = Regex::new(number).expect("a pattern");
    let sources = ["rs", "c", "h", "cu", "cuh", "cpp", "md", "sh", "py", "def", "toml"];
    let (mut cited, mut broken) = (0, Vec::new());
    for path in files(&sources) {
        let text = text(&path);
        for found in citation.captures_iter(&text) {
            for section in number.find_iter(&found[1]).filter(|section| !known.contains(section.as_str())) {
                let line = text[..found.get(0).map_or(0, |whole| whole.start())].lines().count();
                broken.push(format!("{}:{line}: section {}", path.display(), section.as_str()));
            }
            cited += 1;
        }
    }
    (cited, broken)
}

#[test]
fn cited_sections_exist() {
    for (word, document, least) in CITED {
        let (cited, broken) = citations(word, document);
        assert!(cited >= least, "{cited} citations of {document}: are they written in another way now?");
        assert!(broken.is_empty(), "sections that {document} has not:\n{}", broken.join("\n"));
    }
}
