use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Runs shorter than this show no bar.
const QUIET: Duration = Duration::from_millis(700);

/// A progress bar on standard error that appears on long runs only, or nothing at all.
pub struct Progress {
    bar: ProgressBar,
    shown_from: Option<Instant>,
}

impl Progress {
    /// A bar on standard error; hidden when that is no terminal.
    pub fn bar() -> Self {
        Self { bar: ProgressBar::hidden(), shown_from: Some(Instant::now() + QUIET) }
    }

    /// No output.
    pub fn silent() -> Self {
        Self { bar: ProgressBar::hidden(), shown_from: None }
    }

    /// Starts a run of `steps` rows.
    pub fn begin(&mut self, what: &str, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_position(0);
        self.bar.set_prefix(what.to_owned());
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}");
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    }

    /// Says what is being measured now. Called between timed parts, never within one.
    pub fn now(&mut self, what: impl Into<String>) {
        if self.shown_from.is_some_and(|from| Instant::now() >= from) {
            self.shown_from = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(what.into());
    }

    /// One row is done.
    pub fn step(&mut self) {
        self.bar.inc(1);
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}
