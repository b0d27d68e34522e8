//! What the two observers show of calls that are accepted, retried, refused and dropped.

use core::future::{pending, ready};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex};

use forbear_tokio::{Client, Config, Events, Metrics, Mode, Reply, SharedWindow, ThreadRng, TokioClock};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::timeout;
use tracing_subscriber::fmt::MakeWriter;

type TestClient = Client<TokioClock, ThreadRng, SharedWindow>;

fn client(config: Config) -> TestClient {
    Client::with(TokioClock::new(), ThreadRng, config, SharedWindow::default())
}

/// Neither throttle nor wait; the budget is spent after two retries.
const BUDGET: Config = forbear::config!(Config::overload().to_builder().no_throttle().retry_ratio(0.4));

/// An accepted call, one retried until its attempts are spent, one that the budget ends, and one that is dropped.
async fn calls(client: &TestClient) {
    let busy = |_: &Result<(), u16>| Reply::OVERLOADED;
    client.call(|| ready(Ok::<_, u16>(())), |_| Reply::ACCEPTED).await.unwrap();
    for _ in 0..2 {
        client.call(|| ready(Err(503)), busy).await.unwrap_err();
    }
    let hanging = client.call(pending::<Result<(), u16>>, busy);
    assert!(timeout(Duration::from_secs(1), hanging).await.is_err());
}

/// A deadline of a second, and a server may ask for two.
const LIMITED: Config =
    forbear::config!(BUDGET.to_builder().deadline(Duration::from_secs(1)).max_retry_after(Duration::from_secs(2)));

/// Two calls that the deadline ends, and one whose server asks for too long a wait.
async fn limited(client: &TestClient) {
    for milliseconds in [1_500, 1_600, 2_500] {
        let wait = Duration::from_millis(milliseconds);
        client.call(|| ready(Err::<(), u16>(503)), |_| Reply::OVERLOADED.after(wait)).await.unwrap_err();
    }
}

async fn metrics_in(mode: Mode) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let client = client(BUDGET).observed(metrics::with_local_recorder(&recorder, || Metrics::new("test")));
    client.set_mode(mode);
    calls(&client).await;
    recorder.handle().render()
}

fn has(metrics: &str, lines: &[&str]) {
    for line in lines {
        assert!(metrics.lines().any(|is| is == *line), "no {line} in\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_what_was_sent_and_what_was_not() {
    let lines = [
        r#"forbear_calls_total{client="test"} 4"#,
        r#"forbear_attempts_total{client="test"} 6"#,
        r#"forbear_accepts_total{client="test"} 1"#,
        r#"forbear_retries_total{client="test"} 2"#,
        r#"forbear_refusals_total{client="test",mode="enforce",reason="budget"} 1"#,
        r#"forbear_refusals_total{client="test",mode="shadow",reason="budget"} 0"#,
        r#"forbear_reject_probability{client="test"} 0"#,
        "# TYPE forbear_calls_total counter",
        "# TYPE forbear_reject_probability gauge",
    ];
    has(&metrics_in(Mode::Enforce).await, &lines);
}

#[tokio::test(start_paused = true)]
async fn metrics_show_what_shadow_mode_would_have_refused() {
    let lines = [
        r#"forbear_attempts_total{client="test"} 8"#,
        r#"forbear_retries_total{client="test"} 4"#,
        r#"forbear_refusals_total{client="test",mode="enforce",reason="budget"} 0"#,
        r#"forbear_refusals_total{client="test",mode="shadow",reason="budget"} 1"#,
    ];
    has(&metrics_in(Mode::Shadow).await, &lines);
}

/// By reply, as the client counts by which the throttle decides.
#[tokio::test(start_paused = true)]
async fn metrics_count_what_the_backend_accepted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let config = BUDGET.to_builder().no_budget().build().unwrap();
    // A name that is made while the program runs, as for one of many backends.
    let name = String::from("te") + "st";
    let client = client(config).observed(metrics::with_local_recorder(&recorder, || Metrics::new(name)));
    for (reply, last) in [
        (Reply::TRANSIENT, Reply::ACCEPTED),
        (Reply::PERMANENT, Reply::PERMANENT),
        (Reply::TRANSIENT, Reply::TRANSIENT),
    ] {
        let replies = Mutex::new(vec![last, last, reply]);
        let next = |_: &Result<(), u16>| replies.lock().unwrap().pop().unwrap();
        let _ = client.call(|| ready(Err(500)), next).await;
    }
    assert_eq!((client.requests(), client.accepts()), (6, 6));
    let lines = [
        r#"forbear_calls_total{client="test"} 3"#,
        r#"forbear_attempts_total{client="test"} 6"#,
        r#"forbear_accepts_total{client="test"} 6"#,
    ];
    has(&recorder.handle().render(), &lines);
}

/// No more and no fewer than the table in the docs has.
#[tokio::test(start_paused = true)]
async fn metrics_are_named_as_documented() {
    let rendered = metrics_in(Mode::Enforce).await;
    let mut kinds: Vec<_> = rendered.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    kinds.sort_unstable();
    let expected = [
        "forbear_accepts_total counter",
        "forbear_attempts_total counter",
        "forbear_calls_total counter",
        "forbear_refusals_total counter",
        "forbear_reject_probability gauge",
        "forbear_retries_total counter",
    ];
    assert_eq!(kinds, expected);
    let mut refusals: Vec<_> =
        rendered.lines().filter_map(|line| line.strip_prefix("forbear_refusals_total")).collect();
    refusals.sort_unstable();
    let mut labels = Vec::new();
    for mode in ["enforce", "shadow"] {
        for reason in ["budget", "deadline", "retry_after", "throttled"] {
            let count = u32::from((mode, reason) == ("enforce", "budget"));
            labels.push(format!(r#"{{client="test",mode="{mode}",reason="{reason}"}} {count}"#));
        }
    }
    assert_eq!(refusals, labels);
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_throttle() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let observer = metrics::with_local_recorder(&recorder, || Metrics::new("test"));
    let client = client(Config::overload().to_builder().max_attempts(1).build().unwrap()).observed(observer);
    let mut refused = 0;
    for _ in 0..100 {
        let answer = client.call(|| ready(Err::<(), _>(503)), |_| Reply::OVERLOADED).await;
        refused += u32::from(answer.unwrap_err().is_refused());
    }
    let lines = [
        &format!(r#"forbear_attempts_total{{client="test"}} {}"#, 100 - refused)[..],
        &format!(r#"forbear_refusals_total{{client="test",mode="enforce",reason="throttled"}} {refused}"#),
        // The last call saw 99 requests.
        r#"forbear_reject_probability{client="test"} 0.99"#,
    ];
    has(&recorder.handle().render(), &lines);
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_the_limits_apart() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let client = client(LIMITED).observed(metrics::with_local_recorder(&recorder, || Metrics::new("test")));
    limited(&client).await;
    let lines = [
        r#"forbear_refusals_total{client="test",mode="enforce",reason="deadline"} 2"#,
        r#"forbear_refusals_total{client="test",mode="enforce",reason="retry_after"} 1"#,
    ];
    has(&recorder.handle().render(), &lines);
}

#[tokio::test(start_paused = true)]
async fn metrics_show_what_the_throttle_would_have_refused() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let observer = metrics::with_local_recorder(&recorder, || Metrics::new("test"));
    // With K of 0 nearly all but the first.
    let config = Config::overload().to_builder().k(0.0).max_attempts(1).mode(Mode::Shadow).build().unwrap();
    let told = Arc::new(Mutex::new(0));
    let client = client(config).observed(observer).observed({
        let told = told.clone();
        move |report: &forbear_tokio::Report| *told.lock().unwrap() += u32::from(report.shadow.is_some())
    });
    for _ in 0..100 {
        client.call(|| ready(Ok::<_, u16>(())), |_| Reply::ACCEPTED).await.unwrap();
    }
    let refused = *told.lock().unwrap();
    assert!(refused > 0);
    let lines = [
        &format!(r#"forbear_refusals_total{{client="test",mode="shadow",reason="throttled"}} {refused}"#)[..],
        r#"forbear_refusals_total{client="test",mode="enforce",reason="throttled"} 0"#,
        r#"forbear_attempts_total{client="test"} 100"#,
    ];
    has(&recorder.handle().render(), &lines);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

async fn events_in(mode: Mode) -> Vec<String> {
    events_of(BUDGET, mode, calls).await
}

async fn events_of(config: Config, mode: Mode, calls: impl AsyncFnOnce(&TestClient)) -> Vec<String> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_max_level(tracing::Level::TRACE)
        .without_time()
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let client = client(config).observed(Events::new("te".to_owned() + "st"));
    client.set_mode(mode);
    calls(&client).await;
    let written = lines.0.lock().unwrap().clone();
    let written = String::from_utf8(written).unwrap();
    written.lines().filter(|line| line.contains(" forbear: ")).map(|line| line.trim().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_refusals_and_of_retried_calls() {
    let counts = "requests=5 accepts=1 retries=2 waiting=0";
    assert_eq!(
        events_in(Mode::Enforce).await,
        [
            "DEBUG forbear: not retried after 3 attempts: no more attempts are allowed client=\"test\" \
             stop=\"attempts_spent\" attempts=3 requests=3 accepts=1 retries=1 waiting=1 p=0.0",
            &format!(
                "WARN forbear: not retried after 1 attempt: the retry budget is spent: 2 of the last 5 requests were \
                 retries client=\"test\" stop=\"budget\" attempts=1 {counts} p=0.0"
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn events_tell_what_shadow_mode_would_have_refused() {
    let events = events_in(Mode::Shadow).await;
    assert_eq!(events.len(), 2, "{events:#?}");
    let shadowed = &events[1];
    assert!(shadowed.starts_with("WARN forbear: not retried after 3 attempts"), "{shadowed}");
    assert!(shadowed.contains("; sent in shadow mode although the retry budget is spent"), "{shadowed}");
    assert!(shadowed.contains("stop=\"attempts_spent\" shadow=\"budget\" attempts=3"), "{shadowed}");
}

#[tokio::test(start_paused = true)]
async fn events_warn_of_limits_and_of_the_throttle() {
    let events = events_of(LIMITED, Mode::Enforce, limited).await;
    assert_eq!(events.len(), 3, "{events:#?}");
    for (event, stop) in events.iter().zip(["deadline", "deadline", "retry_after"]) {
        assert!(event.starts_with("WARN ") && event.contains(&format!("stop=\"{stop}\"")), "{event}");
    }
    // What is never sent: with K of 0 nearly all but the first.
    let config = Config::overload().to_builder().k(0.0).max_attempts(1).build().unwrap();
    let many = async |client: &TestClient| {
        for _ in 0..100 {
            let _ = client.call(|| ready(Ok::<_, u16>(())), |_| Reply::ACCEPTED).await;
        }
    };
    let events = events_of(config, Mode::Enforce, many).await;
    assert!(events.len() > 50, "{events:#?}");
    for event in events {
        assert!(event.starts_with("WARN forbear: not sent: ") && event.contains("stop=\"throttled\""), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn both_observe_one_client() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let told = Arc::new(Mutex::new(0));
    let client = client(BUDGET).observed(metrics::with_local_recorder(&recorder, || Metrics::new("test"))).observed({
        let told = told.clone();
        move |_: &forbear_tokio::Report| *told.lock().unwrap() += 1
    });
    calls(&client).await;
    assert_eq!(*told.lock().unwrap(), 4);
    has(&recorder.handle().render(), &[r#"forbear_calls_total{client="test"} 4"#]);
}
