//! For the CPU executor: a library of host code.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cc::{BuildMessage, BuildMessageKind, BuildMessageLogger};

use crate::{Failed, package, wrapper};

/// What the compiler says, line by line, and what cc has to say of it.
#[derive(Default)]
struct Said {
    lines: Mutex<Vec<String>>,
    /// The compiler ran and failed.
    ran: AtomicBool,
}

impl BuildMessageLogger for Said {
    fn log(&self, kind: BuildMessageKind, message: BuildMessage<'_>, _: &dyn Any) {
        match kind {
            BuildMessageKind::StderrForwarding | BuildMessageKind::GeneralWarning => {
                self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_string());
            }
            BuildMessageKind::CommandFailed { is_detection_cmd: false, .. } => {
                self.ran.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

impl Said {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn failed(&self, error: &cc::Error) -> Failed {
        let (said, package) = (self.take().join("\n"), package());
        let sentence = match self.ran.load(Ordering::Relaxed) {
            true => format!(
                "The kernels of {package} do not compile for the CPU executor: above is what the C++ compiler says (CXX \
                 names another)."
            ),
            false => format!(
                "The kernels of {package} cannot be compiled for the CPU executor: {error}; install a C++20 compiler \
                 (apt-get install g++), or name one in CXX."
            ),
        };
        Failed { said, sentence }
    }
}

/// What was compiled, not yet linked. Of a build script that fails, cargo shows what was printed for it before what
/// the compiler said; so nothing is printed before everything is compiled.
pub struct Objects {
    build: cc::Build,
    files: Vec<PathBuf>,
    said: Arc<Said>,
}

impl Objects {
    /// Archives them, and tells cargo of them.
    pub fn link(self) -> Result<(), Failed> {
        for line in self.said.take() {
            println!("cargo::warning={line}");
        }
        let link = || {
            // Prints the variables of the environment that matter.
            self.build.try_get_compiler()?;
            let mut archive = cc::Build::new();
            archive.cpp(true).cpp_link_stdlib(None).objects(&self.files);
            archive.try_compile(&format!("{}_on_host", package().replace('-', "_")))
        };
        link().map_err(|error| self.said.failed(&error))
    }
}

pub fn compile<'a>(
    out: &Path,
    includes: &[PathBuf],
    sources: impl Iterator<Item = &'a PathBuf>,
) -> Result<Objects, Failed> {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .opt_level(2)
        .cpp_link_stdlib(None)
        .includes(includes)
        .warnings(true)
        .extra_warnings(true)
        // No unwinding through kernels: the executor drops the stacks of a launch that failed.
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        .flag("-fno-strict-aliasing")
        // Floats are rounded as the source says, on every processor.
        .flag("-ffp-contract=off");
    for source in sources {
        if source.extension().is_some_and(|extension| extension == "cu") {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            build.file(wrapper(out, &format!("{stem}.cpp"), std::slice::from_ref(source)));
        } else {
            build.file(source);
        }
    }
    let said = Arc::new(Said::default());
    let mut quiet = build.clone();
    quiet.cargo_metadata(false).cargo_warnings(false).message_logger(Some(said.clone()));
    let files = quiet.try_compile_intermediates().map_err(|error| said.failed(&error))?;
    Ok(Objects { build, files, said })
}
