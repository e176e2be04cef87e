//! Errors as C programs get them: a class, and a text for each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

use ggas_gmpi::{Class, GmpiError};

/// An error class, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub class: Class,
    pub why: String,
}

impl Failure {
    pub fn new(class: Class, why: impl Display) -> Failure {
        Failure { class, why: why.to_string() }
    }
}

impl From<GmpiError> for Failure {
    fn from(error: GmpiError) -> Failure {
        Failure::new(class_of(&error), error)
    }
}

fn class_of(error: &GmpiError) -> Class {
    match error {
        GmpiError::Failed { class, .. } => *class,
        GmpiError::Kept => Class::COMM,
        GmpiError::Config { .. } => Class::ARG,
        GmpiError::Overlap { .. } => Class::BUFFER,
        GmpiError::Memory(_) | GmpiError::Device(_) | GmpiError::Region(_) => Class::NO_MEM,
        GmpiError::Timeout { .. } | GmpiError::Kernel(_) => Class::TIMEOUT,
        GmpiError::Stuck { .. } | GmpiError::Gone(_) | GmpiError::Thread(_) => Class::DAEMON,
        GmpiError::OpenRequests { .. } | GmpiError::OpenMessages { .. } => Class::PENDING,
        GmpiError::NoPort { .. } => Class::PORT,
        GmpiError::Window(_) => Class::WIN,
        _ => Class::OTHER,
    }
}

/// What a thread's last failed call said, and the text that C has been given.
#[derive(Default)]
struct Said {
    last: Option<Failure>,
    text: CString,
}

thread_local! {
    static SAID: RefCell<Said> = RefCell::default();
}

/// What C gets.
pub(crate) fn code(result: Result<(), Failure>) -> c_int {
    let Err(failure) = result else { return 0 };
    let class = failure.class;
    // A thread that ends has no text any more.
    let _ = SAID.try_with(|said| said.borrow_mut().last = Some(failure));
    class.0 as c_int
}

/// The reason of this thread's last failed call if it gave this class, else what the class means. Not both: a class covers more than one
/// cause, and what it says of another one misleads.
#[unsafe(no_mangle)]
pub extern "C" fn gmpi_error_text(error: c_int) -> *const c_char {
    let text = |said: &RefCell<Said>| {
        let mut said = said.borrow_mut();
        let said = &mut *said;
        let last = said.last.as_ref().filter(|last| last.class.0 as c_int == error);
        let text = match (error, last) {
            (0, _) => "no error".to_owned(),
            (_, Some(last)) => last.why.clone(),
            _ => u32::try_from(error).map_or("no error class", |class| Class(class).text()).to_owned(),
        };
        said.text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        said.text.as_ptr()
    };
    SAID.try_with(text).unwrap_or(c"the thread has ended".as_ptr())
}
