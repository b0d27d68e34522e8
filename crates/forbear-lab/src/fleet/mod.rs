//! Fleets in virtual time: many clients, one backend, and what a strategy makes of them.

mod backend;
mod contest;
mod figures;
mod grid;
mod json;
mod plot;
mod progress;
mod record;
mod scenario;
mod settings;
mod simulation;
mod strategies;
mod sweep;
mod table;
mod weather;
mod wheel;

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use forbear::ConfigError;

pub(crate) use self::settings::Args;
use self::{figures::Figures, progress::Progress, record::Record, strategies::Name, weather::Event};

/// A strategy and what became of it.
#[derive(Debug)]
struct Run {
    name: Name,
    record: Record,
    figures: Figures,
}

/// Simulates as the flags say: table, JSON, plots. What the machine took for it goes to standard error, so that standard output
/// and files are functions of the flags alone.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let contest = args.contest()?;
    let shape = args.shape()?;
    // Everything that can be wrong with the command line is found out before the work.
    if let Some(folder) = &args.plot {
        fs::create_dir_all(folder).map_err(|source| Failure::Output { path: folder.clone(), source })?;
    }
    let figures = args.json.as_deref().map(|path| Ok((path, create(path)?))).transpose()?;
    let written = |path: &Path, result| match result {
        Ok(()) => {
            println!("wrote {}", path.display());
            Ok(())
        }
        Err(source) => Err(Failure::Write { path: path.to_owned(), source }),
    };
    let draw = |name: &str, picture: &dyn Fn() -> String| match &args.plot {
        None => Ok(()),
        Some(folder) => {
            let path = folder.join(name);
            written(&path, fs::write(&path, picture()))
        }
    };

    let begun = Instant::now();
    let attempts;
    if args.grid {
        println!("seeds {}\n", seeds(&contest.seeds));
        let (rows, all) = grid::grid(&contest);
        attempts = all;
        println!("{}", table::rows(&rows));
        if let Some((path, file)) = figures {
            written(path, json::write(file, &rows))?;
        }
    } else if let Some(sweep) = args.sweep {
        println!("{}seeds {}\n", describe(&shape), seeds(&contest.seeds));
        let (lines, all) = sweep::sweep(sweep, &shape, &contest);
        attempts = all;
        println!("{}", table::lines(sweep, &lines));
        if let Some((path, file)) = figures {
            written(path, json::lines(file, sweep, &lines, &contest.seeds))?;
        }
        let name = match sweep {
            settings::Sweep::Outage => "recovery-by-outage.svg",
            settings::Sweep::Clients => "load-by-clients.svg",
            settings::Sweep::K => "load-by-k.svg",
        };
        draw(name, &|| plot::lines(sweep, &lines))?;
    } else {
        let seed = args.seed();
        println!("{}seed {seed}\n", describe(&shape));
        let progress = Progress::new(progress::calls(&shape) * contest.names.len() as f64);
        let runs = contest.all(&contest.names, |&name| {
            let record = contest.run(name, &shape, seed, |record| {
                progress.second(record);
                true
            });
            Run { name, figures: Figures::of(&record, &shape), record }
        });
        progress.finish();
        attempts = runs.iter().map(|run| run.record.attempts).sum();
        println!("{}", table::runs(&runs, shape.forecast.recovers(shape.seconds)));
        if let Some((path, file)) = figures {
            written(path, json::runs(file, &runs, &shape, seed))?;
        }
        draw("fleet.svg", &|| plot::timeline(&runs, &shape))?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rate = attempts as f64 / seconds / 1e6;
    eprintln!("{attempts} attempts in {seconds:.2} s, {rate:.1} million a second");
    Ok(ExitCode::SUCCESS)
}

/// The fleet, its backend and what happens to them, in a line each.
fn describe(shape: &scenario::Shape) -> String {
    let scenario::Shape { clients, rate, seconds, forecast, .. } = shape;
    let load = forecast.demand / forecast.capacity;
    let events = forecast.events.iter().map(Event::to_string).chain(forecast.flip.iter().map(ToString::to_string));
    let events: String = events.map(|event| format!("event    {event}\n")).collect();
    format!(
        "fleet    {clients} clients x {}/s\nbackend  {} requests/s: demand is {load:.2}x that\n{events}time     {seconds} s, ",
        plain(*rate),
        plain(forecast.capacity),
    )
}

/// A number with no more than four decimals, and no zeros at their end.
fn plain(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [only] => only.to_string(),
        [first, .., last] => format!("{first} to {last}"),
        [] => String::new(),
    }
}

/// Opens a file to be written at the end: until then it keeps what it has.
fn create(path: &Path) -> Result<File, Failure> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|source| Failure::Output { path: path.to_owned(), source })
}

/// Why there is no simulation, or no file of it.
#[derive(Debug)]
pub(crate) enum Failure {
    Config(ConfigError),
    /// Shares of sends that come to more than all of them.
    Shares(f64),
    /// Calls a second of the fleet at its busiest.
    Demand(f64),
    /// Calls a second of one client at its busiest.
    Rate(f64),
    /// Something is to happen when all is over.
    TooLate {
        event: String,
        seconds: u32,
    },
    Output {
        path: PathBuf,
        source: io::Error,
    },
    Write {
        path: PathBuf,
        source: io::Error,
    },
}

impl Failure {
    /// Whether another command line would help.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The flag of a field has its name, but for the dashes.
            Self::Config(refused) => {
                let flag = refused.field().replace('_', "-");
                write!(f, "--{}", refused.to_string().replacen(refused.field(), &flag, 1))
            }
            Self::Shares(sum) => write!(f, "--overloaded, --failing and --silent come to {sum}, allowed: at most 1"),
            Self::Demand(demand) => {
                let most = settings::MOST_DEMAND;
                write!(
                    f,
                    "--clients times --rate, and times --surge, is {demand} calls a second, allowed: at most {most}"
                )
            }
            Self::Rate(rate) => {
                let most = settings::MOST_RATE;
                write!(
                    f,
                    "a client makes {rate} calls a second by --rate, --surge or --sweep clients, allowed: at most {most}"
                )
            }
            Self::TooLate { event, seconds } => {
                write!(f, "an event ({event}) begins after the end (--seconds {seconds})")
            }
            Self::Output { path, source } => write!(f, "cannot write to {}: {source}", path.display()),
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Failure {}
