//! The fleet as its users run it: figures that follow from theory, bytes that follow from flags, and errors that help.
#![allow(clippy::std_instead_of_core, clippy::std_instead_of_alloc, reason = "a test, on std throughout")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn lab(flags: &str) -> Output {
    let lab = env!("CARGO_BIN_EXE_forbear-lab");
    Command::new(lab).arg("fleet").args(flags.split_whitespace()).output().expect("forbear-lab runs")
}

/// A file of its own for each test.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a fleet, and gives back its JSON.
fn figures(name: &str, flags: &str) -> Value {
    let path = file(name);
    let output = lab(&format!("{flags} --json {}", path.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON")
}

fn of<'v>(report: &'v Value, strategy: &str) -> &'v Value {
    let strategies = report["strategies"].as_array().expect("a list");
    strategies.iter().find(|row| row["name"] == strategy).expect("took part")
}

#[test]
fn the_book_sends_k_times_the_capacity_and_recovery_comes_soon() {
    let report = figures("overload.json", "--scenario overload --clients 10 --rate 100 --strategy book,plain");
    let load = |strategy| of(&report, strategy)["load"].as_f64().expect("an overload");
    assert!((1.9..2.1).contains(&load("book")), "{}", load("book"));
    assert!((27.0..30.1).contains(&load("plain")), "{}", load("plain"));

    let report = figures("outage.json", "--scenario outage --seconds 640 --strategy book,resilient");
    let recovery = |strategy| of(&report, strategy)["recovery_s"].as_u64();
    assert_eq!(recovery("book"), None);
    assert!(recovery("resilient").is_some_and(|seconds| seconds <= 20), "{:?}", recovery("resilient"));
}

#[test]
fn the_budget_alone_holds_an_outage_to_a_ninth_more_than_the_demand() {
    let report = figures("budget.json", "--outage 0:600 --seconds 600 --strategy budget");
    let sent = of(&report, "budget")["in_outage"].as_f64().expect("an outage");
    assert!((1.1..1.12).contains(&sent), "{sent}");
}

#[test]
fn a_fleet_of_quiet_clients_never_sends_more_than_its_demand_into_an_outage() {
    let report = figures("quiet.json", "--scenario quiet --strategy resilient");
    let sent = of(&report, "resilient")["in_outage"].as_f64().expect("an outage");
    assert!(sent <= 1.0, "{sent}");
    let fleet = &report["scenario"];
    assert_eq!((&fleet["clients"], &fleet["rate"]), (&Value::from(6_000), &Value::from(1.0 / 60.0)));
}

#[test]
fn a_retry_floor_serves_quiet_clients_through_faults_by_chance() {
    let report = figures("faults.json", "--scenario faults --strategy resilient");
    let figure = |strategy, figure: &str| of(&report, strategy)[figure].as_f64().expect("faults and an outage");
    // Of the calls, .96 end well with one retry for each that fails and .992 with two; the budget has not always one.
    assert!((0.91..0.96).contains(&figure("resilient", "served")), "{report}");
    assert!((0.98..0.995).contains(&figure("yours", "served")), "{report}");
    // What it costs: more reaches a backend that serves nobody.
    assert!(figure("yours", "in_outage") > figure("resilient", "in_outage") + 0.05, "{report}");
    assert!(figure("yours", "in_outage") < 1.0, "{report}");
}

#[test]
fn a_throttle_sends_no_more_than_k_times_the_capacity_whatever_k() {
    let path = file("k.json");
    let output = lab(&format!("--scenario overload --sweep k --seeds 1 --strategy book --json {}", path.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON");
    let points = report["lines"][0]["points"].as_array().expect("points");
    assert_eq!(points.len(), 8);
    for point in points {
        let (k, load) = (point[0].as_f64().expect("K"), point[1].as_f64().expect("load"));
        // Close to 1 a client gives way to every other: the backend is not even asked for all that it can serve.
        let least = if k < 1.5 { 0.8 } else { 0.95 };
        assert!((least..1.02).contains(&(load / k)), "K {k}: {load}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let bytes = |name: &str, flags: &str| {
        let (path, plots) = (file(name), file(&format!("{name}-plots")));
        let flags =
            format!("--seconds 300 --outage 100:50 {flags} --json {} --plot {}", path.display(), plots.display());
        let output = lab(&flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (fs::read(path).expect("written"), fs::read(plots.join("fleet.svg")).expect("drawn"))
    };
    let once = bytes("once.json", "--threads 1");
    assert_eq!(once, bytes("twice.json", "--threads 3"));
    assert_ne!(once.0, bytes("other.json", "--seed 2").0);
}

#[test]
fn errors_are_one_line_that_names_the_flag_and_the_range() {
    for (flags, parts) in [
        ("--clients 0", ["--clients", "1..=2000000"]),
        ("--rate -1", ["--rate", "above 0 and at most 20000"]),
        ("--clients -1", ["--clients", "1..=2000000"]),
        ("--clients nan", ["--clients", "nan"]),
        ("--seconds -1", ["--seconds", "1..=1000000"]),
        ("--seconds 0", ["--seconds", "1..=1000000"]),
        ("--seed -1", ["--seed", "-1"]),
        ("--queue -1", ["--queue", "0..="]),
        ("--min-requests -1", ["--min-requests", "0..="]),
        ("--in-flight-grace 8", ["--in-flight-grace is 8s", "up to 7 s"]),
        ("--retry-ratio inf", ["--retry-ratio is inf", "finite, 0 or more"]),
        ("--capacity nan", ["--capacity", "above 0"]),
        ("--reject-cost 2", ["--reject-cost", "from 0 to 1"]),
        ("--outage 10", ["--outage", "FROM:FOR"]),
        ("--surge 10:20", ["--surge", "FROM:FOR:TIMES"]),
        ("--flip 0:1", ["--flip", "PERIOD:LOW"]),
        ("--recovery 0:1", ["--recovery", "SECONDS:ATTEMPTS"]),
        ("--window 7", ["--window", "120"]),
        ("--k -1", ["--k is -1", "finite, 0 or more"]),
        ("--max-attempts 0", ["--max-attempts is 0", "1 or more"]),
        ("--overloaded 0.7 --silent 0.7", ["--overloaded", "at most 1"]),
        ("--clients 2000000 --rate 20000", ["--clients times --rate", "10000000"]),
        ("--surge 0:1:1e5 --clients 1000 --rate 1000", ["--surge", "10000000"]),
        ("--surge 0:1:100 --rate 1000", ["--surge", "20000"]),
        ("--sweep clients --clients 300 --rate 100", ["--sweep clients", "20000"]),
        ("--grid --seconds 10", ["--grid", "--seconds"]),
        ("--grid --plot out", ["--grid", "--plot"]),
        ("--sweep outage --outage 5:5", ["--sweep", "--outage"]),
        ("--outage 90:10 --seconds 50", ["outage from 90 s to 100 s", "--seconds 50"]),
        ("--json /nowhere/at/all.json", ["/nowhere/at/all.json", "cannot write"]),
        ("--strategy none", ["none", "resilient"]),
        ("--grid --sweep outage", ["--grid", "--sweep"]),
    ] {
        let output = lab(flags);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{flags}: {error}");
        assert!(output.stdout.is_empty(), "{flags}");
        for part in parts {
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}

#[test]
fn a_file_keeps_what_it_has_until_there_is_something_new() {
    let path = file("kept.json");
    let long = "what was here before, and is longer".repeat(10_000);
    fs::write(&path, &long).expect("written");
    let flags = format!("fleet --scenario million --json {}", path.display());
    let mut started = Command::new(env!("CARGO_BIN_EXE_forbear-lab"))
        .args(flags.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("forbear-lab runs");
    // It says what it does when it has looked at all flags; then somebody loses patience.
    let mut line = String::new();
    BufReader::new(started.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    started.kill().expect("killed");
    started.wait().expect("killed");
    assert!(line.contains("1000000 clients"), "{line}");
    assert_eq!(fs::read_to_string(&path).expect("kept"), long);
    // And what comes in its place is all there is.
    assert_eq!(figures("kept.json", "--scenario fresh --strategy book")["seed"], 1);
}
