//! The storm: the same demand, driven through every strategy at the same time, each against a server of its own.

mod demand;
mod drive;
mod json;
mod phases;
mod plot;
mod progress;
mod queue;
mod record;
mod server;
mod settings;
mod strategies;
mod table;

use std::{
    fmt,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forbear::ConfigError;
use tokio::sync::watch;

pub(crate) use self::settings::Args;
use self::{
    drive::Drive,
    record::{Live, Record},
    settings::Settings,
    strategies::{Backoff, Budget, Forbear, Plain, Strategy},
};

/// What a shell expects of a program that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Threads and servers get this long to be ready for the first arrival.
const HEAD_START: Duration = Duration::from_millis(300);

/// An arrival or a rejection that is later than this makes the figures doubtful.
const TOLERABLE_LAG: Duration = Duration::from_millis(500);

/// A strategy and what became of it.
#[derive(Debug)]
struct Run {
    strategy: Strategy,
    record: Record,
}

/// Runs a storm as its flags say: settings, progress, table, plot, JSON.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&args)?;
    // Everything that can be wrong with the command line is found out before the storm.
    let listeners =
        Strategy::ALL.iter().enumerate().map(|(i, _)| listen(args.port, i)).collect::<Result<Vec<_>, _>>()?;
    fs::create_dir_all(&args.out).map_err(|source| Failure::Output { path: args.out.clone(), source })?;
    let picture = args.out.join("storm.svg");
    create(&picture)?;
    let figures = args.json.as_deref().map(|path| Ok((path, create(path)?))).transpose()?;
    println!("{settings}\n");
    let (runs, interrupted) = rage(&settings, listeners)?;

    println!("{}", table::table(&runs, &settings, interrupted));
    if interrupted {
        println!("interrupted: figures are those of phases that came to their end, and a dash stands for the others");
    }
    for Run { strategy, record } in &runs {
        if record.lag > TOLERABLE_LAG {
            println!("doubtful: this machine was up to {:.1} s late with '{strategy}'", record.lag.as_secs_f64());
        }
        if let Some(why) = &record.first_broken {
            println!("doubtful: {} requests of '{strategy}' broke before they were answered ({why})", record.broken);
        }
    }
    let written = |path: &Path, result: io::Result<()>| {
        result.map_err(|source| Failure::Write { path: path.to_owned(), source })?;
        println!("wrote {}", path.display());
        Ok(())
    };
    written(&picture, fs::write(&picture, plot::svg(&runs, &settings)))?;
    if let Some((path, file)) = figures {
        written(path, json::write(file, &runs, &settings, interrupted))?;
    }
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Lets it happen, and says whether it was stopped before its end.
fn rage(settings: &Settings, listeners: Vec<(TcpListener, SocketAddr)>) -> Result<(Vec<Run>, bool), Failure> {
    let start = Instant::now() + HEAD_START;
    let (stop, stopped) = watch::channel(false);
    let lives: Vec<_> = Strategy::ALL.into_iter().map(|strategy| (strategy, Arc::new(Live::default()))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    thread::scope(|scope| {
        let threads: Vec<_> = listeners
            .into_iter()
            .zip(&lives)
            .map(|((listener, address), (strategy, live))| {
                let drive = Drive { settings, start, listener, address, stop: stopped.clone(), live: live.clone() };
                (*strategy, scope.spawn(move || drive.strategy(*strategy)))
            })
            .collect();
        let interrupted = runtime.block_on(async {
            tokio::select! {
                biased;
                pressed = tokio::signal::ctrl_c() => pressed.is_ok(),
                () = progress::watch(settings, start, &lives) => false,
            }
        });
        let seconds = start.elapsed().as_secs() as usize;
        // Whoever has ended by itself no longer listens.
        let _ = interrupted.then(|| stop.send(true));
        let runs = threads.into_iter().map(|(strategy, thread)| {
            let mut record =
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(Failure::Runtime)?;
            record.cut(seconds.min(settings.phases.total_seconds()));
            Ok(Run { strategy, record })
        });
        Ok((runs.collect::<Result<_, Failure>>()?, interrupted))
    })
}

/// A window's length is part of its type: this many types, chosen at run time.
macro_rules! windows {
    ($($seconds:literal)*) => {
        const WINDOWS: &[u32] = &[$($seconds),*];

        impl Drive<'_> {
            fn strategy(self, strategy: Strategy) -> io::Result<Record> {
                let &Settings { attempts, window, ratio, book, forbear, .. } = self.settings;
                let forbear = if strategy == Strategy::Book { book } else { forbear };
                match strategy {
                    Strategy::NoRetries => self.through(|_| Plain { attempts: 1 }),
                    Strategy::PlainRetries => self.through(|_| Plain { attempts }),
                    Strategy::Backoff => self.through(|seed| Backoff::new(attempts, seed)),
                    Strategy::Budget => self.through(|_| Budget::new(attempts, ratio as f32, window)),
                    Strategy::Book | Strategy::Forbear => match window {
                        $($seconds => self.through(|seed| Forbear::<$seconds>::new(forbear, seed)),)*
                        _ => Err(io::Error::other("a window that the command line should have refused")),
                    },
                }
            }
        }
    };
}
windows!(1 2 5 10 20 30 60 120 300 600 1200 3600);

/// A port of its own for the `i`-th server: any free one, or the `i`-th from `base`.
fn listen(base: Option<u16>, i: usize) -> Result<(TcpListener, SocketAddr), Failure> {
    let port = match base {
        None => 0,
        Some(base) => u16::try_from(i).ok().and_then(|i| base.checked_add(i)).ok_or(Failure::Port(base))?,
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let bound = TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = bound.map_err(|source| Failure::Listen { address, source })?;
    Ok((listener, address))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|source| Failure::Output { path: path.to_owned(), source })
}

/// Why there is no storm.
#[derive(Debug)]
pub(crate) enum Failure {
    Config(ConfigError),
    /// There would be nothing left to judge.
    OverloadTooShort {
        overload: u32,
        window: u32,
    },
    /// Not enough ports above the first.
    Port(u16),
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    Output {
        path: PathBuf,
        source: io::Error,
    },
    Write {
        path: PathBuf,
        source: io::Error,
    },
    Runtime(io::Error),
}

impl Failure {
    /// Whether another command line would help.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Write { .. } | Self::Runtime(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(refused) => write!(f, "{refused}"),
            Self::OverloadTooShort { overload, window } => write!(
                f,
                "an overload of {overload} s is not longer than the window of {window} s, and it is judged after its first window"
            ),
            Self::Port(base) => {
                write!(f, "--port {base} leaves too few ports above it for {} servers", Strategy::ALL.len())
            }
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Output { path, source } => {
                write!(f, "cannot write to {}: {source}", path.display())
            }
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Self::Runtime(source) => write!(f, "cannot run the storm: {source}"),
        }
    }
}

impl std::error::Error for Failure {}
