//! What an ELF file tells about preloading: its machine, whether a dynamic loader runs, whether it brings a malloc.
//! SPDX-License-Identifier: BSD-2-Clause

use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What matters of an ELF file.
pub struct Image {
    pub machine: elf::Machine,
    pub is_64: bool,
    pub has_loader: bool,
    pub has_own_malloc: bool,
}

impl Image {
    /// None when the file cannot be read or is not ELF.
    pub fn read(path: &Path) -> Option<Image> {
        let data = Data::of(path)?;
        match FileKind::parse(&data).ok()? {
            FileKind::Elf32 => Image::parse::<elf::FileHeader32<Endianness>>(&data).ok(),
            FileKind::Elf64 => Image::parse::<elf::FileHeader64<Endianness>>(&data).ok(),
            _ => None,
        }
    }

    fn parse<Header: FileHeader<Endian = Endianness>>(data: &Data) -> object::Result<Image> {
        let header = Header::parse(data)?;
        let endian = header.endian()?;
        let mut segments = header.program_headers(endian, data)?.iter();
        Ok(Image {
            machine: header.e_machine(endian),
            is_64: header.is_type_64(),
            has_loader: segments.any(|segment| segment.p_type(endian) == elf::PT_INTERP),
            has_own_malloc: exports_malloc(header, endian, data).unwrap_or(false),
        })
    }

    /// For people.
    pub fn kind(&self) -> String {
        let bits = if self.is_64 { 64 } else { 32 };
        match self.machine {
            elf::EM_X86_64 => format!("x86-64 ({bits} bit)"),
            elf::EM_386 => "x86 (32 bit)".to_string(),
            elf::EM_AARCH64 => format!("aarch64 ({bits} bit)"),
            elf::EM_ARM => "arm (32 bit)".to_string(),
            elf::EM_RISCV => format!("riscv ({bits} bit)"),
            number => format!("ELF machine {number} ({bits} bit)"),
        }
    }
}

/// A regular file: to open a pipe might last for ever, and to open a device might do anything. It is looked at before it is opened for reading,
/// and cannot be exchanged between.
pub fn open(path: &Path) -> Option<File> {
    let found = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)
        .ok()?;
    let is_regular = found.metadata().ok()?.is_file();
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let open = || OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(same);
    is_regular.then(open)?.ok()
}

/// What is read of one file: more than the tables of symbols of the largest programs have, and no more than memory holds. A file may say that
/// a table has any size, and have it without a block on the disk.
const MOST_BYTES: u64 = 1 << 30;

/// A file, of which no more than that is read.
pub struct Data {
    file: ReadCache<File>,
    left: Cell<u64>,
}

impl Data {
    pub fn of(path: &Path) -> Option<Data> {
        Some(Data {
            file: ReadCache::new(open(path)?),
            left: Cell::new(MOST_BYTES),
        })
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a Data {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let bytes = self.file.read_bytes_at_until(range, delimiter)?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// How far a symbol is from the beginning of the file's first segment in memory; None when the file does not define it.
pub fn symbol(path: &Path, name: &str) -> Option<u64> {
    let data = Data::of(path)?;
    match FileKind::parse(&data).ok()? {
        FileKind::Elf64 => symbol_in::<elf::FileHeader64<Endianness>>(&data, name).ok()?,
        _ => None,
    }
}

fn symbol_in<Header: FileHeader<Endian = Endianness>>(data: &Data, name: &str) -> object::Result<Option<u64>> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let loaded = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let base = loaded.map(|segment| segment.p_vaddr(endian).into()).min().unwrap_or(0);
    let sections = header.sections(endian, data)?;
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let symbols = sections.symbols(endian, data, kind)?;
        let strings = symbols.strings();
        let found = symbols.iter().find(|symbol| {
            symbol.st_shndx(endian) != elf::SHN_UNDEF && symbol.name(endian, strings) == Ok(name.as_bytes())
        });
        if let Some(symbol) = found {
            let value: u64 = symbol.st_value(endian).into();
            return Ok(Some(value.wrapping_sub(base)));
        }
    }
    Ok(None)
}

/// A part of the file that is loaded, and the address that the file gives it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Segment {
    pub offset: u64,
    pub size: u64,
    pub address: u64,
}

/// What the dynamic loader maps of a 64-bit file.
pub fn segments(path: &Path) -> Option<Vec<Segment>> {
    let data = Data::of(path)?;
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let all = header.program_headers(endian, &data).ok()?;
    let loaded = all.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let segments = loaded.map(|segment| Segment {
        offset: segment.p_offset(endian),
        size: segment.p_filesz(endian),
        address: segment.p_vaddr(endian),
    });
    Some(segments.collect())
}

/// How much a file tells of its functions, the least first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DebugInfo {
    /// Only what it exports: it was stripped.
    #[default]
    Exports,
    Symbols,
    Lines,
}

/// What identifies a file that is mapped, and where its parts belong.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ObjectFile {
    pub build_id: Option<String>,
    pub debug: DebugInfo,
    pub segments: Vec<Segment>,
}

impl ObjectFile {
    pub fn read(path: &Path) -> Option<ObjectFile> {
        Some(ObjectFile {
            segments: segments(path)?,
            build_id: build_id(path),
            debug: debug_info(path).unwrap_or_default(),
        })
    }

    /// The address that the file itself gives to what is at this offset of it.
    pub fn own_address(&self, offset: u64) -> u64 {
        let holds = |segment: &&Segment| offset.checked_sub(segment.offset).is_some_and(|at| at < segment.size);
        let found = self.segments.iter().find(holds);
        found.map_or(offset, |segment| {
            (offset - segment.offset).wrapping_add(segment.address)
        })
    }
}

fn debug_info(path: &Path) -> Option<DebugInfo> {
    let data = Data::of(path)?;
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &data).ok()?;
    let has = |name: &[u8]| sections.section_by_name(endian, name).is_some();
    Some(match (has(b".debug_line"), has(b".symtab")) {
        (true, _) => DebugInfo::Lines,
        (false, true) => DebugInfo::Symbols,
        (false, false) => DebugInfo::Exports,
    })
}

const BUILD_ID_MOST: usize = 64;

/// The GNU build id in hexadecimal.
pub fn build_id(path: &Path) -> Option<String> {
    let data = Data::of(path)?;
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, &data).ok()? {
        let Some(mut notes) = segment.notes(endian, &data).ok()? else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                let id = note.desc();
                // It is told with each file; of SHA-1 it has 20 bytes.
                return (id.len() <= BUILD_ID_MOST).then(|| id.iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
    }
    None
}

/// The name of the file with its debug information, as .gnu_debuglink has it, without folders; None of what is no 64-bit file.
pub fn debug_link(path: &Path) -> Option<Option<OsString>> {
    let data = Data::of(path)?;
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &data).ok()?;
    let Some((_, section)) = sections.section_by_name(endian, b".gnu_debuglink") else {
        return Some(None);
    };
    let bytes = section.data(endian, &data).unwrap_or_default();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = Path::new(OsStr::from_bytes(name)).file_name();
    Some(Some(name.unwrap_or_default().to_os_string()))
}

fn exports_malloc<Header: FileHeader<Endian = Endianness>>(
    header: &Header,
    endian: Endianness,
    data: &Data,
) -> object::Result<bool> {
    let symbols = header.sections(endian, data)?.symbols(endian, data, elf::SHT_DYNSYM)?;
    let strings = symbols.strings();
    Ok(symbols.iter().any(|symbol| {
        let is_defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
        is_defined && symbol.name(endian, strings) == Ok(b"malloc".as_slice())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn reads_this_very_program() {
        let image = Image::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(image.has_loader);
        assert!(!image.has_own_malloc);
        assert!(Image::read(Path::new("/etc/passwd")).is_none());
    }

    /// Nobody ever writes into the pipe.
    #[test]
    fn a_file_that_becomes_a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for target in ["file", "pipe"].into_iter().cycle() {
                    symlink(at(target), at("fresh")).unwrap();
                    std::fs::rename(at("fresh"), at("name")).unwrap();
                    if is_over.load(Relaxed) {
                        break;
                    }
                }
            });
            let mut opened = (0..20_000).filter_map(|_| open(&at("name")));
            let are_files = opened.all(|file| file.metadata().unwrap().is_file());
            is_over.store(true, Relaxed);
            assert!(are_files);
        });
    }

    /// A header, the header of a segment, and the note in it.
    fn with_build_id(bytes: usize) -> tempfile::NamedTempFile {
        let mut file = vec![0; 120];
        file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        let mut put = |at: usize, value: u64, size: usize| {
            file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        let note_bytes = 16 + bytes as u64;
        let header = [
            (16, 2, 2),
            (18, 62, 2),
            (20, 1, 4),
            (32, 64, 8),
            (52, 64, 2),
            (54, 56, 2),
            (56, 1, 2),
        ];
        let segment = [(64, 4, 4), (72, 120, 8), (96, note_bytes, 8), (112, 4, 8)];
        for (at, value, size) in header.into_iter().chain(segment) {
            put(at, value, size);
        }
        for word in [4, bytes as u32, elf::NT_GNU_BUILD_ID.0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(b"GNU\0");
        file.extend(vec![0xab; bytes]);
        let at = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(at.path(), file).unwrap();
        at
    }

    #[test]
    fn a_build_id_is_short() {
        assert_eq!(build_id(with_build_id(20).path()), Some("ab".repeat(20)));
        assert_eq!(build_id(with_build_id(1 << 20).path()), None);
    }

    #[test]
    fn a_table_without_end_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MOST_BYTES * 4).unwrap();
        let data = Data::of(file.path()).unwrap();
        assert!((&data).read_bytes_at(0, MOST_BYTES * 3).is_err());
        assert!((&data).read_bytes_at(0, 1 << 20).is_ok());
        assert!((&data).read_bytes_at(1, MOST_BYTES - 1).is_err());
    }
}
