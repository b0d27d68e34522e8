//! Short storms over real sockets: the shape of what comes out, the order of the strategies, and the exit codes.

#[cfg(unix)]
use core::time::Duration;
#[cfg(unix)]
use std::{
    io::{BufRead, BufReader, Read},
    thread,
};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn storm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forbear-lab"));
    command.arg("storm").stdin(Stdio::null());
    command
}

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = storm().args(arguments).output().unwrap();
    only_line(&output)
}

/// Exit code 2, one line, nothing else.
fn only_line(output: &Output) -> String {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

/// A short storm: what it printed, and its figures.
///
/// A machine that stands still for half a second in the middle of it disturbs what it measures, and the report says so. Then another
/// one is run; a machine that is never quiet for twelve seconds fails the test.
fn short_storm(folder: &Path) -> (String, Value) {
    let figures = folder.join("storm.json");
    for _ in 0..6 {
        let output = storm()
            .args(["--window", "2", "--clients", "5", "--overload-seconds", "7"])
            .args(["--healthy-seconds", "1", "--outage-seconds", "1", "--recovery-seconds", "3"])
            .arg("--out")
            .arg(folder)
            .arg("--json")
            .arg(&figures)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
        let lags =
            report["strategies"].as_array().unwrap().iter().map(|strategy| strategy["worst_lag_ms"].as_u64().unwrap());
        if lags.max() < Some(500) {
            return (text(&output.stdout), report);
        }
    }
    panic!("this machine is too busy for a storm of twelve seconds");
}

#[test]
fn forbear_serves_most_at_a_bounded_load() {
    let folder = folder("order");
    let (table, report) = short_storm(&folder);
    let overload = |name: &str, field: &str| -> f64 {
        let strategies = report["strategies"].as_array().unwrap();
        let strategy = strategies.iter().find(|strategy| strategy["name"] == name).unwrap();
        strategy["overload"][field].as_f64().unwrap()
    };
    let load = |name| overload(name, "load_over_capacity");
    let goodput = |name| overload(name, "goodput_over_capacity");

    assert!(load("plain-retries") > 10.0);
    assert!(load("backoff") > 10.0);
    for ours in ["forbear", "forbear-resilient"] {
        // What the default storm is to show. This one is shorter and a client has as many calls in its window, so that the
        // bound holds by a wide margin.
        assert!(load(ours) <= 2.3, "{ours}: {}", load(ours));
        for other in ["no-retries", "plain-retries", "backoff", "retry-budget"] {
            assert!(load(ours) < load(other), "{ours} and {other}");
            assert!(goodput(ours) > goodput(other), "{ours} and {other}");
        }
    }

    for strategy in report["strategies"].as_array().unwrap() {
        let recovery = &strategy["recovery_s"];
        assert!(recovery.is_null() || recovery.is_u64(), "{recovery}");
    }
    for name in ["no retries", "plain retries", "backoff", "retry budget", "forbear", "forbear, resilient"] {
        assert!(table.lines().any(|line| line.contains(&format!(" {name}  "))), "{name}");
    }
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["config"]["window"], 2);
    assert_eq!(report["config"]["phase_seconds"]["overload"], 7);
    assert!(table.contains("window 2 s"), "the configuration is printed");

    let picture = std::fs::read_to_string(folder.join("storm.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
}

#[test]
fn a_wrong_flag_is_one_line_that_names_it() {
    assert!(refused(&["--windw", "3"]).contains("--windw"));
    assert!(refused(&["--port", "many"]).contains("--port"));
    assert!(refused(&["--demand", "inf"]).contains("--demand"));
    assert!(refused(&["--ratio", "-1"]).contains("--ratio"));
    assert!(refused(&["--k", "NaN"]).contains("k is NaN"));
    assert!(refused(&["--clients", "0"]).contains("--clients"));
    assert!(refused(&["--port", "65535"]).contains("65535"));
    assert!(refused(&["--overload-seconds", "10"]).contains("window of 10 s"));
    let window = refused(&["--window", "7"]);
    assert!(window.contains("120, 300, 600, 1200, 3600"), "{window}");
}

#[test]
fn a_busy_port_is_one_line_that_names_it() {
    let busy = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let line = refused(&["--port", &port]);
    assert!(line.contains(&format!("127.0.0.1:{port}")), "{line}");
}

#[test]
fn an_output_that_cannot_be_written_is_found_out_at_the_start() {
    let file = folder("outputs").join("file");
    std::fs::write(&file, "in the way").unwrap();
    let file = file.to_str().unwrap();
    assert!(refused(&["--out", file]).contains(file));
    let line = refused(&["--out", folder("outputs").to_str().unwrap(), "--json", &format!("{file}/figures.json")]);
    assert!(line.contains("figures.json"), "{line}");
}

#[test]
fn help_says_how_to_read_it() {
    let output = storm().arg("--help").output().unwrap();
    assert!(output.status.success());
    let help = text(&output.stdout);
    for word in ["goodput", "capacity", "Ctrl-C", "--reject-cost", "--window"] {
        assert!(help.contains(word), "{word}");
    }
}

/// A storm that is interrupted after so many phases have begun, and so many seconds: what it had to say.
#[cfg(unix)]
fn interrupted(folder: &Path, arguments: &[&str], phases: usize, seconds: u64) -> (String, Value) {
    let figures = folder.join("storm.json");
    let mut child = storm()
        .args(["--capacity", "20", "--clients", "5", "--out"])
        .arg(folder)
        .arg("--json")
        .arg(&figures)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Off a terminal each phase is announced by a line, the first once the storm can be interrupted.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let announced: Vec<_> = stderr.by_ref().lines().take(phases).map(Result::unwrap).collect();
    assert_eq!(announced.len(), phases, "{announced:?}");
    thread::sleep(Duration::from_secs(seconds));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());

    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&std::fs::read(figures).unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
    assert!(folder.join("storm.svg").exists());
    (text(&output.stdout), report)
}

/// The cells of each strategy, but its name.
#[cfg(unix)]
fn cells(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().skip_while(|line| !line.contains('╞')).skip(1).take_while(|line| !line.contains('└'));
    rows.map(|row| row.trim_matches('│').split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(1).collect())
        .collect()
}

#[cfg(unix)]
#[test]
fn an_interrupt_in_the_overload_reports_no_overload() {
    let arguments = ["--window", "2", "--healthy-seconds", "2", "--overload-seconds", "600"];
    // Past the first window of the overload.
    let (stdout, report) = interrupted(&folder("interrupt"), &arguments, 2, 4);
    assert!(stdout.contains("interrupted"), "{stdout}");
    let cells = cells(&stdout);
    assert_eq!(cells.len(), 6, "{stdout}");
    for row in cells {
        assert_eq!(row, ["-"; 9], "{stdout}");
    }
    for strategy in report["strategies"].as_array().unwrap() {
        for figure in ["demand_over_capacity", "load_over_capacity", "goodput_over_capacity", "p50_ms"] {
            assert!(strategy["overload"][figure].is_null(), "{figure} of {strategy}");
        }
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_after_the_overload_reports_it() {
    let arguments = ["--window", "1", "--healthy-seconds", "0", "--overload-seconds", "2", "--outage-seconds", "600"];
    let (stdout, report) = interrupted(&folder("interrupt-later"), &arguments, 2, 1);
    for row in cells(&stdout) {
        assert!(row[0].ends_with('x') && row[1].ends_with('x'), "{stdout}");
        assert_eq!(row[7..], ["-"; 2], "{stdout}");
    }
    for strategy in report["strategies"].as_array().unwrap() {
        assert!(strategy["overload"]["load_over_capacity"].is_f64(), "{strategy}");
        assert!(strategy["outage"]["load_over_demand"].is_null(), "{strategy}");
    }
}
