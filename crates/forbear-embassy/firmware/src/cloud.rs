//! The cloud's HTTP API, as the firmware sees it.

use core::fmt::Write as _;
use core::time::Duration;

use embassy_net::Stack;
use embassy_net::dns::DnsSocket;
use embassy_net::tcp::client::{TcpClient, TcpClientState};
use forbear_embassy::forbear::{Reply, http};
use heapless::String;
use reqwless::client::HttpClient;
use reqwless::headers::ContentType;
use reqwless::request::{Method, RequestBuilder as _};

/// The buffers of all connections: a sensor has one, and so has the scenario.
pub type Connections = TcpClientState<3, 512, 512>;

/// Where the emulator's network puts the host's loopback.
const HOST: &str = "10.0.2.2";

/// Why a request did not do what it was to do.
#[derive(Debug)]
pub enum Failure {
    /// The server answered with another status than success.
    Status { code: u16, retry_after: Option<Duration> },
    /// No answer that could be read.
    NoAnswer,
}

impl From<reqwless::Error> for Failure {
    fn from(_: reqwless::Error) -> Self {
        Self::NoAnswer
    }
}

impl Failure {
    /// What it means for the policy.
    pub fn reply(&self) -> Reply {
        match *self {
            Self::Status { code, retry_after: None } => http::status(code),
            Self::Status { code, retry_after: Some(wait) } => http::status(code).after(wait),
            Self::NoAnswer => Reply::UNREACHABLE,
        }
    }
}

/// One user of the API: `&mut self`, as the HTTP client has it.
pub struct Cloud {
    stack: Stack<'static>,
    connections: &'static Connections,
    port: u16,
}

impl Cloud {
    pub fn new(stack: Stack<'static>, connections: &'static Connections, port: u16) -> Self {
        Self { stack, connections, port }
    }

    /// Sends a sensor's reading.
    pub async fn post_reading(&mut self, reading: &str) -> Result<(), Failure> {
        self.request(Method::POST, "readings", reading).await
    }

    /// Asks the server to behave in a certain way from now on.
    pub async fn put_mode(&mut self, mode: &str) -> Result<(), Failure> {
        self.request(Method::PUT, "mode", mode).await
    }

    async fn request(&mut self, method: Method, path: &str, body: &str) -> Result<(), Failure> {
        let mut url = String::<48>::new();
        write!(url, "http://{HOST}:{}/{path}", self.port).expect("the paths are short");
        let tcp = TcpClient::new(self.stack, self.connections);
        let dns = DnsSocket::new(self.stack);
        let mut client = HttpClient::new(&tcp, &dns);
        let mut buffer = [0; 512];
        let mut request =
            client.request(method, &url).await?.content_type(ContentType::ApplicationJson).body(body.as_bytes());
        let response = request.send(&mut buffer).await?;
        let retry_after = response
            .headers()
            .find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))
            .and_then(|(_, value)| http::retry_after(core::str::from_utf8(value).ok()?));
        match response.status.0 {
            200..=299 => Ok(()),
            code => Err(Failure::Status { code, retry_after }),
        }
    }
}
