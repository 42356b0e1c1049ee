//! The areas of a process's address space: /proc/PID/smaps, and which pages are resident: /proc/PID/pagemap.
//! SPDX-License-Identifier: BSD-2-Clause

use super::Row;
use crate::error::{Result, ToolError};
use crate::process::{self, FileId};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An inaccessible area of at most this size before an anonymous one makes it a stack.
const GUARD_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub file_id: FileId,
    /// Empty for anonymous memory.
    pub path: String,
    pub executable: bool,
    pub readable: bool,
    pub writable: bool,
    /// Where its bytes belong as far as the kernel tells.
    pub row: Row,
    pub resident: u64,
    pub proportional: u64,
    pub swapped: u64,
    pub huge: u64,
}

/// What the kernel puts behind the name of a file that was removed, or whose place another took.
pub const REMOVED: &str = " (deleted)";

impl Area {
    pub fn is_removed(&self) -> bool {
        self.path.ends_with(REMOVED)
    }

    /// Where a file that has no name any more can be read: the program's by who may look into the process, any by root.
    pub fn kept_by_kernel(&self, pid: i32) -> Option<String> {
        if !self.is_removed() {
            return None;
        }
        let program = format!("/proc/{pid}/exe");
        if fs::read_link(&program).is_ok_and(|path| path == Path::new(&self.path)) {
            return Some(program);
        }
        let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        File::open(&mapped).is_ok().then_some(mapped)
    }

    /// As it can be opened from here, also where the process lives in a container or in a folder.
    pub fn file(&self, pid: i32) -> PathBuf {
        let kept = self.kept_by_kernel(pid).map(PathBuf::from);
        kept.unwrap_or_else(|| process::file(pid, &self.path, Some(self.file_id)))
    }
}

/// All areas in address order.
pub fn read(pid: i32) -> io::Result<Vec<Area>> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).map_or(String::new(), |path| path.display().to_string());
    let bytes = fs::read(format!("/proc/{pid}/smaps"))?;
    let mut areas = some(parse(&String::from_utf8_lossy(&bytes), &program))?;
    if let Ok(residency) = Residency::open(pid) {
        name_stacks(&mut areas, |page| residency.is_guard(page));
    }
    Ok(areas)
}

/// The same from /proc/PID/maps, which does not look at each page: nothing is told of what is resident.
pub fn read_maps(pid: i32) -> io::Result<Vec<Area>> {
    let bytes = fs::read(format!("/proc/{pid}/maps"))?;
    some(parse(&String::from_utf8_lossy(&bytes), ""))
}

/// Threads' stacks of one area are areas of their own here, each with its guard.
pub fn read_maps_and_stacks(pid: i32) -> io::Result<Vec<Area>> {
    let mut areas = read_maps(pid)?;
    let Ok(residency) = Residency::open(pid) else {
        return Ok(areas);
    };
    name_stacks(&mut areas, |page| residency.is_guard(page));
    let split = areas.iter().flat_map(|area| match area.row {
        Row::Stacks => parts(area, &residency.guards(area.start, area.end)),
        _ => vec![area.clone()],
    });
    Ok(split.collect())
}

/// The kernel puts threads' stacks together where their guards are no areas (glibc from 2.42 on), and nothing else: then the first page is one.
fn name_stacks(areas: &mut [Area], is_guard: impl Fn(u64) -> bool) {
    for area in areas.iter_mut() {
        if area.row == Row::Anonymous && area.path.is_empty() && area.writable && is_guard(area.start) {
            area.row = Row::Stacks;
        }
    }
}

/// `guards` of the area, in address order. What lies below the first one is a part, too.
fn parts(area: &Area, guards: &[u64]) -> Vec<Area> {
    let starts = [area.start]
        .into_iter()
        .chain(guards.iter().copied().filter(|guard| *guard > area.start));
    let ends = guards
        .iter()
        .copied()
        .filter(|guard| *guard > area.start)
        .chain([area.end]);
    let part = |(start, end)| Area {
        start,
        end,
        ..area.clone()
    };
    starts.zip(ends).map(part).collect()
}

/// Fails where the process has ended since its areas were read, or has become another program: what was read of it since need not be true.
pub fn check_there(pid: i32, areas: &[Area]) -> Result<()> {
    let now = read_maps(pid).map_err(|error| process::cannot_look(pid, &error))?;
    match life(&now) == life(areas) {
        true => Ok(()),
        false => Err(ToolError::new(
            format!("cannot look into process {pid}"),
            "it became another program while it was read",
            "look again",
        )),
    }
}

/// Where the kernel put its own code and the stack's end, which is at random and stays until the process becomes another program. Where nothing is
/// at random, one looks like the other.
fn life(areas: &[Area]) -> [Option<u64>; 2] {
    let named = |name: &str| areas.iter().find(|area| area.path == name);
    [
        named("[vdso]").map(|area| area.start),
        named("[stack]").map(|area| area.end),
    ]
}

/// What has no memory is no process any more, or was none.
fn some(areas: Vec<Area>) -> io::Result<Vec<Area>> {
    match areas.is_empty() {
        true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        false => Ok(areas),
    }
}

fn parse(text: &str, program: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    let mut last_is_guard = false;
    for line in text.lines() {
        if let Some((area, inaccessible)) = head(line) {
            let mut area = area;
            area.row = row_of(&area, areas.last(), last_is_guard, program);
            last_is_guard = inaccessible && area.path.is_empty() && area.end - area.start <= GUARD_BYTES_MAX;
            areas.push(area);
        } else if let Some(area) = areas.last_mut() {
            field(area, line);
        }
    }
    areas
}

/// "start-end rwxp offset device inode   path"
fn head(line: &str) -> Option<(Area, bool)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let area = Area {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(words.next()?, 16).ok()?,
        file_id: FileId::parse(words.next()?, words.next()?)?,
        path: words.next().unwrap_or_default().trim_start().to_string(),
        readable: access.as_bytes().first() == Some(&b'r'),
        writable: access.as_bytes().get(1) == Some(&b'w'),
        executable: access.as_bytes().get(2) == Some(&b'x'),
        row: Row::Anonymous,
        resident: 0,
        proportional: 0,
        swapped: 0,
        huge: 0,
    };
    Some((area, access.starts_with("---")))
}

fn field(area: &mut Area, line: &str) {
    let Some((key, rest)) = line.split_once(':') else {
        return;
    };
    let bytes = || rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024;
    match key {
        "Rss" => area.resident = bytes(),
        "Pss" => area.proportional = bytes(),
        "Swap" => area.swapped = bytes(),
        "AnonHugePages" => area.huge = bytes(),
        _ => {}
    }
}

fn row_of(area: &Area, last: Option<&Area>, last_is_guard: bool, program: &str) -> Row {
    let row = row_of_path(&area.path, program);
    match last {
        Some(last) if row == Row::Anonymous && last.end == area.start => {
            // Data without a name that follows a library is the library's; a stack follows its guard.
            if last.row == Row::Programs && !last.path.is_empty() {
                Row::Programs
            } else if last_is_guard {
                Row::Stacks
            } else {
                row
            }
        }
        _ => row,
    }
}

fn row_of_path(path: &str, program: &str) -> Row {
    const SHARED: [&str; 5] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "[anon_shmem"];
    if path.starts_with("[stack") || (path.starts_with("[anon:") && path.contains("stack")) {
        Row::Stacks
    } else if path == "[heap]" {
        Row::Brk
    } else if path.is_empty() || path.starts_with("[anon:") {
        Row::Anonymous
    } else if SHARED.iter().any(|beginning| path.starts_with(beginning)) {
        Row::Shared
    } else if path.starts_with('[') {
        Row::Kernel
    } else if path.contains(".so") || path == program {
        Row::Programs
    } else {
        Row::Files
    }
}

/// How a page is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Absent,
    /// Mapped by this process alone.
    Exclusive,
    /// Mapped by others too, or the kernel's page of zeroes, which does not count as resident.
    Common,
}

pub struct Residency {
    file: File,
    pub page_bytes: u64,
}

impl Residency {
    pub fn open(pid: i32) -> io::Result<Residency> {
        Ok(Residency {
            file: File::open(format!("/proc/{pid}/pagemap"))?,
            page_bytes: crate::system::page_bytes(),
        })
    }

    /// The entries of a range that may be as large as all addresses, one after the other.
    pub fn all_pages(&self, start: u64, end: u64) -> impl Iterator<Item = Page> {
        const PIECE_BYTES: u64 = 1 << 30;
        (start..end)
            .step_by(PIECE_BYTES as usize)
            .flat_map(move |at| self.pages(at, at.saturating_add(PIECE_BYTES).min(end)))
    }

    /// Whether that page is a guard that is no area of its own (MADV_GUARD_INSTALL); Linux tells it from 6.15 on.
    pub fn is_guard(&self, page: u64) -> bool {
        self.entries(page, page + self.page_bytes).any(is_guard)
    }

    /// The first pages of all such guards in a range.
    fn guards(&self, start: u64, end: u64) -> Vec<u64> {
        let mut before = false;
        let mut found = Vec::new();
        for (page, entry) in (start..end)
            .step_by(self.page_bytes as usize)
            .zip(self.entries(start, end))
        {
            if is_guard(entry) && !before {
                found.push(page);
            }
            before = is_guard(entry);
        }
        found
    }

    /// One entry a page of [start, end); shorter when the kernel tells no more.
    pub fn pages(&self, start: u64, end: u64) -> Vec<Page> {
        const PRESENT: u64 = 1 << 63;
        const EXCLUSIVE: u64 = 1 << 56;
        self.entries(start, end)
            .map(|entry| match entry {
                entry if entry & PRESENT == 0 => Page::Absent,
                entry if entry & EXCLUSIVE != 0 => Page::Exclusive,
                _ => Page::Common,
            })
            .collect()
    }

    fn entries(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        let mut bytes = vec![0; (end.saturating_sub(start) / self.page_bytes * 8) as usize];
        let mut length = 0;
        while length < bytes.len() {
            let offset = start / self.page_bytes * 8 + length as u64;
            match self.file.read_at(&mut bytes[length..], offset) {
                Ok(got) if got > 0 => length += got,
                _ => break,
            }
        }
        bytes.truncate(length / 8 * 8);
        (0..bytes.len() / 8).map(move |at| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap()))
    }
}

fn is_guard(entry: u64) -> bool {
    entry & (1 << 58) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
5581-5582 r--p 00000000 fe:01 12                         /usr/bin/prog with space
Rss:                 100 kB
Pss:                  50 kB
VmFlags: rd mr mw me
5582-6000 rw-p 00001000 fe:01 12                         /usr/bin/prog with space
Rss:                   4 kB
6000-7000 rw-p 00000000 00:00 0
Rss:                   8 kB
7000-8000 rw-p 00000000 00:00 0
9000-a000 ---p 00000000 00:00 0
a000-b000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
b000-c000 rw-s 00000000 00:01 5                          /memfd:x (deleted)
c000-d000 r--p 00000000 fe:01 9                          /usr/lib/locale/C
d000-e000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn rows_follow_from_paths_and_neighbours() {
        let areas = parse(SMAPS, "/usr/bin/prog with space");
        let rows: Vec<Row> = areas.iter().map(|area| area.row).collect();
        use Row::*;
        assert_eq!(
            rows,
            [
                Programs, Programs, Programs, Anonymous, Anonymous, Stacks, Shared, Files, Kernel
            ]
        );
        assert_eq!(
            (areas[0].start, areas[0].end, areas[0].resident, areas[0].proportional),
            (0x5581, 0x5582, 102400, 51200)
        );
        assert_eq!(areas[5].huge, 2 << 20);
        assert!(areas[8].executable && !areas[0].executable);
    }

    #[test]
    fn stacks_with_guards_that_are_no_areas() {
        let mut areas = parse(SMAPS, "/usr/bin/prog with space");
        name_stacks(&mut areas, |page| page == 0x7000);
        let rows: Vec<Row> = areas[2..6].iter().map(|area| area.row).collect();
        assert_eq!(rows, [Row::Programs, Row::Stacks, Row::Anonymous, Row::Stacks]);
        let ranges = |guards: &[u64]| -> Vec<(u64, u64)> {
            let parts = parts(&areas[3], guards);
            assert!(parts.iter().all(|part| part.row == Row::Stacks));
            parts.iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(ranges(&[]), [(0x7000, 0x8000)]);
        assert_eq!(ranges(&[0x7000]), [(0x7000, 0x8000)]);
        assert_eq!(
            ranges(&[0x7000, 0x7400, 0x7c00]),
            [(0x7000, 0x7400), (0x7400, 0x7c00), (0x7c00, 0x8000)]
        );
    }

    #[test]
    fn who_has_ended_or_become_another_is_not_there() {
        let pid = std::process::id() as i32;
        let areas = read_maps(pid).unwrap();
        assert!(check_there(pid, &areas).is_ok());
        assert!(check_there(pid, &areas[1..]).is_ok());
        let stack = areas.iter().position(|area| area.path == "[stack]").unwrap();
        let error = check_there(pid, &areas[..stack]).unwrap_err();
        assert!(error.why.contains("another program"), "{error}");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let error = check_there(child.id() as i32, &areas).unwrap_err();
        assert!(error.why.contains("there is no process"), "{error}");
    }

    #[test]
    fn sees_its_own_memory() {
        let pid = std::process::id() as i32;
        let areas = read(pid).unwrap();
        let here = &areas as *const _ as u64;
        let area = areas.iter().find(|area| area.start <= here && here < area.end).unwrap();
        assert!(area.resident > 0);
        let residency = Residency::open(pid).unwrap();
        let page = here & !(residency.page_bytes - 1);
        assert_ne!(residency.pages(page, page + residency.page_bytes), [Page::Absent]);
        // More than a piece, and a part of one.
        let end = 5 << 29;
        assert_eq!(residency.all_pages(0, end).count() as u64, end / residency.page_bytes);
    }
}
