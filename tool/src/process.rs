//! What the kernel tells of a process besides its memory: name, start, limits.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::ToolError;
use crate::output::in_line;
use procfs::process::Process;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const AT_SECURE: u64 = 23;

pub fn name(pid: i32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    in_line(name.trim_end())
}

/// The variables it was started with; empty where we may not see them. A program may write over them (setproctitle).
pub fn environment(pid: i32) -> HashMap<OsString, OsString> {
    let environment = Process::new(pid).and_then(|process| process.environ());
    environment.unwrap_or_default()
}

/// All that run, are no older than we, and were started with these bytes in their environment, or come from one that was. Others are not asked:
/// the kernel tells the environment of a process under the lock of its memory, which it may hold for minutes where memory is short.
pub fn with_in_environment(bytes: &[u8]) -> Vec<i32> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    let ours = start("self");
    let has = |pid: &i32| {
        let is_of_ours = start(&pid.to_string()) >= ours;
        let environment = is_of_ours
            .then(|| fs::read(format!("/proc/{pid}/environ")).ok())
            .flatten();
        environment.is_some_and(|environment| environment.windows(bytes.len()).any(|window| window == bytes))
    };
    pids.filter(has).collect()
}

/// The number of a process in the innermost of the namespaces that it is in.
pub fn own_number(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Whether it has the rights of this user and of no other. The owner of its folder in /proc would not do: that is root where a process does not let itself be dumped.
pub fn is_of_user(pid: i32, user: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().all(|one| one.parse() == Ok(user)))
}

/// Whether the process may make a file in a folder, by owners and modes alone: lists of more rights are not looked at.
pub fn may_write(pid: i32, folder: &Path) -> bool {
    let Ok(status) = Process::new(pid).and_then(|process| process.status()) else {
        return true;
    };
    let may = |folder: &Path, wanted: u32| {
        fs::metadata(folder).map_or(true, |about| {
            let in_group = about.gid() == status.fgid || status.groups.iter().any(|group| *group == about.gid());
            let shift = match (about.uid() == status.fuid, in_group) {
                (true, _) => 6,
                (_, true) => 3,
                _ => 0,
            };
            about.mode() >> shift & wanted == wanted
        })
    };
    status.fuid == 0 || (may(folder, 0o3) && folder.ancestors().all(|above| may(above, 0o1)))
}

/// Which file it is, whatever its name: device and inode, as maps tell them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// "fe:01" and "12"
    pub fn parse(device: &str, inode: &str) -> Option<FileId> {
        let (major, minor) = device.split_once(':')?;
        let number = |word| u32::from_str_radix(word, 16).ok();
        Some(FileId {
            device: libc::makedev(number(major)?, number(minor)?),
            inode: inode.parse().ok()?,
        })
    }

    pub fn is_of(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|about| (about.dev(), about.ino()) == (self.device, self.inode))
    }
}

/// A file by its name in maps, where the end of a line is told as \012, and from which what is no UTF-8 was lost: what has a name that is told so.
pub fn by_told_name(name: &str) -> PathBuf {
    let path = PathBuf::from(name);
    if !(name.contains(LINE_END) || name.contains(char::REPLACEMENT_CHARACTER)) || path.exists() {
        return path;
    }
    let mut found = PathBuf::new();
    for part in &path {
        let is_it = |entry: &fs::DirEntry| {
            Some(entry.file_name().to_string_lossy().replace('\n', LINE_END).as_str()) == part.to_str()
        };
        let entries = match found.join(part).symlink_metadata() {
            Ok(_) => None,
            Err(_) => fs::read_dir(&found).ok(),
        };
        let entry = entries.and_then(|entries| entries.flatten().find(is_it));
        found.push(entry.map_or(part.to_os_string(), |entry| entry.file_name()));
    }
    found
}

const LINE_END: &str = "\\012";

/// A file by its name in maps, as it can be opened from here. Names in maps begin at the root of the process's mounts, and not at its own root, which may
/// be a folder below (chroot): the way leads from there up. What the file system itself tells of the file may differ from maps (overlayfs, btrfs).
pub fn file(pid: i32, name: &str, id: Option<FileId>) -> PathBuf {
    let root = format!("/proc/{pid}/root");
    let depth = fs::read_link(&root).map_or(0, |path| path.components().skip(1).count());
    let candidates = [depth, 0].map(|up| by_told_name(&format!("{root}{}{name}", "/..".repeat(up))));
    let is_it = |path: &&PathBuf| id.is_some_and(|id| id.is_of(path));
    let found = candidates.iter().find(is_it);
    let found = found.or_else(|| candidates.iter().find(|path| path.exists()));
    found.unwrap_or(&candidates[1]).clone()
}

/// When a process was made, in the kernel's ticks since it runs.
pub fn start(pid: &str) -> Option<u64> {
    stat(pid, 19)?.parse().ok()
}

/// A word of what the kernel tells in a line, from 0 behind the name, in which there may be blanks and brackets.
fn stat(pid: &str, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let word = stat.rsplit_once(')')?.1.split_whitespace().nth(number)?;
    Some(word.to_string())
}

/// Why there is nothing to look at in a process that is there.
fn without_memory(pid: i32) -> Option<(&'static str, String)> {
    const KERNELS: u64 = 0x0020_0000;
    let name = pid.to_string();
    let flags: u64 = stat(&name, 6)?.parse().ok()?;
    if flags & KERNELS != 0 {
        return Some((
            "it is a thread of the kernel, which has no malloc",
            "give the number of a program's process".to_string(),
        ));
    }
    has_ended(&name).then(|| match living_thread(pid) {
        Some(thread) => (
            "its first thread has ended (pthread_exit), and by that one's number the kernel shows nothing of the others",
            format!("give the number of another of its threads: {thread}"),
        ),
        None => (
            "it has ended: only its exit status is left, for its parent to ask for (a zombie)",
            "look for it with `ps`; it may run anew".to_string(),
        ),
    })
}

fn has_ended(name: &str) -> bool {
    stat(name, 0).is_none_or(|state| ["Z", "X"].contains(&state.as_str()))
}

/// On its way there: of a process that is killed or exits, each thread comes to its end by itself, and the first one may be there before the others.
fn is_ending(flags: u64, status: &str) -> bool {
    const EXITING: u64 = 4;
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|pending| u64::from_str_radix(pending.trim(), 16).ok());
    flags & EXITING != 0 || pending.is_none_or(|pending| pending & SIGKILL != 0)
}

fn living_thread(pid: i32) -> Option<String> {
    let lives = |name: &String| {
        let flags = stat(name, 6).and_then(|flags| flags.parse().ok());
        let status = fs::read_to_string(format!("/proc/{name}/status")).unwrap_or_default();
        !has_ended(name) && flags.is_some_and(|flags| !is_ending(flags, &status))
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut names = threads.filter_map(|thread| thread.file_name().into_string().ok());
    names.find(lives)
}

/// Was it started with more rights than its user has? The loader and the library then ignore the environment.
pub fn is_secure(pid: i32) -> bool {
    let vector = Process::new(pid).and_then(|process| process.auxv());
    vector.is_ok_and(|vector| vector.get(&AT_SECURE).is_some_and(|secure| *secure != 0))
}

pub fn cannot_look(pid: i32, error: &io::Error) -> ToolError {
    let what = format!("cannot look into process {pid}");
    if let Some((why, next)) = without_memory(pid) {
        return ToolError::new(what, why, next);
    }
    let (why, next) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("there is no process {pid}"),
            "look for it with `ps`; it may have ended",
        ),
        _ if error.raw_os_error() == Some(libc::ESRCH) => (
            format!("the process {pid} has ended"),
            "look for it with `ps`; it may run anew",
        ),
        io::ErrorKind::PermissionDenied => (
            "it belongs to another user, or the kernel does not let processes look into each other".to_string(),
            "run this as the same user, or as root",
        ),
        _ => (error.to_string(), "check that /proc is mounted"),
    };
    ToolError::new(what, why, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::process::{Child, Command};

    fn sleeper(name: &str) -> Child {
        Command::new("sleep").arg("60").env(name, "1").spawn().unwrap()
    }

    #[test]
    fn those_of_an_environment_are_found() {
        let mut child = sleeper("VMAG_TEST_OF_ENVIRONMENT");
        let of_child = || with_in_environment(b"VMAG_TEST_OF_ENVIRONMENT=1").contains(&(child.id() as i32));
        let found = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            of_child()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }

    #[test]
    fn a_program_with_an_odd_name_is_found_by_what_maps_tell() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(OsString::from_vec(b"caf\xe9\nb".to_vec()));
        fs::create_dir(&odd).unwrap();
        fs::copy("/bin/sleep", odd.join("sleep")).unwrap();
        let mut child = Command::new(odd.join("sleep")).arg("60").spawn().unwrap();
        let told = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            let maps = fs::read(format!("/proc/{}/maps", child.id())).unwrap();
            let maps = String::from_utf8_lossy(&maps);
            let line = maps
                .lines()
                .find(|line| line.ends_with("/sleep") && line.contains("caf"))?;
            line.find('/').map(|at| line[at..].to_string())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let told = told.unwrap();
        assert!(!Path::new(&told).exists(), "{told}");
        assert_eq!(by_told_name(&told), odd.join("sleep"));
        assert_eq!(by_told_name("/no/such\\012file"), Path::new("/no/such\\012file"));
    }

    #[test]
    fn a_thread_that_is_killed_is_ending() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let killed = status.replace("SigPnd:\t0000000000000000", "SigPnd:\t0000000000000100");
        assert_ne!(status, killed);
        assert!(!is_ending(0, &status) && is_ending(4, &status) && is_ending(0, &killed));
        // What is not told is of one that is gone.
        assert!(is_ending(0, ""));
    }

    #[test]
    fn whose_a_process_is() {
        let (own, user) = (std::process::id() as i32, crate::system::user_id());
        assert!(is_of_user(own, user) && !is_of_user(own, user + 1) && !is_of_user(-1, user));
    }

    #[test]
    fn what_is_older_is_known() {
        assert!(start("self") >= start("1") && start("self").is_some());
        assert_eq!(start("no process"), None);
        assert_eq!(own_number(std::process::id() as i32), Some(std::process::id() as i32));
    }
}
