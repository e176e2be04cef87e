//! `ggas tune`, and tables that it wrote or that something damaged.

use std::process::{Command, Output, Stdio};

/// On the model, with these variables.
fn ggas(variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    for name in ["EXTOLL_DEVICE", "GGAS_PROCESSOR", "EXTOLL_CARD", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.env("GGAS_DEVICE", "sim").envs(variables.iter().copied());
    command.args(args).stdin(Stdio::null()).output().expect("ggas starts")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn tune_writes_a_table_and_overwrites_a_damaged_one() {
    let path = std::env::temp_dir().join(format!("ggas-tune-{}.json", std::process::id()));
    let args = ["tune", "--device", "cpu", "--output", path.to_str().expect("a name")];
    let output = ggas(&[], &args);
    assert!(output.status.success(), "{}", err(&output));
    assert!(
        out(&output).contains("written to") && out(&output).contains("sums of 0 bytes"),
        "{}",
        out(&output)
    );
    let table = std::fs::read_to_string(&path).expect("a table");
    assert!(table.contains("\"device\": \"cpu\""), "{table}");
    std::fs::write(&path, "{}").expect("written");
    let output = ggas(&[], &args);
    let again = std::fs::read_to_string(&path).expect("a table");
    std::fs::remove_file(&path).expect("removed");
    assert!(output.status.success(), "{}", err(&output));
    let damaged = format!("{} is damaged (missing field `schema`", path.display());
    assert!(err(&output).contains(&damaged) && again.contains("\"device\": \"cpu\""), "{}", err(&output));
}

#[test]
fn a_table_of_processes_that_share_a_gpu_is_used_by_them() {
    let path = std::env::temp_dir().join(format!("ggas-tune-shared-{}.json", std::process::id()));
    let file = path.to_str().expect("a name");
    let common = ["tune", "--device", "cpu", "--shared-gpu", "--output", file];
    let output = ggas(&[], &[&common[..], &["--nodes", "2", "--runs", "10", "--sizes", "8,4K"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    for collective in ["allreduce", "reduce", "broadcast", "allgather", "alltoall", "reduce-scatter"] {
        let line = format!("\n{collective} of 2 processes on cpu, without MPS: from 0 bytes ");
        assert!(out(&output).contains(&line), "{}", out(&output));
    }
    let table = std::fs::read_to_string(&path).expect("a table");
    assert!(table.contains("\"collective\": \"reduce-scatter\""), "{table}");
    let bench = ["bench", "shared-gpu-broadcast", "--device", "cpu", "--sizes", "8", "--iterations", "1"];
    let output =
        ggas(&[("GGAS_TUNING", file)], &[&bench[..], &["--nodes", "2", "--method", "chosen"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    // On two GPUs beside that: each row says where its processes were.
    let on_two = ["--nodes", "3", "--gpus", "2", "--runs", "10", "--sizes", "8,4K"];
    let output = ggas(&[], &[&common[..], &on_two].concat());
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("\nbroadcast of 3 processes on [2, 1] x cpu, without MPS: from 0 bytes "));
    let table = std::fs::read_to_string(&path).expect("a table");
    let both = ["\"ranks\": 2", "\"gpus\": [", "\"measured_by\": \"ggas "];
    assert!(both.iter().all(|text| table.contains(text)), "{table}");
    let part = [env!("CARGO_BIN_EXE_ggas"), "bench-part", "shared-gpu-allreduce cpu gpus:2 chosen"];
    let part = [&["run", "-n", "3", "--"], &part[..], &["3", "2", "7", "8", "4096"]].concat();
    let output = ggas(&[("GGAS_TUNING", file)], &part);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output).matches("\"errors\":0").count(), 2, "{}", out(&output));
    let output = ggas(&[], &[&common[..], &["--nodes", "2", "--gpus", "3"]].concat());
    assert!(!output.status.success() && err(&output).contains("at most as many"), "{}", err(&output));
    let output = ggas(&[], &[&common[..], &["--runs", "5"]].concat());
    assert!(!output.status.success() && err(&output).contains("10"), "{}", err(&output));
    let output = ggas(&[], &[&common[..], &["--nodes", "300"]].concat());
    assert!(!output.status.success() && err(&output).contains("at most 256"), "{}", err(&output));
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn a_damaged_table_of_the_host_is_said_and_benchmarks_go_on() {
    let path = std::env::temp_dir().join(format!("ggas-damaged-{}.json", std::process::id()));
    let file = path.to_str().expect("a name");
    std::fs::write(&path, "{").expect("written");
    let variables = [("GGAS_TUNING", file)];
    let args = ["bench", "allreduce-stream", "--device", "cpu", "--sizes", "64", "--iterations", "2"];
    let output = ggas(&variables, &args);
    std::fs::remove_file(&path).expect("removed");
    assert!(output.status.success(), "{}", err(&output));
    let said = err(&output).matches("is damaged").count();
    assert!(said == 1 && err(&output).contains(&format!("`ggas tune --output {file}`")), "{}", err(&output));
}

#[test]
fn tune_refuses_nodes_before_it_makes_a_folder() {
    let home = std::env::temp_dir().join(format!("ggas-tune-home-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    let variables = [("GGAS_TUNING", ""), ("XDG_CONFIG_HOME", ""), ("HOME", home.to_str().expect("a name"))];
    let output = ggas(&variables, &["tune", "--device", "cpu", "--nodes", "0"]);
    let left = std::fs::read_dir(&home).expect("a folder").count();
    std::fs::remove_dir_all(&home).expect("removed");
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert_eq!(left, 0);
}

#[test]
fn a_pipe_is_no_table() {
    let path = std::env::temp_dir().join(format!("ggas-pipe-{}.json", std::process::id()));
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let output = ggas(&[], &["tune", "--device", "cpu", "--output", path.to_str().expect("a name")]);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("it is no regular file"), "{}", err(&output));
}

#[test]
fn tune_names_the_folder_that_cannot_be_written_before_it_measures() {
    let home = std::env::temp_dir().join(format!("ggas-no-home-{}", std::process::id()));
    std::fs::write(&home, "").expect("written");
    let home_name = home.to_str().expect("a name");
    let variables = [("GGAS_TUNING", ""), ("XDG_CONFIG_HOME", ""), ("HOME", home_name)];
    let output = ggas(&variables, &["tune", "--device", "cpu"]);
    std::fs::remove_file(&home).expect("removed");
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let place = format!("because of {home_name}: Not a directory");
    assert!(err(&output).contains(&place) && err(&output).contains("GGAS_TUNING"), "{}", err(&output));
    assert!(!err(&output).contains("nodes"), "nothing was measured: {}", err(&output));
}

/// Three processes on two hosts, which are directories here.
#[test]
fn a_table_of_collectives_between_hosts_is_kept_on_each_and_said_once() {
    if let Err(error) = ggas_wire::choose() {
        eprintln!("skipped: {error}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // None of those that the system gives to others meanwhile.
    let mut places =
        (0..12_000).map(|i| format!("127.0.0.1:{}", 20_000 + (std::process::id() * 31 + i) % 12_000));
    let meet = places.find(|place| std::net::TcpListener::bind(place).is_ok()).expect("a port");
    let hosts = [0, 1, 0];
    let part = |rank: usize| {
        let host = folder.path().join(hosts[rank].to_string());
        std::fs::create_dir_all(&host).expect("a directory");
        std::fs::set_permissions(&host, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("permissions");
        let (rank, table) = (rank.to_string(), host.join("table.json"));
        let place = [
            ("GGAS_RANK", rank.as_str()),
            ("GGAS_SIZE", "3"),
            ("GGAS_PER_NODE", "1"),
            ("GGAS_JOB", "tune"),
            ("GGAS_DEVICE", "sim"),
            ("GGAS_RUNTIME_DIR", host.to_str().expect("a name")),
            ("GGAS_MEET", &meet),
            ("GGAS_SECRET", "00112233445566778899aabbccddeeff"),
        ];
        let words = ["tune", "--device", "cpu", "--shared-gpu", "--between-hosts", "--runs", "10"];
        let output = table.to_str().expect("a name");
        ggas(&place, &[&words[..], &["--sizes", "8,4K", "--output", output]].concat())
    };
    let outputs = std::thread::scope(|scope| {
        let part = &part;
        let parts: Vec<_> = (0..3).map(|rank| scope.spawn(move || part(rank))).collect();
        parts.into_iter().map(|part| part.join().expect("it ends")).collect::<Vec<_>>()
    });
    for output in &outputs {
        assert!(output.status.success(), "{}", err(output));
    }
    assert!(outputs[1..].iter().all(|output| out(output).is_empty()), "rank 0 says it");
    for collective in ["allreduce", "reduce", "broadcast", "allgather", "alltoall", "reduce-scatter"] {
        let line = format!("\n{collective} between 2 hosts of cpu: from 0 bytes through ");
        assert!(out(&outputs[0]).contains(&line), "{}", out(&outputs[0]));
    }
    let read =
        |host: &str| std::fs::read_to_string(folder.path().join(host).join("table.json")).expect("a table");
    let table = read("0");
    assert!(table == read("1") && table.contains("\"hosts\": 2") && table.contains("3 processes"), "{table}");
}
