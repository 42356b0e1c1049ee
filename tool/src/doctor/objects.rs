//! The objects that the dynamic linker has loaded into a process, in its order of search, and how each came in.
//!
//! From the linker's own list (r_debug, link_map), found by the program's DT_DEBUG entry. Where the memory of the
//! process cannot be read, from the files: the program, what LD_PRELOAD named, what they need breadth first.
//! SPDX-License-Identifier: BSD-2-Clause

use super::bindings::Symbols;
use crate::explain::areas::{Area, REMOVED};
use crate::explain::memory::Memory;
use crate::image;
use crate::process;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use serde::Serialize;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// A list that the process changes while we read it must end.
const OBJECTS_MAX: usize = 4096;
const AT_PHDR: u64 = 3;
const AT_BASE: u64 = 7;
const PATH_BYTES_MAX: usize = 4096;

/// How an object came into the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Program,
    Preloaded,
    Needed,
    /// By dlopen: others do not see its symbols unless it was opened with RTLD_GLOBAL.
    Opened,
    Loader,
}

#[derive(Debug)]
pub struct Object {
    /// As the process calls it.
    pub path: String,
    /// As it can be opened from here.
    pub file: PathBuf,
    /// From the file's addresses to those of the process.
    pub bias: u64,
    pub ranges: Vec<(u64, u64)>,
    pub place: Place,
    pub symbols: Symbols,
    /// The file was removed or replaced since it was loaded.
    pub is_removed: bool,
    /// And cannot be read any more: nothing is known of its symbols.
    pub is_lost: bool,
    /// The name of the file, or of the link to it, that the linker opened; None: its list could not be read.
    opened_as: Option<String>,
}

impl Object {
    pub fn name(&self) -> &str {
        last_part(&self.path)
    }

    fn is_named(&self, name: &str) -> bool {
        self.symbols.soname.as_deref() == Some(name) || self.name().trim_end_matches(REMOVED) == name
    }

    /// vmag is at hand by the names of those whose place it takes, as links: neither its SONAME nor its file tells.
    fn is_linked_as(&self, name: &str) -> bool {
        const STANDS_FOR: [&str; 3] = ["libjemalloc.so", "libumem.so", "libumem_malloc.so"];
        match &self.opened_as {
            Some(opened_as) => opened_as == name,
            None if self.place == Place::Program => false,
            None => self.symbols.has_vmag && STANDS_FOR.iter().any(|beginning| name.starts_with(beginning)),
        }
    }

    pub fn has(&self, address: u64) -> bool {
        self.ranges.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// In the order of search that all objects share.
    pub fn is_global(&self) -> bool {
        self.place != Place::Opened
    }
}

pub struct Loaded {
    pub objects: Vec<Object>,
    /// PT_INTERP of the program; None: it is static.
    pub interpreter: Option<String>,
    /// The order is the linker's own; otherwise it was worked out from the files.
    pub is_read: bool,
}

impl Loaded {
    pub fn of(pid: i32, areas: &[Area]) -> io::Result<Loaded> {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"))?;
        let program = program.to_string_lossy().into_owned();
        let file = PathBuf::from(format!("/proc/{pid}/exe")); // which is there where its name is not any more
        let interpreter = interpreter(&file);
        let listed = Memory::open(pid)
            .ok()
            .and_then(|memory| linkers_list(pid, areas, &memory, &file));
        let is_read = listed.is_some() || interpreter.is_none();
        let files = listed.unwrap_or_else(|| mapped_files(areas));
        let mut objects = vec![object(pid, areas, program, Place::Program)];
        for (path, opened_as) in files {
            if !objects.iter().any(|object: &Object| object.path == path) {
                objects.push(Object {
                    opened_as,
                    ..object(pid, areas, path, Place::Opened)
                });
            }
        }
        objects.retain(|object| object.place == Place::Program || !object.ranges.is_empty());
        let loader_base = auxiliary(pid, AT_BASE);
        if !is_read {
            put_preloaded_first(pid, &mut objects);
        }
        let global = places(&mut objects, loader_base);
        if !is_read {
            objects.sort_by_key(|object| {
                global
                    .iter()
                    .position(|path| *path == object.path)
                    .unwrap_or(usize::MAX)
            });
        }
        Ok(Loaded {
            objects,
            interpreter,
            is_read,
        })
    }

    /// The object that an address is in.
    pub fn at(&self, address: u64) -> Option<usize> {
        self.objects.iter().position(|object| object.has(address))
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn auxiliary(pid: i32, key: u64) -> Option<u64> {
    let process = procfs::process::Process::new(pid).ok()?;
    process.auxv().ok()?.get(&key).copied().filter(|value| *value != 0)
}

fn object(pid: i32, areas: &[Area], path: String, place: Place) -> Object {
    let of_file = |area: &&Area| area.path == path;
    let ranges: Vec<_> = areas
        .iter()
        .filter(of_file)
        .map(|area| (area.start, area.end))
        .collect();
    let first = areas.iter().find(of_file);
    let file = match place {
        Place::Program => PathBuf::from(format!("/proc/{pid}/exe")),
        _ => first.map_or_else(|| process::file(pid, &path, None), |first| first.file(pid)),
    };
    let is_removed = first.is_some_and(Area::is_removed);
    let bias = first.map_or(0, |first| first.start.wrapping_sub(lowest_address(&file, first.offset)));
    let symbols = Symbols::read(&file);
    Object {
        is_removed,
        is_lost: is_removed && symbols.is_none(),
        symbols: symbols.unwrap_or_default(),
        bias,
        ranges,
        place,
        file,
        path,
        opened_as: None,
    }
}

/// The address in the file of what is mapped from an offset, down to the page.
fn lowest_address(file: &Path, offset: u64) -> u64 {
    let segments = image::segments(file).unwrap_or_default();
    let page = crate::system::page_bytes();
    let first = segments
        .iter()
        .find(|segment| offset < segment.offset.saturating_add(segment.size.max(1)));
    first.map_or(0, |segment| {
        (segment.address & !(page - 1))
            .wrapping_sub(segment.offset & !(page - 1))
            .wrapping_add(offset)
    })
}

fn interpreter(file: &Path) -> Option<String> {
    let data = image::Data::of(file)?;
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, &data).ok()?;
    let name = headers
        .iter()
        .find_map(|header| header.interpreter(endian, &data).ok().flatten())?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// A file that is loaded, and what it was opened as.
type File = (String, Option<String>);

/// The files in the linker's list, by what is mapped where their dynamic sections are: its names may be relative, or lead
/// through links.
fn linkers_list(pid: i32, areas: &[Area], memory: &Memory, program: &Path) -> Option<Vec<File>> {
    const LINK_NAME: u64 = 8;
    const LINK_DYNAMIC: u64 = 16;
    const LINK_NEXT: u64 = 24;
    const R_MAP: u64 = 8;
    let debug = debug_address(pid, memory, program)?;
    let mut files = Vec::new();
    let mut link = memory.u64(debug + R_MAP)?;
    while link != 0 && files.len() < OBJECTS_MAX {
        let dynamic = memory.u64(link + LINK_DYNAMIC)?;
        let area = areas.iter().find(|area| (area.start..area.end).contains(&dynamic));
        if let Some(area) = area.filter(|area| area.path.starts_with('/')) {
            let opened_as = memory.text(memory.u64(link + LINK_NAME)?, PATH_BYTES_MAX);
            files.push((area.path.clone(), Some(last_part(&opened_as).to_string())));
        }
        link = memory.u64(link + LINK_NEXT)?;
    }
    Some(files).filter(|files| !files.is_empty())
}

/// Where the program's dynamic section points to the linker's r_debug.
fn debug_address(pid: i32, memory: &Memory, program: &Path) -> Option<u64> {
    const ENTRY_BYTES: u64 = 16;
    let data = image::Data::of(program)?;
    let file = ElfFile64::<Endianness, _>::parse(&data).ok()?;
    let endian = file.endian();
    let headers = file.elf_program_headers();
    let of_type = |kind| headers.iter().find(move |header| header.p_type(endian) == kind);
    let dynamic = of_type(elf::PT_DYNAMIC)?;
    let table = of_type(elf::PT_PHDR).map(|header| header.p_vaddr(endian))?;
    let bias = auxiliary(pid, AT_PHDR)?.wrapping_sub(table);
    let start = bias.wrapping_add(dynamic.p_vaddr(endian));
    let count = dynamic.p_memsz(endian) / ENTRY_BYTES;
    let entries = memory.u64s(start, count as usize * 2)?;
    let debug = entries
        .chunks_exact(2)
        .find(|entry| entry[0] == elf::DT_DEBUG.0 as u64)?;
    Some(debug[1]).filter(|address| *address != 0)
}

fn mapped_files(areas: &[Area]) -> Vec<File> {
    let mut seen = HashSet::new();
    let executable = areas
        .iter()
        .filter(|area| area.executable && area.path.starts_with('/'));
    executable
        .map(|area| area.path.clone())
        .filter(|path| seen.insert(path.clone()))
        .map(|path| (path, None))
        .collect()
}

fn put_preloaded_first(pid: i32, objects: &mut [Object]) {
    let variable = process::environment(pid)
        .remove(OsStr::new("LD_PRELOAD"))
        .unwrap_or_default();
    let preloaded = variable.to_string_lossy().into_owned();
    let words = preloaded.split([':', ' ']).filter(|word| !word.is_empty());
    let first: Vec<String> = words
        .filter_map(|word| by_name(objects, last_part(word)))
        .map(|index| objects[index].path.clone())
        .collect();
    let rank = |object: &Object| first.iter().position(|path| *path == object.path);
    objects[1..].sort_by_key(|object| rank(object).unwrap_or(usize::MAX));
}

/// The object that is meant by a name in DT_NEEDED or LD_PRELOAD. One that bears it goes before one that was opened by it:
/// a preloaded link libjemalloc.so.2 to vmag does not keep jemalloc itself from being loaded.
fn by_name(objects: &[Object], name: &str) -> Option<usize> {
    let bears = objects.iter().position(|object| object.is_named(name));
    bears.or_else(|| objects.iter().position(|object| object.is_linked_as(name)))
}

/// How each object came in; returns the paths of those in the order of search of all.
///
/// What stands in the list between the program and the first object that it needs was preloaded; what they need, and what
/// that needs in turn, came with them; the rest was opened later.
fn places(objects: &mut [Object], loader_base: Option<u64>) -> Vec<String> {
    let needed_by_program = objects[0].symbols.needed.iter();
    let first_needed = needed_by_program
        .filter_map(|name| by_name(objects, name))
        .min()
        .unwrap_or(1);
    let mut queue: VecDeque<usize> = VecDeque::from([0]);
    for (index, object) in objects.iter_mut().enumerate().take(first_needed).skip(1) {
        let is_loader = loader_base.is_some_and(|base| object.has(base));
        if !is_loader {
            object.place = Place::Preloaded;
            queue.push_back(index);
        }
    }
    let mut order: Vec<usize> = queue.iter().copied().collect();
    while let Some(index) = queue.pop_front() {
        for name in objects[index].symbols.needed.clone() {
            let Some(found) = by_name(objects, &name) else {
                continue;
            };
            if !order.contains(&found) {
                order.push(found);
                queue.push_back(found);
            }
            if objects[found].place == Place::Opened {
                objects[found].place = Place::Needed;
            }
        }
    }
    let loader = loader_base.and_then(|base| objects.iter().position(|object| object.has(base)));
    if let Some(loader) = loader.filter(|loader| *loader != 0) {
        objects[loader].place = Place::Loader;
    }
    order.iter().map(|index| objects[*index].path.clone()).collect()
}
