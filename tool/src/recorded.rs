//! What a run leaves behind when it was asked to record: the options for it, and the files afterwards.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::measure::Asked;
use crate::output::destination::{is_opened, named};
use crate::output::figures::parse_bytes;
use crate::process;
use crate::profile::Profile;
use crate::trace::{CHUNK, Trace};
use clap::ValueEnum;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How callers are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Callers {
    /// By unwind tables: any program
    Tables,
    /// By frame pointers, for code that was built with them
    Frames,
    /// By libgcc's unwinder: dear, for code made at run time that registers tables of its own
    System,
}

impl Callers {
    fn word(self) -> &'static str {
        match self {
            Callers::Tables => "tables",
            Callers::Frames => "frames",
            Callers::System => "system",
        }
    }
}

/// Has the system's unwinder.
const LIBGCC: &str = "libgcc_s.so.1";

/// A file that a run is to leave: a heap profile or an event trace.
pub struct Wanted {
    what: &'static str,
    file: PathBuf,
    /// What had its name before the run.
    older: Option<Metadata>,
    /// Where the processes of the run put theirs.
    folder: TempDir,
}

/// The files that came of it.
pub struct Written {
    /// Of the command's own process; None when it left none.
    pub own: Option<PathBuf>,
    pub of_children: Vec<PathBuf>,
    /// Traces that a process left before its last one: of the program that it was then.
    pub earlier: Vec<PathBuf>,
    /// Processes that run on, as daemons do, and where their files will be.
    pub running: Vec<i32>,
    pub folder: PathBuf,
    what: &'static str,
    /// Where that of the command's own process was wanted, and what was there before the run.
    wanted: PathBuf,
    older: Option<Metadata>,
}

/// What had the name that was wanted where the command's process left nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Older {
    Nothing,
    /// Was of an earlier run, and is gone.
    Removed,
    /// Is somebody's: a link, something else, or written since the run began.
    Kept(PathBuf),
}

impl Written {
    /// Where the command's process left none, that of an earlier run would be taken for it.
    pub fn remove_older(&self) -> Result<Older> {
        let Some(there) = about(&self.wanted).filter(|_| self.own.is_none()) else {
            return Ok(Older::Nothing);
        };
        if !self.is_of_an_earlier_run(&there) {
            return Ok(Older::Kept(self.wanted.clone()));
        }
        fs::remove_file(&self.wanted).map(|()| Older::Removed).map_err(|error| {
            ToolError::new(
                format!("cannot remove {}, which is of an earlier run", self.wanted.display()),
                error,
                "do not take it for this one's: the command's process left none",
            )
        })
    }

    /// Whatever else has that name is not ours to remove; nor what another run has put there meanwhile.
    fn is_of_an_earlier_run(&self, there: &Metadata) -> bool {
        let stamp = |about: &Metadata| (about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec());
        there.is_file()
            && self.older.as_ref().map(stamp) == Some(stamp(there))
            && match self.what {
                "trace" => Trace::is_one(&self.wanted),
                _ => Profile::is_one(&self.wanted),
            }
    }
}

/// Of the name itself, not of what a link leads to.
fn about(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok()
}

/// What processes call their files, with their number behind it.
const NAME: &str = "of";
/// Bytes that the library takes as prof_prefix and trace.
const PREFIX_MOST: usize = 255;

impl Wanted {
    /// `sample_bytes`: the mean distance of samples, rounded to a power of two; None: as the program's options have it.
    pub fn profile(file: &Path, sample_bytes: Option<u64>, callers: Callers, asked: &mut Asked) -> Result<Wanted> {
        let wanted = Wanted::beside(file, "profile")?;
        asked.options.extend([
            "prof:true".to_string(),
            "prof_final:true".to_string(),
            "prof_accum:true".to_string(),
            format!("prof_prefix:{}", wanted.prefix()?),
        ]);
        if let Some(bytes) = sample_bytes {
            asked.options.push(format!("lg_prof_sample:{}", bytes.max(1).ilog2()));
        }
        ask_callers(callers, asked);
        Ok(wanted)
    }

    pub fn trace(file: &Path, how: &TraceLimits, asked: &mut Asked) -> Result<Wanted> {
        if how.ring {
            check_ring(how.most_bytes)?;
        }
        let wanted = Wanted::beside(file, "trace")?;
        asked.options.extend([
            format!("trace:{}", wanted.prefix()?),
            format!("trace_bytes:{}", how.most_bytes),
            format!("trace_seconds:{}", how.most_seconds),
            format!("trace_ring:{}", how.ring),
        ]);
        if let Some(callers) = how.stacks {
            asked.options.push("trace_stacks:true".to_string());
            ask_callers(callers, asked);
        }
        Ok(wanted)
    }

    /// In the folder of the file, for traces are large and are to be moved, not copied.
    fn beside(file: &Path, what: &'static str) -> Result<Wanted> {
        if named(file).is_none() {
            return Err(ToolError::new(
                format!("cannot write the {what} to standard output"),
                "what the program writes is there",
                format!("name a file with --{what}=FILE; one that is called - is ./-"),
            ));
        }
        check_replaceable(file).map_err(|error| cannot_write(what, file, error))?;
        let beside = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = tempfile::Builder::new()
            .prefix(&format!(".vmag-{what}-"))
            .tempdir_in(beside.unwrap_or(Path::new(".")))
            .map_err(|error| cannot_write(what, file, error))?;
        Ok(Wanted {
            what,
            file: file.to_path_buf(),
            older: about(file),
            folder,
        })
    }

    /// Of files; absolute, for the program may change its folder.
    fn prefix(&self) -> Result<String> {
        let folder = self.folder.path().canonicalize().map_err(|error| self.lost(error))?;
        let why = match folder.join(NAME).to_str() {
            Some(prefix) if prefix.contains(',') => "an option cannot hold a path with a comma".to_string(),
            Some(prefix) if prefix.len() > PREFIX_MOST => {
                format!("an option cannot hold a path of more than {PREFIX_MOST} bytes")
            }
            Some(prefix) => return Ok(prefix.to_string()),
            None => "an option cannot hold a path that is not UTF-8".to_string(),
        };
        Err(ToolError::new(
            format!("cannot leave the {} in {}", self.what, folder.display()),
            why,
            format!("name a file in another folder with --{}=FILE", self.what),
        ))
    }

    /// Puts the file of process `pid` where it was wanted, and those of its children beside it, by process number. The last
    /// program that a process became wrote the last one. Of profiles that one has all; of traces the ones before are kept, with their own number.
    pub fn collect(&mut self, pid: i32) -> Result<Written> {
        let mut written = Written {
            own: None,
            of_children: Vec::new(),
            earlier: Vec::new(),
            running: running_with(&self.prefix()?),
            folder: self.folder.path().canonicalize().map_err(|error| self.lost(error))?,
            what: self.what,
            wanted: self.file.clone(),
            older: self.older.clone(),
        };
        self.folder.disable_cleanup(!written.running.is_empty());
        let entries = fs::read_dir(self.folder.path()).map_err(|error| self.lost(error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // The tenth comes behind the ninth.
        paths.sort_by_cached_key(|path| (number_in(path, 2), path.clone()));
        let last_of: HashMap<i32, usize> = paths
            .iter()
            .enumerate()
            .filter_map(|(at, path)| Some((number_in(path, 1)?, at)))
            .collect();
        for (at, path) in paths.iter().enumerate() {
            let Some(of) = number_in(path, 1) else { continue };
            if written.running.iter().any(|pid| process::own_number(*pid) == Some(of)) {
                continue; // it writes on
            }
            let is_kept = self.what == "trace" && last_of[&of] != at;
            let to = match number_in(path, 2).filter(|_| is_kept) {
                Some(number) => numbered(&self.file, &format!("{of}.{number}")),
                None if of == pid => self.file.clone(),
                None => numbered(&self.file, &of.to_string()),
            };
            fs::rename(path, &to).map_err(|error| self.left_behind(path, error))?;
            if is_kept {
                written.earlier.push(to);
            } else if of == pid {
                written.own = Some(to);
            } else if !written.of_children.contains(&to) {
                written.of_children.push(to);
            }
        }
        Ok(written)
    }

    /// It is kept where it is.
    fn left_behind(&mut self, path: &Path, error: io::Error) -> ToolError {
        self.folder.disable_cleanup(true);
        let next = format!("it is in {}", path.display());
        ToolError::new(
            format!("cannot move the {} to {}", self.what, self.file.display()),
            error,
            next,
        )
    }

    fn lost(&self, error: io::Error) -> ToolError {
        cannot_write(self.what, &self.file, error)
    }
}

/// Looked at twice: a daemon may have forked, and its first process ended, just when /proc was read.
fn running_with(prefix: &str) -> Vec<i32> {
    let running = process::with_in_environment(prefix.as_bytes());
    if !running.is_empty() {
        return running;
    }
    std::thread::sleep(Duration::from_millis(5));
    process::with_in_environment(prefix.as_bytes())
}

fn ask_callers(callers: Callers, asked: &mut Asked) {
    asked.options.push(format!("prof_unwinder:{}", callers.word()));
    let is_system = callers == Callers::System || (callers == Callers::Tables && !cfg!(target_arch = "x86_64"));
    if is_system && !asked.libraries.contains(&LIBGCC) {
        asked.libraries.push(LIBGCC);
    }
}

/// How much of an event trace is wanted.
pub struct TraceLimits {
    pub most_bytes: u64,
    /// 0: no limit.
    pub most_seconds: u64,
    pub ring: bool,
    /// The stack of each event, found so.
    pub stacks: Option<Callers>,
}

/// The library's limits (src/conf/options.def): it would only say that it does not take what is beyond, and record nothing.
const TRACE_BYTES: RangeInclusive<u64> = 131_072..=i64::MAX as u64;
/// Its files of a ring have no less (RING_LEAST of src/watch/trace_file.c): two chunks of events, and two for stacks and names.
const RING_BYTES: u64 = 4 * CHUNK;
pub const TRACE_SECONDS_MOST: u64 = 1_000_000_000;

/// Most bytes of a trace.
pub fn parse_trace_bytes(word: &str) -> std::result::Result<u64, String> {
    let bytes = Some(parse_bytes(word)?).filter(|bytes| TRACE_BYTES.contains(bytes));
    let (least, most) = TRACE_BYTES.into_inner();
    bytes.ok_or(format!("a trace may have between {least} (128k) and {most} bytes"))
}

pub fn check_ring(most_bytes: u64) -> Result<()> {
    if most_bytes >= RING_BYTES {
        return Ok(());
    }
    Err(ToolError::new(
        format!("cannot keep the newest events in a trace of {most_bytes} bytes"),
        format!(
            "with --trace-ring it needs {RING_BYTES} (256k), for a quarter, and 128k at least, is for stacks and names"
        ),
        "give more with --trace-bytes",
    ))
}

/// "of.4711.0.trace" is of process 4711, its first.
fn number_in(path: &Path, place: usize) -> Option<i32> {
    let rest = path.file_name()?.to_str()?.strip_prefix(NAME)?;
    rest.split('.').nth(place)?.parse().ok()
}

/// What is made beside a file and renamed then would take the place of a device, a pipe or /dev/stdout, for everybody where root does it.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    if is_opened(path) {
        return Err(io::Error::other(
            "it stands for what is open already, and would itself be replaced",
        ));
    }
    match fs::metadata(path) {
        Ok(about) if !about.is_file() => Err(io::Error::other("it is there, and is no regular file")),
        _ => Ok(()),
    }
}

fn cannot_write(what: &str, file: &Path, error: io::Error) -> ToolError {
    ToolError::new(
        format!("cannot write the {what} {}", file.display()),
        error,
        format!("name a file that can be written with --{what}=FILE"),
    )
}

/// "p.heap" of process 7 is "p.7.heap".
fn numbered(file: &Path, number: &str) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_os_string();
    name.push(format!(".{number}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn limits_are_those_of_the_library() {
        let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/conf/options.def");
        let table = fs::read_to_string(table).unwrap();
        let row = |name: &str| table.lines().find(|line| line.contains(&format!("({name},"))).unwrap();
        let least = TRACE_BYTES.start();
        assert!(
            row("trace_bytes").contains(&format!(", {least}, INT64_MAX,")),
            "{}",
            row("trace_bytes")
        );
        assert!(
            row("trace_seconds").contains(&format!(", 0, {TRACE_SECONDS_MOST},")),
            "{}",
            row("trace_seconds")
        );
        for prefix in ["prof_prefix", "trace"] {
            assert!(
                row(prefix).contains(&format!(", {}, ", PREFIX_MOST + 1)),
                "{}",
                row(prefix)
            );
        }
        assert_eq!(parse_trace_bytes("128k"), Ok(*least));
        assert!(parse_trace_bytes("64k").unwrap_err().contains("between 131072"));
        assert!(parse_trace_bytes("16000000000G").is_err());
    }

    #[test]
    fn folders_that_no_option_can_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, why) in [("d".repeat(240), "255 bytes"), ("a,b".to_string(), "comma")] {
            fs::create_dir(folder.path().join(&name)).unwrap();
            let file = folder.path().join(&name).join("x.heap");
            let error = Wanted::profile(&file, None, Callers::Tables, &mut Asked::default())
                .err()
                .unwrap();
            assert!(error.why.contains(why), "{}", error.why);
        }
    }

    #[test]
    fn children_are_numbered() {
        assert_eq!(numbered(Path::new("/a/p.heap"), "7"), Path::new("/a/p.7.heap"));
        assert_eq!(numbered(Path::new("p"), "7"), Path::new("p.7"));
    }

    #[test]
    fn profiles_go_where_they_were_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = Asked::default();
        let mut wanted = Wanted::profile(
            &folder.path().join("x.heap"),
            Some(1 << 19),
            Callers::Tables,
            &mut asked,
        )
        .unwrap();
        assert!(asked.options.contains(&"lg_prof_sample:19".to_string()));
        for (name, text) in [("2.i2", "2"), ("9.i9", "9"), ("10.f", "seven")] {
            fs::write(wanted.folder.path().join(format!("of.7.{name}.heap")), text).unwrap();
        }
        fs::write(wanted.folder.path().join("of.8.0.f.heap"), "eight").unwrap();
        let written = wanted.collect(7).unwrap();
        assert_eq!(written.remove_older().unwrap(), Older::Nothing);
        assert_eq!(fs::read_to_string(written.own.unwrap()).unwrap(), "seven");
        assert_eq!(written.of_children, [folder.path().join("x.8.heap")]);
        // What cannot be moved is not thrown away.
        fs::write(wanted.folder.path().join("of.9.0.f.heap"), "nine").unwrap();
        fs::create_dir(folder.path().join("x.9.heap")).unwrap();
        let error = wanted.collect(7).err().unwrap();
        drop(wanted);
        let kept = error.next.strip_prefix("it is in ").unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), "nine");
    }

    #[test]
    fn what_was_traced_before_exec_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let limits = TraceLimits {
            most_bytes: 1 << 20,
            most_seconds: 0,
            ring: false,
            stacks: None,
        };
        let mut wanted = Wanted::trace(&folder.path().join("t.trace"), &limits, &mut Asked::default()).unwrap();
        for name in ["7.0", "7.1", "8.0"] {
            fs::write(wanted.folder.path().join(format!("of.{name}.trace")), name).unwrap();
        }
        let written = wanted.collect(7).unwrap();
        assert_eq!(fs::read_to_string(written.own.unwrap()).unwrap(), "7.1");
        assert_eq!(written.earlier, [folder.path().join("t.7.0.trace")]);
        assert_eq!(fs::read_to_string(&written.earlier[0]).unwrap(), "7.0");
        assert_eq!(written.of_children, [folder.path().join("t.8.trace")]);
    }

    #[test]
    fn only_what_an_earlier_run_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let trial = |meanwhile: &dyn Fn()| {
            let mut wanted = Wanted::profile(&at("x.heap"), None, Callers::Tables, &mut Asked::default()).unwrap();
            meanwhile();
            wanted.collect(9).unwrap().remove_older().unwrap()
        };
        let kept = Older::Kept(at("x.heap"));
        assert_eq!(trial(&|| ()), Older::Nothing);
        fs::write(at("x.heap"), "heap_v2/1\n").unwrap();
        assert_eq!(trial(&|| ()), Older::Removed);
        assert!(!at("x.heap").exists());
        // Another run's, in the place of one or of none.
        let replace = || {
            fs::write(at("new"), "heap_v2/1\n").unwrap();
            fs::rename(at("new"), at("x.heap")).unwrap();
        };
        assert_eq!(trial(&replace), kept);
        assert_eq!(trial(&replace), kept);
        assert_eq!(trial(&|| fs::write(at("x.heap"), "heap_v2/1\n\n").unwrap()), kept);
        for foreign in ["", "important\n", "vmtc", "\u{1f}\u{8b}"] {
            fs::write(at("x.heap"), foreign).unwrap();
            assert_eq!(trial(&|| ()), kept);
            assert_eq!(fs::read_to_string(at("x.heap")).unwrap(), foreign);
        }
        fs::write(at("real.heap"), "heap_v2/1\n").unwrap();
        fs::remove_file(at("x.heap")).unwrap();
        symlink("real.heap", at("x.heap")).unwrap();
        assert_eq!(trial(&|| ()), kept);
        assert!(at("x.heap").is_symlink() && at("real.heap").exists());
    }

    #[test]
    fn what_is_open_already_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (link, second) = (folder.path().join("link"), folder.path().join("second"));
        symlink("/proc/self/fd/1", &link).unwrap();
        symlink("link", &second).unwrap();
        let others = ["/dev/stdout", "/dev/../dev/stderr", "/dev/fd/1", "/proc/self/fd/1"].map(PathBuf::from);
        for path in others.iter().chain([&link, &second]) {
            let why = check_replaceable(path).unwrap_err().to_string();
            assert!(why.contains("open already"), "{}: {why}", path.display());
        }
        assert!(check_replaceable(&folder.path().join("none/x.heap")).is_ok());
    }

    #[test]
    fn a_device_is_not_replaced() {
        for path in ["/dev/null", "/dev/zero"] {
            let wanted = Wanted::profile(Path::new(path), None, Callers::Tables, &mut Asked::default());
            assert!(
                wanted.is_err_and(|error| error.why.contains("no regular file")),
                "{path}"
            );
        }
    }

    #[test]
    fn a_folder_that_no_option_can_hold_is_refused() {
        let folder = tempfile::Builder::new().prefix("a,b").tempdir().unwrap();
        let wanted = Wanted::profile(
            &folder.path().join("x.heap"),
            None,
            Callers::Tables,
            &mut Asked::default(),
        );
        assert!(wanted.is_err_and(|error| error.why.contains("comma")));
    }
}
