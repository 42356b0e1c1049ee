//! Where a profile comes from: a file, standard input, or a process that runs.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::Process;
use crate::black_box;
use crate::bundle;
use crate::error::{Result, ToolError};
use crate::profile::{self, Profile};
use crate::progress::Progress;
use crate::trace::{self, Trace};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// As it is given on the command line: a number is a process unless a file has that name.
#[derive(Debug, Clone)]
pub enum Source {
    Process(i32),
    File(PathBuf),
}

/// For the command line: the number of a process, where no file can stand for it.
pub fn pid_parser() -> impl TypedValueParser<Value = i32> {
    OsStringValueParser::new().try_map(|word| match word.to_str().map(str::parse) {
        Some(Ok(pid)) if pid > 0 => Ok(pid),
        _ => Err(no_process(Path::new(&word))),
    })
}

fn no_process(word: &Path) -> String {
    match what_else_it_is(word, "") {
        Some(other) => format!("{other}; wanted is the number of a process that runs"),
        None => "wanted is the number of a process that runs".to_string(),
    }
}

/// For the command line: a file of any name; "-" is standard input.
pub fn file_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(file)
}

/// What comes through a pipe is kept in a file without name, for recordings are read here and there.
fn file(word: OsString) -> io::Result<PathBuf> {
    let path = match word.to_str() {
        Some("-") => PathBuf::from("/dev/stdin"),
        _ => PathBuf::from(word),
    };
    if !fs::metadata(&path).is_ok_and(|about| about.file_type().is_fifo() || about.file_type().is_socket()) {
        return Ok(path);
    }
    let mut kept = tempfile::tempfile()?;
    keep(File::open(&path)?, &mut kept)?;
    Ok(PathBuf::from(format!("/proc/self/fd/{}", kept.into_raw_fd())))
}

/// Of what begins as no recording no more than its start: it may never end, and would fill the disk.
fn keep(mut pipe: impl Read, kept: &mut impl Write) -> io::Result<()> {
    // Of a trace the first chunks may be damaged, or were never written.
    const PIPE_START_BYTES: u64 = 16 * trace::CHUNK;
    let mut start = Vec::new();
    pipe.by_ref().take(PIPE_START_BYTES).read_to_end(&mut start)?;
    kept.write_all(&start)?;
    let rest = MOST_BYTES - start.len() as u64;
    if start.starts_with(profile::BEGIN.as_bytes()) || black_box::is_black_box(&start) {
        io::copy(&mut pipe.take(rest), kept)?;
    } else if bundle::is_beginning(&start[..]) || start.chunks(trace::CHUNK as usize).any(trace::is_chunk) {
        io::copy(&mut pipe, kept)?;
    }
    Ok(())
}

/// A profile is larger than this in no process.
const MOST_BYTES: u64 = 4 << 30;
/// The library's limit (black_box_bytes of src/conf/options.def).
const BOX_MOST_BYTES: u64 = 1 << 30;
/// Of what is something else: enough to say so.
const START_BYTES: u64 = 4096;

/// All of a file that begins as it should; of another no more than its start, for a device or pipe may never end.
pub fn read(path: &Path, begins: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(START_BYTES).read_to_end(&mut bytes)?;
    match begins(&bytes) {
        true if black_box::is_black_box(&bytes) => read_box(file, bytes),
        true => read_text(file, bytes),
        false => Ok(bytes),
    }
}

fn read_box(file: impl Read, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    file.take(BOX_MOST_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= BOX_MOST_BYTES {
        true => Ok(bytes),
        false => Err(io::Error::other("it has more than 1 GiB, as no black box has")),
    }
}

/// A hole in a file is zeros, for which there is no end of room; and a crash of the machine leaves them where a file was to be written.
fn read_text(mut file: impl Read, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    const PIECE_BYTES: u64 = 1 << 20;
    let mut seen = 0;
    loop {
        if bytes[seen..].contains(&0) {
            return Err(io::Error::other(
                "there are zeros in it, as in no text: it was not written whole, or is damaged",
            ));
        }
        seen = bytes.len();
        if seen as u64 >= MOST_BYTES {
            return Err(io::Error::other("it has 4 GiB or more, as no profile has"));
        }
        if file.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
    }
}

/// What a file is called where it is spoken of.
pub fn spoken(path: &Path) -> String {
    match path.starts_with("/proc/self/fd") {
        true => "what came through the pipe".to_string(),
        false => path.display().to_string(),
    }
}

/// What a file is that was taken for something else, and what shows it. `asked`: the command that shows what it was taken for.
pub fn what_else_it_is(path: &Path, asked: &str) -> Option<String> {
    let mut start = [0; 8];
    let got = File::open(path).and_then(|file| file.take(8).read(&mut start)).ok()?;
    let (what, command) = if Trace::is_one(path) {
        ("an event trace", "trace")
    } else if black_box::is_black_box(&start[..got]) {
        ("a black box", "attach")
    } else if start.starts_with(b"heap_v2/") {
        ("a heap profile", "heap")
    } else if bundle::is_unreadable(path) {
        return Some("it is a bundle that cannot be read".to_string());
    } else if bundle::kind(path).is_some() {
        ("a bundle of a heap profile", "heap")
    } else {
        return None;
    };
    let shows = match command {
        "attach" => "`vmag attach` and `vmag heap` show".to_string(),
        other => format!("`vmag {other}` shows"),
    };
    (command != asked).then(|| format!("it is {what}, which {shows}"))
}

impl Source {
    pub fn parser() -> impl TypedValueParser<Value = Source> {
        OsStringValueParser::new().try_map(Source::parse)
    }

    fn parse(word: OsString) -> io::Result<Source> {
        match word.to_str().map(str::parse) {
            Some(Ok(pid)) if pid > 0 && !Path::new(&word).exists() => Ok(Source::Process(pid)),
            _ => Ok(Source::File(file(word)?)),
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Source::Process(_) => None,
            Source::File(path) => Some(path),
        }
    }

    pub fn is_process(&self) -> bool {
        matches!(self, Source::Process(_))
    }

    pub fn profile(&self) -> Result<Profile> {
        match self {
            Source::Process(pid) => Process::attach(*pid)?.profile(),
            Source::File(path) => Profile::read(path),
        }
    }

    /// A file that is not there is nothing else, either.
    pub fn check_there(&self) -> Result<()> {
        match self.path().filter(|path| !path.exists()) {
            Some(path) => Profile::read(path).map(drop),
            None => Ok(()),
        }
    }

    pub fn is_trace(&self) -> bool {
        matches!(self, Source::File(path) if Trace::is_one(path))
    }

    /// The same; of a process that never sampled there is none.
    pub fn profile_if_any(&self) -> Result<Profile> {
        match self {
            Source::Process(pid) => Process::attach(*pid)?.profile_if_any(),
            Source::File(path) => Profile::read(path),
        }
    }

    /// So many profiles of a process, one after the other; of a file there is only one.
    pub fn profiles(&self, count: usize, pause: Duration) -> Result<Vec<Profile>> {
        let Source::Process(pid) = self else {
            self.check_there()?;
            return Err(ToolError::new(
                format!("cannot look at {} a second time", self.name()),
                "it is a file, and does not change",
                "name two files, or the number of a process",
            ));
        };
        let process = Process::attach(*pid)?;
        let mut profiles = vec![process.profile_if_any()?];
        let mut progress = Progress::new("looking at the process");
        let looks = count.max(2) - 1;
        while profiles.len() < count {
            let done = profiles.len() - 1;
            rest(pause, |part| progress.at((done as f64 + part) / looks as f64));
            profiles.push(process.profile()?);
        }
        Ok(profiles)
    }

    /// In sentences.
    pub fn spoken(&self) -> String {
        match self {
            Source::Process(pid) => format!("process {pid}"),
            Source::File(path) => spoken(path),
        }
    }

    /// For titles.
    pub fn name(&self) -> String {
        match self {
            Source::Process(pid) => format!("process {pid}"),
            Source::File(path) if path.starts_with("/proc/self/fd") => "a pipe".to_string(),
            Source::File(path) => path
                .file_name()
                .map_or(String::new(), |name| name.to_string_lossy().into()),
        }
    }
}

/// Sleeps, and tells now and then how much of it is over.
fn rest(pause: Duration, mut tell: impl FnMut(f64)) {
    const STEP: Duration = Duration::from_millis(200);
    let start = Instant::now();
    while let Some(left) = pause.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left.min(STEP));
        tell(start.elapsed().as_secs_f64() / pause.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_process_is_told() {
        assert_eq!(
            no_process(Path::new("p.heap")),
            "wanted is the number of a process that runs"
        );
        let profile = tempfile::NamedTempFile::new().unwrap();
        fs::write(profile.path(), "heap_v2/1\n").unwrap();
        assert!(no_process(profile.path()).starts_with("it is a heap profile, which `vmag heap` shows; wanted"));
    }

    #[test]
    fn what_never_ends_is_not_read_on() {
        let endless = Path::new("/dev/zero");
        assert_eq!(
            read(endless, |start| start.starts_with(b"heap_v2/")).unwrap(),
            [0; START_BYTES as usize]
        );
        let error = Profile::read(endless).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("/dev/zero is not a heap profile") && !error.contains('\0'),
            "{error}"
        );
        assert!(black_box::BlackBox::read(endless).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [7; 3 * START_BYTES as usize]).unwrap();
        assert_eq!(read(file.path(), |_| true).unwrap().len(), 3 * START_BYTES as usize);
    }

    /// As much as a pipe that never ends would have brought until then.
    #[test]
    fn of_a_pipe_without_a_recording_only_the_start_is_kept() {
        let kept = |start: &[u8]| {
            let mut kept = Vec::new();
            keep(start.chain(io::repeat(b'x')).take(8 << 20), &mut kept).unwrap();
            kept.len()
        };
        let damaged_first = [vec![7; trace::CHUNK as usize], 0x6374_6d76u32.to_le_bytes().to_vec()].concat();
        for recording in [&b"heap_v2/1\n"[..], b"vmag_box", &damaged_first] {
            assert_eq!(kept(recording), 8 << 20);
        }
        for other in [&b"heap_v1/1\n"[..], b"", &[0x1f, 0x8b]] {
            assert_eq!(kept(other), 1 << 20);
        }
    }

    #[test]
    fn zeros_end_the_reading_of_a_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "heap_v2/1\n").unwrap();
        file.as_file().set_len(3 << 30).unwrap();
        let error = Profile::read(file.path()).unwrap_err();
        assert!(error.why.contains("zeros"), "{error}");
    }

    #[test]
    fn no_black_box_is_larger_than_the_library_makes_one() {
        let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/conf/options.def");
        let table = fs::read_to_string(table).unwrap();
        let row = table.lines().find(|line| line.contains("(black_box_bytes,")).unwrap();
        assert!(row.contains(&format!(", {BOX_MOST_BYTES},")), "{row}");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "vmag_box").unwrap();
        file.as_file().set_len(BOX_MOST_BYTES + 1).unwrap();
        assert!(read(file.path(), black_box::is_black_box).is_err());
    }

    #[test]
    fn a_number_is_a_process() {
        assert!(matches!(Source::parse("4711".into()), Ok(Source::Process(4711))));
        assert!(matches!(Source::parse("0".into()), Ok(Source::File(_))));
        assert!(matches!(Source::parse("p.heap".into()), Ok(Source::File(_))));
    }
}
