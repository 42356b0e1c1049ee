//! What is answered to a question: metrics, profiles, the index page, or why not.
//! SPDX-License-Identifier: BSD-2-Clause

use super::metrics::{self, Detail, Dialect};
use super::readings;
use super::targets::{self, Targets};
use crate::attach::Process;
use crate::error::{Result, ToolError};
use crate::export::pprof;
use crate::heap_view::HeapView;
use crate::output::figures::bytes;
use crate::profile::Profile;
use crate::system::is_left_within;
use std::fmt::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Longer questions would keep a thread from others, and so would more of them at the same time.
const SECONDS_MAX: u64 = 300;
const WAITING_MAX: usize = 32;

/// The page that says that we answer.
pub const HEALTHY: &str = "/-/healthy";

#[derive(Debug, Default)]
pub struct Question {
    pub path: String,
    /// What stands behind the '?', in pairs.
    pub parameters: Vec<(String, String)>,
    pub accept: String,
    /// Where the answer goes; None: not known.
    pub asker: Option<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Service {
    pub targets: Targets,
    pub detail: Detail,
}

impl Question {
    /// Of "path?name=value&…".
    pub fn parse(url: &str, accept: &str) -> Question {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Question {
            path: path.to_string(),
            parameters: pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            accept: accept.to_string(),
            asker: None,
        }
    }

    /// Whether whoever asked is still there after that time. One who ended that side of the connection is not, as for other servers.
    fn waits(&self, time: Duration) -> bool {
        match &self.asker {
            Some(asker) => !is_left_within(asker, time),
            None => {
                std::thread::sleep(time);
                true
            }
        }
    }

    /// None: not given. An error's text: not a number.
    fn number(&self, name: &str) -> std::result::Result<Option<u64>, String> {
        let Some((_, value)) = self.parameters.iter().find(|(given, _)| given == name) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name}={value} is not a number\n")),
        }
    }
}

impl Answer {
    pub fn text(status: u16, text: impl Into<String>) -> Answer {
        Answer {
            status,
            content_type: "text/plain; charset=utf-8",
            body: text.into().into_bytes(),
        }
    }

    fn bad(text: impl Into<String>) -> Answer {
        Answer::text(400, text)
    }

    fn unavailable(error: &ToolError) -> Answer {
        Answer::text(503, format!("{error}\n"))
    }
}

impl Service {
    pub fn answer(&self, question: &Question) -> Answer {
        let answered = match question.path.as_str() {
            "/" => Ok(self.index()),
            "/metrics" => Ok(self.metrics(question)),
            "/debug/pprof/heap" => self.heap(question),
            "/debug/pprof/allocs" => self.allocs(question),
            HEALTHY => Ok(Answer::text(200, "vmag serves\n")),
            _ => Err(Answer::text(404, "there is no such page; / lists what there is\n")),
        };
        answered.unwrap_or_else(|refusal| refusal)
    }

    fn metrics(&self, question: &Question) -> Answer {
        let dialect = Dialect::accepted(&question.accept);
        let text = metrics::write(&self.targets.present(), self.detail, dialect);
        Answer {
            status: 200,
            content_type: dialect.content_type(),
            body: text.into_bytes(),
        }
    }

    fn heap(&self, question: &Question) -> std::result::Result<Answer, Answer> {
        let process = self.process(question)?;
        match seconds(question)? {
            None => Ok(pprof_of(profile(&process)?, pprof::Kind::Live)),
            Some(seconds) => Ok(pprof_of(
                over(question, &process, seconds)?,
                pprof::Kind::Allocated { seconds },
            )),
        }
    }

    fn allocs(&self, question: &Question) -> std::result::Result<Answer, Answer> {
        let process = self.process(question)?;
        let seconds = seconds(question)?.unwrap_or(0);
        let profile = match seconds {
            0 => profile(&process)?,
            seconds => over(question, &process, seconds)?,
        };
        Ok(pprof_of(profile, pprof::Kind::Allocated { seconds }))
    }

    /// The one that the question names, or the only one.
    fn process(&self, question: &Question) -> std::result::Result<Arc<Process>, Answer> {
        if let Some(pid) = question.number("pid").map_err(Answer::bad)? {
            let served = i32::try_from(pid).ok().filter(|pid| self.targets.has(*pid));
            let not_here = || Answer::text(404, format!("process {pid} is not served here\n"));
            return targets::attach(served.ok_or_else(not_here)?).map_err(|error| Answer::unavailable(&error));
        }
        let mut present = self.targets.present().processes;
        match (present.pop(), present.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => Err(Answer::text(503, "none of the processes can be read at the moment\n")),
            (Some(_), more) => Err(Answer::bad(format!(
                "there are {} processes: say which with ?pid=N; / lists them\n",
                more + 1
            ))),
        }
    }

    fn index(&self) -> Answer {
        let mut rows = String::new();
        for process in self.targets.present().processes {
            let (pid, of) = (process.pid, process.clone());
            let allocated = readings::of(pid, move || of.counters().ok().map(|counters| counters.allocated));
            let _ = writeln!(
                rows,
                "<tr><td>{pid}<td>{}<td class=n>{}<td><a href=\"/debug/pprof/heap?pid={pid}\">heap</a>\
                 <td><a href=\"/debug/pprof/allocs?pid={pid}\">allocs</a>\
                 <td><a href=\"/debug/pprof/allocs?pid={pid}&amp;seconds=10\">allocs of 10 s</a>",
                escaped(&process.program),
                told(allocated.flatten())
            );
        }
        Answer {
            status: 200,
            content_type: "text/html; charset=utf-8",
            body: include_str!("../../assets/serve.html")
                .replace("{rows}", &rows)
                .into_bytes(),
        }
    }
}

/// Bytes, if they could be read.
fn told(allocated: Option<u64>) -> String {
    allocated.map_or("not known".to_string(), bytes)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn seconds(question: &Question) -> std::result::Result<Option<u64>, Answer> {
    match question.number("seconds").map_err(Answer::bad)? {
        Some(seconds) if seconds > SECONDS_MAX => Err(Answer::bad(format!(
            "seconds={seconds} is too long; at most {SECONDS_MAX}\n"
        ))),
        seconds => Ok(seconds.filter(|seconds| *seconds > 0)),
    }
}

/// An empty profile is an answer; one of a process that was never asked to sample is not.
fn profile(process: &Arc<Process>) -> std::result::Result<Profile, Answer> {
    let (pid, of) = (process.pid, process.clone());
    let read = readings::of(pid, move || of.profile_if_any()).unwrap_or_else(|| Err(targets::too_slow(pid)));
    read.map_err(|error| Answer::unavailable(&error))
}

/// What was allocated in that time; what is alive is that of its end.
fn over(question: &Question, process: &Arc<Process>, seconds: u64) -> std::result::Result<Profile, Answer> {
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    let before = profile(process)?;
    let is_room = WAITING.fetch_add(1, Relaxed) < WAITING_MAX;
    let is_wanted = is_room && question.waits(Duration::from_secs(seconds));
    WAITING.fetch_sub(1, Relaxed);
    match (is_room, is_wanted) {
        (true, true) => Ok(profile(process)?.since(&before)),
        (true, false) => Err(Answer::text(503, "nobody waits for it any more\n")),
        (false, _) => Err(Answer::text(503, "too many wait for profiles over time already\n")),
    }
}

fn pprof_of(profile: Profile, kind: pprof::Kind) -> Answer {
    Answer {
        status: 200,
        content_type: "application/octet-stream",
        body: pprof::write_as(&HeapView::new(profile), kind),
    }
}

/// Switches the profiler of the processes on that have it off; says of whom it could not, and who has it on and stays as it is.
pub fn start_sampling(targets: &Targets, sample_bytes: u64) -> Vec<String> {
    let ask_one = |process: &Arc<Process>| -> Result<Option<String>> {
        let (pid, of) = (process.pid, process.clone());
        let ask = crate::attach::Ask::ProfileOn { sample_bytes };
        let asked = readings::of(pid, move || match of.sampling() {
            Some((true, distance)) if distance == sample_bytes => Ok(None),
            Some((true, distance)) => Ok(Some(format!(
                "vmag: process {pid} samples every {} on average already, and is left so",
                bytes(distance)
            ))),
            _ => of.ask(&ask, Duration::from_millis(100)).map(|_| None),
        });
        asked.unwrap_or_else(|| Err(targets::too_slow(pid)))
    };
    targets
        .present()
        .processes
        .iter()
        .filter_map(|process| ask_one(process).unwrap_or_else(|error| Some(error.to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Service {
        Service {
            targets: Targets::named(&[i32::MAX]),
            detail: Detail::default(),
        }
    }

    #[test]
    fn questions_are_taken_apart() {
        let question = Question::parse("/debug/pprof/allocs?seconds=5&pid=7&x", "");
        assert_eq!(question.path, "/debug/pprof/allocs");
        assert_eq!(question.number("seconds"), Ok(Some(5)));
        assert_eq!(question.number("y"), Ok(None));
        assert!(question.number("x").is_err());
    }

    #[test]
    fn what_cannot_be_answered_is_told() {
        let status = |url: &str| service().answer(&Question::parse(url, "")).status;
        assert_eq!(status("/nothing"), 404);
        assert_eq!(status("/debug/pprof/heap"), 503);
        assert_eq!(status("/debug/pprof/heap?pid=1"), 404);
        assert_eq!(status("/debug/pprof/heap?pid=x"), 400);
        assert_eq!(status("/metrics"), 200);
        assert_eq!(status("/"), 200);
    }

    #[test]
    fn a_process_is_told_as_it_was_asked_for() {
        let answer = service().answer(&Question::parse("/debug/pprof/heap?pid=99999999999", ""));
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(
            (answer.status, text.as_str()),
            (404, "process 99999999999 is not served here\n")
        );
    }

    #[test]
    fn what_could_not_be_read_is_not_nothing() {
        assert_eq!((told(Some(0)).as_str(), told(None).as_str()), ("0 B", "not known"));
    }

    #[test]
    fn metrics_tell_of_processes_that_are_gone() {
        let answer = service().answer(&Question::parse("/metrics", "application/openmetrics-text"));
        let text = String::from_utf8(answer.body).unwrap();
        assert!(
            text.contains("vmag_unreadable_processes 1\n") && text.ends_with("# EOF\n"),
            "{text}"
        );
        assert!(answer.content_type.starts_with("application/openmetrics-text"));
    }
}
