//! Every figure that is built: whole, right, repeatable, and as the results page says.

use std::fs;
use std::path::{Path, PathBuf};

use ggas_paper::{Figure, PaperError, Report, Settings};

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/results")
}

fn run(figure: &Figure) -> Report {
    figure.run(&Settings::default()).unwrap_or_else(|error| panic!("figure {}: {error}", figure.number()))
}

/// One run of each: whole, right, and what the results say. `UPDATE_RESULTS=1` writes them anew.
#[test]
fn figures_are_whole_and_the_results_are_theirs() {
    let update = std::env::var_os("UPDATE_RESULTS").is_some();
    let path = results().join("papers.md");
    let old = fs::read_to_string(&path).expect("papers.md");
    let mut page = old.split("\n## ").next().unwrap_or_default().trim_end().to_owned() + "\n";
    let mut stale = Vec::new();
    for paper in ggas_paper::papers() {
        page += &format!("\n## {}\n", paper.title());
        for figure in paper.figures() {
            let report = run(figure);
            let name = format!("{}-{}", paper.name(), figure.number());
            check(&report, &name);
            page += &section(&report, &name);
            let kept = results().join("papers").join(&name);
            if update {
                fs::write(kept.with_file_name(format!("{name}.json")), report.json()).expect("written");
                fs::write(kept.with_file_name(format!("{name}.svg")), report.svg().expect("drawn"))
                    .expect("written");
            } else if fs::read_to_string(kept.with_file_name(format!("{name}.json"))).ok()
                != Some(report.json())
            {
                stale.push(format!("{name}.json\n{}", report.table()));
            }
        }
    }
    if update {
        fs::write(&path, &page).expect("written");
    } else if page != old {
        stale.push(format!("papers.md\n{page}"));
    }
    let again =
        "results differ from what the model says now; UPDATE_RESULTS=1 cargo test -p ggas-paper writes them";
    assert!(stale.is_empty(), "{again}:\n{}", stale.join("\n"));
}

fn check(report: &Report, name: &str) {
    assert_eq!(name, format!("{}-{}", report.paper, report.figure));
    assert!(report.is_verified(), "{name}: {}", report.table());
    assert!(
        !report.rows.is_empty() && report.rows.iter().all(|row| row.len() == report.columns.len()),
        "{name}"
    );
    assert!(
        !report.claims.is_empty() && report.claims.iter().all(|claim| !claim.source.is_empty()),
        "{name}"
    );
    for claim in &report.claims {
        let said = claim.why.as_ref().is_some_and(|why| !why.is_empty());
        assert_eq!(said, !claim.holds, "{name}: {}", claim.claim);
    }
}

/// A figure's part of the page.
fn section(report: &Report, name: &str) -> String {
    format!(
        "\n### Figure {}: {}\n\n[Rows and parameters](papers/{name}.json)\n\n{}\n![Figure {}](papers/{name}.svg)\n",
        report.figure,
        report.about,
        report.markdown(),
        report.figure
    )
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_seed_the_same_times() {
    let figure = ggas_paper::find("gpu-tn").and_then(|paper| paper.figure("8")).expect("it is built");
    assert_eq!(run(figure).json(), run(figure).json());
    let other = figure.run(&Settings { seed: 2, system: None }).expect("it runs");
    assert!(other.is_verified());
    assert_eq!(other.rows, run(figure).rows, "times do not depend on data");
}

#[test]
fn parameters_change_the_answer_and_wrong_ones_are_refused() {
    let figure = ggas_paper::find("gpu-tn").and_then(|paper| paper.figure("8")).expect("it is built");
    let mut system = extoll_sim::timed::System::named("gpu-tn").expect("it is built in");
    system.gpu.end_ns = 100_000.0;
    let slow = figure.run(&Settings { seed: 1, system: Some(system.clone()) }).expect("it runs");
    assert!(slow.claims.iter().any(|claim| !claim.holds), "{}", slow.table());
    assert!(slow.table().contains("does not hold"));
    system.gpu.end_ns = -1.0;
    let error = figure.run(&Settings { seed: 1, system: Some(system) }).expect_err("refused");
    assert!(error.to_string().contains("end_ns"), "{error}");
}

/// One size each gives what a kernel adds, so a constant that is wrong hides there; rates do not.
#[test]
fn h200_is_predicted_and_wrong_rates_are_found() {
    let paper = ggas_paper::find("h200").expect("it is there");
    for figure in paper.figures() {
        let report = run(figure);
        let claims: Vec<_> = report.claims.iter().filter(|claim| !claim.holds).collect();
        assert!(claims.is_empty(), "{}", report.table());
        let taken = report.rows.iter().filter(|row| row[7] == "a parameter was taken from it").count();
        assert!(taken > 0 && taken <= 4 && report.rows.len() >= 2 * taken, "{}", report.table());
    }
    let holds = |number: &str, system: &extoll_sim::timed::System| {
        let settings = Settings { seed: 1, system: Some(system.clone()) };
        let report = paper.figure(number).expect("known").run(&settings).expect("it runs");
        report.claims.iter().all(|claim| claim.holds)
    };
    let built_in = extoll_sim::timed::System::named("h200-nvlink").expect("it is built in");
    let mut system = built_in.clone();
    system.network.link_bytes_per_ns /= 1.4;
    assert!(!holds("bandwidth", &system));
    let mut system = built_in.clone();
    system.gpu.block_store_bytes_per_ns /= 2.0;
    assert!(!holds("put-signal", &system));
    let mut system = built_in;
    system.gpu.block_store_bytes_per_ns /= 4.0;
    assert!(!holds("store", &system));
}

/// Who wins a scaling depends on what the system's parts cost.
#[test]
fn himeno_on_a_card_that_reads_slowly_is_not_won_by_it() {
    let figure = ggas_paper::find("thesis-6").and_then(|paper| paper.figure("6.20")).expect("it is built");
    let mut system = extoll_sim::timed::System::named("extoll-fpga").expect("it is built in");
    system.bus.gpu_read_bytes_per_ns /= 8.0;
    let slow = figure.run(&Settings { seed: 1, system: Some(system) }).expect("it runs");
    let of_rma = |claim: &&ggas_paper::Verdict| claim.claim.starts_with("RMA performs best");
    assert!(slow.claims.iter().filter(of_rma).all(|claim| !claim.holds), "{}", slow.table());
}

/// GGAS wins by stores that cost little; mailboxes that cost a work request and its notification for each store do not.
#[test]
fn random_access_by_stores_as_dear_as_puts_is_not_won_by_them() {
    let paper = ggas_paper::find("thesis-6").expect("known");
    let mut system = extoll_sim::timed::System::named("extoll-fpga").expect("it is built in");
    system.gpu.store_ns = system.gpu.post_ns + 3.0 * system.gpu.poll_host_ns;
    for (number, text) in [("6.23", "GUPS, "), ("6.26", "updates for a joule, ")] {
        let figure = paper.figure(number).expect("it is built");
        let won = |report: &Report| {
            let of_mpi = |claim: &&ggas_paper::Verdict| {
                claim.claim.starts_with(text) && claim.paper == "MPI < GGAS" && claim.holds
            };
            report.claims.iter().filter(of_mpi).count()
        };
        assert_eq!(won(&run(figure)), 3, "{}", run(figure).table());
        let dear = figure.run(&Settings { seed: 1, system: Some(system.clone()) }).expect("it runs");
        assert_eq!(won(&dear), 0, "{}", dear.table());
    }
}

/// Calls win against kernels that end by what these cost, and lose where they cost nothing.
#[test]
fn calls_of_kernels_lose_against_kernels_that_end_for_nothing() {
    let figure = ggas_paper::find("gmpi").and_then(|paper| paper.figure("7")).expect("it is built");
    let costs_more = |report: &Report| {
        let claim = report.claims.iter().find(|claim| claim.claim.starts_with("4 B, us: GMPI costs more"));
        claim.is_some_and(|claim| claim.holds)
    };
    let mut system = extoll_sim::timed::System::named("ha-pacs").expect("it is built in");
    (system.gpu.launch_call_ns, system.gpu.launch_ns, system.gpu.end_ns) = (0.0, 0.0, 0.0);
    let free = figure.run(&Settings { seed: 1, system: Some(system) }).expect("it runs");
    assert!(costs_more(&free), "{}", free.table());
    assert!(!costs_more(&run(figure)), "{}", run(figure).table());
}

/// The card reads a halo from GPU memory.
#[test]
fn himeno_by_calls_is_the_same_again_and_slower_on_a_slow_bus() {
    let figure = ggas_paper::find("gmpi").and_then(|paper| paper.figure("8")).expect("it is built");
    let halo = |report: &Report| report.rows[1][3].as_f64().expect("a time");
    let mut system = extoll_sim::timed::System::named("ha-pacs").expect("it is built in");
    system.bus.gpu_read_bytes_per_ns /= 4.0;
    let slow = figure.run(&Settings { seed: 1, system: Some(system) }).expect("it runs");
    assert!(halo(&slow) > 2.0 * halo(&run(figure)), "{}", slow.table());
    assert_eq!(run(figure).json(), run(figure).json());
}

/// Pageable memory is slower by what a core copies, against what lanes carry.
#[test]
fn pinned_memory_gains_by_slow_cores_and_wide_lanes() {
    let figure = ggas_paper::find("hpe").and_then(|paper| paper.figure("7")).expect("it is built");
    let gain = |change: fn(&mut extoll_sim::timed::System)| {
        let mut system = extoll_sim::timed::System::named("hpe").expect("it is built in");
        change(&mut system);
        let report = figure.run(&Settings { seed: 1, system: Some(system) }).expect("it runs");
        let claim = report.claims.iter().find(|claim| claim.claim.ends_with("pinned over naive"));
        claim.and_then(|claim| claim.value.map(|value| (claim.holds, value))).expect("a gain")
    };
    let (holds, as_it_is) = gain(|_| ());
    assert!(holds);
    let (quick_cores, less) = gain(|system| system.host.memory_bytes_per_ns *= 4.0);
    let (wide_lanes, more) = gain(|system| system.network.link_bytes_per_ns *= 2.0);
    assert!(!quick_cores && !wide_lanes && less < as_it_is && as_it_is < more, "{less} {as_it_is} {more}");
}

#[test]
fn unknown_names_list_the_known_ones() {
    let error = ggas_paper::find("gputn").err().expect("unknown");
    assert!(error.to_string().contains("thesis-3, thesis-4"), "{error}");
    let paper = ggas_paper::find("gpu-tn").expect("known");
    assert!(matches!(paper.figure("7"), Err(PaperError::UnknownFigure { .. })));
    assert!(ggas_paper::papers().iter().all(|paper| !paper.figures().is_empty()));
}
