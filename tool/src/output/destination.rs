//! A file that is written whole at the end of a run, or not at all: what was there before stays until then.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::source::spoken;
use crate::system;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// What somebody has opened already, perhaps a file to which more is written.
const OPENED: [&str; 4] = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"];

/// Where what has no name can be given one.
pub const FILES: &str = "/proc/self/fd";

/// Whether a path names such, through links, too: where it is a regular file it must not be replaced, for the name is not that file's.
pub fn is_opened(path: &Path) -> bool {
    const LINKS_MOST: usize = 40; // the kernel's
    let target = |path: &PathBuf| {
        let target = fs::read_link(path).ok()?;
        Some(place(&path.parent()?.join(target)))
    };
    std::iter::successors(Some(place(path)), target)
        .take(LINKS_MOST)
        .any(|place| OPENED.iter().any(|opened| place.starts_with(opened)))
}

/// In the folder as it is, whatever led there.
fn place(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .and_then(|folder| Path::new(".").join(folder).canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

/// What was named to be written; None: standard output, which "-" names. A file of that name is "./-".
pub fn named(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| *path != Path::new("-"))
}

pub enum Destination {
    /// Devices, pipes, and what the shell opened for us: written as they are.
    Stream(Box<dyn Write + Send>),
    File(PathBuf),
}

impl Destination {
    /// Fails where nothing could be written at the end: a run of hours must not end in "cannot write".
    pub fn open(path: &Path) -> io::Result<Destination> {
        if named(path).is_none() {
            return Ok(Destination::Stream(Box::new(io::stdout())));
        }
        let is_there = path.exists();
        let is_stream = is_opened(path) || (is_there && !path.is_file());
        if is_stream {
            let file = OpenOptions::new().append(true).open(path)?;
            return Ok(Destination::Stream(Box::new(file)));
        }
        if is_there || path.is_symlink() {
            OpenOptions::new().append(true).create(true).open(path)?;
        } else {
            New::beside(path)?;
        }
        Ok(Destination::File(path.to_path_buf()))
    }

    pub fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.write_by(|out| out.write_all(content))
    }

    /// By pieces, to the last byte: `content` keeps none back.
    pub fn write_by(&mut self, content: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> io::Result<()> {
        let path = match self {
            // Nobody may read it any more.
            Destination::Stream(stream) => {
                return content(&mut **stream).or_else(|error| match error.kind() {
                    io::ErrorKind::BrokenPipe => Ok(()),
                    _ => Err(error),
                });
            }
            Destination::File(path) => path.canonicalize().unwrap_or(path.clone()),
        };
        let new = is_ours_alone(&path).then(|| New::beside(&path));
        let Some(Ok(mut new)) = new else {
            return content(&mut File::create(&path)?); // only the file itself may be written
        };
        let old = fs::metadata(&path).ok();
        let is_other = |old: &fs::Metadata| {
            system::has_access_list(&new.own_path()) || fchown(&new.file, None, Some(old.gid())).is_err()
        };
        if old.as_ref().is_some_and(is_other) {
            return content(&mut File::create(&path)?); // it would have its folder's list of who may use it, or be another group's
        }
        // On a full disk what was there before stays.
        content(&mut new.file)?;
        match new.take_place(&path, old.map(|old| old.permissions())) {
            Ok(()) => Ok(()),
            Err(_) => new.copy_to(&path),
        }
    }
}

/// What takes the place of another file once it is whole. Until then it has no name, so that nothing is left of it however we end; it has one, and
/// goes with it, where the file system knows no such files.
pub struct New {
    pub file: File,
    name: Option<TempPath>,
}

impl New {
    /// In the same folder, so that it can take the place of the other.
    pub fn beside(path: &Path) -> io::Result<New> {
        // Nobody may read of it who may not read what was there before.
        let mode = permissions_as(path).map_or(0o666, |old| old.mode() & 0o666 | 0o600);
        let nameless = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(mode)
            .custom_flags(libc::O_TMPFILE)
            .open(folder_of(path));
        match nameless {
            Ok(file) if Path::new(FILES).exists() => return Ok(New { file, name: None }),
            Err(error) if ![Some(libc::EOPNOTSUPP), Some(libc::EISDIR)].contains(&error.raw_os_error()) => {
                return Err(error); // its reason is told without a file of a moment
            }
            _ => {}
        }
        let mut named = tempfile::Builder::new();
        let named = named.prefix(".vmag-").permissions(Permissions::from_mode(mode));
        let (file, name) = named.tempfile_in(folder_of(path))?.into_parts();
        Ok(New { file, name: Some(name) })
    }

    /// Under which it can be read by us alone.
    pub fn own_path(&self) -> PathBuf {
        let opened = format!("{FILES}/{}", self.file.as_raw_fd());
        match &self.name {
            Some(name) if !Path::new(FILES).exists() => name.to_path_buf(),
            _ => PathBuf::from(opened),
        }
    }

    /// `permissions`; None: those of any new file.
    pub fn take_place(&mut self, path: &Path, permissions: Option<Permissions>) -> io::Result<()> {
        if let Some(permissions) = permissions {
            self.file.set_permissions(permissions)?;
        }
        let name = match self.name.take() {
            Some(name) => name,
            None => self.named_beside(path)?,
        };
        name.persist(path).map_err(|error| error.error)
    }

    fn named_beside(&self, path: &Path) -> io::Result<TempPath> {
        let own = self.own_path();
        let named = tempfile::Builder::new()
            .prefix(".vmag-")
            .make_in(folder_of(path), |name| system::link(&own, name))?;
        Ok(named.into_temp_path())
    }

    /// Where it cannot take its place: nobody renames over what is mounted.
    fn copy_to(mut self, path: &Path) -> io::Result<()> {
        self.file.rewind()?;
        io::copy(&mut self.file, &mut File::create(path)?).map(drop)
    }
}

/// What another file made of one may be used by. Where a list says who may use it, the bits of its group are what anybody in the list may at most.
pub fn permissions_as(path: &Path) -> io::Result<Permissions> {
    let mut permissions = fs::metadata(path)?.permissions();
    if system::has_access_list(path) {
        permissions.set_mode(permissions.mode() & !0o070);
    }
    Ok(permissions)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Nothing is written over what it is made of: that is read still, and nobody could make it again.
pub fn check_apart<'a>(output: Option<&Path>, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let output = output.and_then(named);
    let is_input = |output: &&Path| inputs.into_iter().any(|input| is_same_file(output, input));
    match output.filter(is_input) {
        None => Ok(()),
        Some(output) => Err(ToolError::new(
            format!("cannot write {}", spoken(output)),
            "that is the recording itself",
            "name another file",
        )),
    }
}

/// Under any name. Devices may be read and written at once.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let about = |path| fs::metadata(path).ok().filter(|about| about.is_file());
    let file = |path| about(path).map(|about| (about.dev(), about.ino()));
    file(one).is_some_and(|one| file(other) == Some(one))
}

/// Each has a place of its own: the last that is written would be all that is left. `what`: who names them.
pub fn check_own_places(what: &str, files: &[&PathBuf]) -> Result<()> {
    let is_taken = |number: &usize| files[..*number].iter().any(|file| is_same_place(file, files[*number]));
    match (1..files.len()).find(is_taken) {
        None => Ok(()),
        Some(number) => Err(ToolError::new(
            format!("cannot leave two things in {}", files[number].display()),
            format!("{what} each have a file of their own"),
            "give each another name",
        )),
    }
}

/// Whether one would take the place of the other; they need not be there yet. Devices and pipes take what they are given.
fn is_same_place(one: &Path, other: &Path) -> bool {
    let folder = |path: &Path| path.parent().map(|folder| Path::new(".").join(folder));
    let place = |path: &Path| Some((folder(path)?.canonicalize().ok()?, path.file_name()?.to_owned()));
    if fs::metadata(one).is_ok_and(|about| !about.is_file()) {
        return false;
    }
    is_same_file(one, other) || place(one).is_some_and(|one| place(other) == Some(one))
}

/// What takes the place of a file of another user, of one with several names, or of one with a list of who may use it, would not be that file.
fn is_ours_alone(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |old| {
        old.nlink() == 1 && old.uid() == system::user_id() && !system::has_access_list(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_known_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("p.heap"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        fs::hard_link(at("p.heap"), at("hard")).unwrap();
        std::os::unix::fs::symlink("p.heap", at("soft")).unwrap();
        for name in ["p.heap", "hard", "soft", "./p.heap"] {
            assert!(check_apart(Some(&at(name)), [at("other").as_path(), &at("p.heap")]).is_err());
        }
        assert!(check_apart(Some(&at("new")), [at("p.heap").as_path(), &at("other")]).is_ok());
        let device = Path::new("/dev/null");
        assert!(check_apart(Some(device), [device]).is_ok());
    }

    #[test]
    fn what_is_not_whole_yet_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let names = || fs::read_dir(&folder).unwrap().count();
        for older in [0, 1] {
            let mut new = New::beside(&path).unwrap();
            new.file.write_all(b"new").unwrap();
            assert_eq!(names(), older + usize::from(new.name.is_some()));
            new.take_place(&path, None).unwrap();
            assert_eq!((fs::read(&path).unwrap(), names()), (b"new".to_vec(), 1));
        }
        // As is done where somebody mounted something there.
        New::beside(&path).unwrap().copy_to(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (Vec::new(), 1));
    }

    #[test]
    fn what_is_written_anew_stays_as_closed_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let about = |new: &New| new.file.metadata().unwrap().mode() & 0o777;
        assert_eq!(about(&New::beside(&path).unwrap()), 0o600);
        Destination::open(&path).unwrap().write(b"new").unwrap();
        let about = fs::metadata(&path).unwrap();
        assert_eq!(
            (about.mode() & 0o777, fs::read(&path).unwrap()),
            (0o600, b"new".to_vec())
        );
    }

    #[test]
    fn a_list_of_who_may_use_a_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [path, without] = ["x", "y"].map(|name| folder.path().join(name));
        fs::write(&path, "old").unwrap();
        fs::write(&without, "old").unwrap();
        if !system::set_access_list(&path) {
            return; // the file system has none
        }
        assert_eq!(permissions_as(&path).unwrap().mode() & 0o070, 0);
        assert!(system::set_access_list(folder.path())); // that new files begin with
        for (path, has) in [(path, true), (without, false)] {
            Destination::open(&path).unwrap().write(b"new").unwrap();
            assert_eq!(
                (system::has_access_list(&path), fs::read(&path).unwrap()),
                (has, b"new".to_vec())
            );
        }
    }

    #[test]
    fn places_are_the_same_before_there_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("x"), folder.path().join("./x"));
        assert!(is_same_place(&one, &other) && is_same_place(Path::new("x"), Path::new("./x")));
        assert!(!is_same_place(Path::new("/dev/null"), Path::new("/dev/null")));
        assert!(!is_same_place(&one, &folder.path().join("y")) && !is_same_place(&one, Path::new("x")));
    }
}
