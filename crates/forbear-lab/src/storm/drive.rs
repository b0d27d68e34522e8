//! Drives the demand through one strategy, on a thread of its own with a server of its own.

use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use hyper::Uri;
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    sync::{Semaphore, watch},
    task::{JoinSet, LocalSet},
    time::Instant,
};

use super::{
    Settings,
    demand::Arrival,
    queue::Queue,
    record::{Live, Record},
    server::Server,
    strategies::{Client, Request, Road},
};

/// Calls that have not ended by then are left.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is the same for all strategies, and what this one is given.
#[derive(Debug)]
pub(super) struct Drive<'s> {
    pub(super) settings: &'s Settings,
    pub(super) start: std::time::Instant,
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) live: Arc<Live>,
}

impl Drive<'_> {
    /// Runs to the end of the storm, or until it is stopped. `client` makes a client from its seed.
    pub(super) fn through<C: Client + 'static>(self, client: impl Fn(u64) -> C) -> io::Result<Record> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.run(client))
    }

    async fn run<C: Client + 'static>(mut self, client: impl Fn(u64) -> C) -> io::Result<Record> {
        let settings = self.settings;
        let start = Instant::from_std(self.start);
        let record = Rc::new(RefCell::new(Record::default()));
        let server = Rc::new(Server {
            start,
            phases: settings.phases.clone(),
            queue: RefCell::new(Queue::new(settings.capacity, settings.reject_cost)),
            record: record.clone(),
            live: self.live.clone(),
        });
        self.listener.set_nonblocking(true)?;
        let serving = tokio::task::spawn_local(server.run(tokio::net::TcpListener::from_std(self.listener)?));

        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let road = Rc::new(Road {
            start,
            http: Http::builder(TokioExecutor::new()).build(connector),
            // Several times what can wait in the server's queue.
            connections: Semaphore::new(256 + settings.capacity as usize),
            uri: Uri::builder()
                .scheme("http")
                .authority(self.address.to_string())
                .path_and_query("/")
                .build()
                .map_err(io::Error::other)?,
            record: record.clone(),
            live: self.live,
        });
        let clients: Vec<_> =
            (0..settings.clients).map(|i| Rc::new(client(settings.seed.wrapping_add(1 + i as u64)))).collect();

        let mut calls = JoinSet::new();
        for Arrival { at, client } in settings.demand() {
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep_until(start + at) => {}
            }
            {
                let mut record = record.borrow_mut();
                record.at(at).demand += 1;
                record.late(start.elapsed().saturating_sub(at));
            }
            while calls.try_join_next().is_some() {}
            calls.spawn_local(call(road.clone(), clients[client].clone(), at));
        }
        let _ = tokio::time::timeout(PATIENCE, async { while calls.join_next().await.is_some() {} }).await;
        calls.shutdown().await;
        serving.abort();
        Ok(record.take())
    }
}

async fn call<C: Client>(road: Rc<Road>, client: Rc<C>, began: Duration) {
    let request = Request::new(&road);
    let ended = client.call(&request).await;
    let now = road.start.elapsed();
    let mut record = road.record.borrow_mut();
    match ended {
        Ok(()) => {
            record.served(began, now);
            road.live.add_goodput();
        }
        Err(_) if request.sent() == 0 => record.at(now).refused += 1,
        Err(_) => {}
    }
}
