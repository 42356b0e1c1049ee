//! What an ELF file tells about preloading: its machine, whether a dynamic loader runs, whether it brings a malloc.
//! SPDX-License-Identifier: BSD-2-Clause

use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, FileKind, ReadCache, elf};
use serde::{Deserialize, Serialize};
use std::fs::File;
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
        let data = ReadCache::new(open(path)?);
        match FileKind::parse(&data).ok()? {
            FileKind::Elf32 => Image::parse::<elf::FileHeader32<Endianness>>(&data).ok(),
            FileKind::Elf64 => Image::parse::<elf::FileHeader64<Endianness>>(&data).ok(),
            _ => None,
        }
    }

    fn parse<Header: FileHeader<Endian = Endianness>>(data: &ReadCache<File>) -> object::Result<Image> {
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

/// A regular file: to open a pipe might last for ever, and to open a device might do anything.
pub fn open(path: &Path) -> Option<File> {
    path.is_file().then(|| File::open(path).ok())?
}

/// How far a symbol is from the beginning of the file's first segment in memory; None when the file does not define it.
pub fn symbol(path: &Path, name: &str) -> Option<u64> {
    let data = ReadCache::new(open(path)?);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf64 => symbol_in::<elf::FileHeader64<Endianness>>(&data, name).ok()?,
        _ => None,
    }
}

fn symbol_in<Header: FileHeader<Endian = Endianness>>(
    data: &ReadCache<File>,
    name: &str,
) -> object::Result<Option<u64>> {
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
    let data = ReadCache::new(open(path)?);
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
    let data = ReadCache::new(open(path)?);
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

/// The GNU build id in hexadecimal.
pub fn build_id(path: &Path) -> Option<String> {
    let data = ReadCache::new(open(path)?);
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, &data).ok()? {
        let Some(mut notes) = segment.notes(endian, &data).ok()? else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
    }
    None
}

fn exports_malloc<Header: FileHeader<Endian = Endianness>>(
    header: &Header,
    endian: Endianness,
    data: &ReadCache<File>,
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

    #[test]
    fn reads_this_very_program() {
        let image = Image::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(image.has_loader);
        assert!(!image.has_own_malloc);
        assert!(Image::read(Path::new("/etc/passwd")).is_none());
    }
}
