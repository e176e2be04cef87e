//! Prints on standard error why no port could be opened, since programs print only the number of the error code.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::stdio;

/// Most lines of a process, should each reason be another one.
const MOST: usize = 16;

static REPORTED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Prints one line for a port of `library` that could not be opened, with the result's number and what it means. The
/// same reason is told once in a process.
#[cold]
pub(crate) fn not_opened(library: &str, number: impl std::fmt::Display, text: &str) {
    if ggas::members::is_quiet() {
        return;
    }
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let reported = reported.get_or_insert_default();
    if reported.len() < MOST && reported.insert(text.to_owned()) {
        let text = text.replace('\n', " ");
        stdio::print(stdio::err(), &format!("{library}: no port can be opened ({number}): {text}\n"));
    }
}
