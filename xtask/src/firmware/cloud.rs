//! The server that the firmware talks to: real HTTP on the host's loopback, which behaves as it was last asked to.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// How long an overloaded server asks some of its clients to wait.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Which rejections carry no `Retry-After`: every third.
const NO_RETRY_AFTER: usize = 3;

/// One reading that reached the server.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// When its last byte had come.
    pub(crate) at: Instant,
    /// The phase that the server was in.
    pub(crate) phase: String,
    pub(crate) sensor: u64,
    pub(crate) call: u64,
    /// 0 for the first attempt of a call.
    pub(crate) attempt: u64,
    /// How many calls the firmware had begun by then, of all sensors.
    pub(crate) begun: u64,
    /// Whether the answer was success.
    pub(crate) accepted: bool,
    /// What the answer asked the client to wait, and when it was sent.
    pub(crate) wait: Option<(Duration, Instant)>,
}

/// A running server.
pub(crate) struct Cloud {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    phase: String,
    arrivals: Vec<Arrival>,
    rejections: usize,
    /// Connections that are never answered.
    silent: Vec<TcpStream>,
    errors: Vec<String>,
}

impl Cloud {
    /// Starts a server on a free port.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on the loopback")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        // Lives as long as the program: a task of it runs one firmware.
        thread::spawn(move || {
            for connection in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || {
                    if let Err(error) = connection.map_err(Into::into).and_then(|stream| serve(stream, &state)) {
                        lock(&state).errors.push(format!("{error:#}"));
                    }
                });
            }
        });
        Ok(Self { port, state })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What arrived so far, in order.
    ///
    /// # Errors
    ///
    /// The first request that the server could not understand.
    pub(crate) fn arrivals(&self) -> Result<Vec<Arrival>> {
        let state = lock(&self.state);
        match state.errors.first() {
            Some(error) => Err(anyhow!("the server could not serve a request: {error}")),
            None => Ok(state.arrivals.clone()),
        }
    }
}

/// A thread that panicked left the state as whole as any other.
fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let (route, body) = read_request(&mut stream)?;
    let mut state = lock(state);
    match route.as_str() {
        "PUT /mode" => {
            state.phase = body;
            drop(state);
            answer(stream, "200 OK", None)
        }
        "POST /readings" => {
            let mut arrival = arrival(&state.phase, &body)?;
            match state.phase.as_str() {
                "silent" => {
                    state.silent.push(stream);
                    state.arrivals.push(arrival);
                    Ok(())
                }
                "overloaded" => {
                    state.rejections += 1;
                    let wait = (!state.rejections.is_multiple_of(NO_RETRY_AFTER)).then_some(RETRY_AFTER);
                    // The clock of the wait starts before the first byte of the answer leaves.
                    arrival.wait = wait.map(|wait| (wait, Instant::now()));
                    state.arrivals.push(arrival);
                    drop(state);
                    answer(stream, "503 Service Unavailable", wait)
                }
                _ => {
                    arrival.accepted = true;
                    state.arrivals.push(arrival);
                    drop(state);
                    answer(stream, "200 OK", None)
                }
            }
        }
        other => bail!("no route for {other}"),
    }
}

fn arrival(phase: &str, body: &str) -> Result<Arrival> {
    let reading: Value = serde_json::from_str(body).with_context(|| format!("not a reading: {body}"))?;
    let field = |name: &str| reading[name].as_u64().with_context(|| format!("no {name} in {body}"));
    Ok(Arrival {
        at: Instant::now(),
        phase: phase.to_owned(),
        sensor: field("sensor")?,
        call: field("call")?,
        attempt: field("attempt")?,
        begun: field("begun")?,
        accepted: false,
        wait: None,
    })
}

/// Reads one request to its end: its method and path, and its body.
fn read_request(stream: &mut impl Read) -> Result<(String, String)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(head) = request.parse(&bytes)? {
            let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length: usize = match length {
                Some(header) => core::str::from_utf8(header.value)?.parse()?,
                None => 0,
            };
            if let Some(body) = bytes.get(head..head + length) {
                let route = format!("{} {}", request.method.unwrap_or_default(), request.path.unwrap_or_default());
                return Ok((route, String::from_utf8(body.to_vec())?));
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) => bail!("the connection ended within a request"),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn answer(mut stream: TcpStream, status: &str, wait: Option<Duration>) -> Result<()> {
    let wait = wait.map(|wait| format!("Retry-After: {}\r\n", wait.as_secs())).unwrap_or_default();
    write!(stream, "HTTP/1.1 {status}\r\n{wait}Content-Length: 0\r\nConnection: close\r\n\r\n")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::{Cloud, RETRY_AFTER, arrival, read_request};

    fn ask(cloud: &Cloud, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, cloud.port())).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn reading(call: u32) -> String {
        let body = format!(r#"{{"sensor":1,"call":{call},"attempt":0,"begun":9}}"#);
        format!("POST /readings HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn the_server_behaves_as_it_was_asked_to() {
        let cloud = Cloud::start().unwrap();
        assert!(ask(&cloud, &reading(0)).starts_with("HTTP/1.1 200"));
        assert!(ask(&cloud, "PUT /mode HTTP/1.1\r\ncontent-length: 10\r\n\r\noverloaded").starts_with("HTTP/1.1 200"));
        let answers: Vec<String> = (1..=4).map(|call| ask(&cloud, &reading(call))).collect();
        assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 503")));
        assert_eq!(answers.iter().filter(|answer| answer.contains("Retry-After: 1\r\n")).count(), 3);
        let arrivals = cloud.arrivals().unwrap();
        assert_eq!(arrivals.iter().map(|arrival| arrival.call).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((arrivals[0].phase.as_str(), arrivals[4].phase.as_str()), ("", "overloaded"));
        assert_eq!(arrivals[4].wait.map(|(wait, _)| wait), Some(RETRY_AFTER));
    }

    #[test]
    fn what_it_cannot_understand_is_an_error() {
        assert!(arrival("healthy", "{}").unwrap_err().to_string().contains("no sensor in {}"));
        assert!(arrival("healthy", "21.5 C").unwrap_err().to_string().contains("not a reading"));
        assert!(read_request(&mut "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}".as_bytes()).is_err());
    }
}
