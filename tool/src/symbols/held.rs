//! A file as its names are read from it, which map it whole: one that nobody can cut short meanwhile, alone in a folder of ours, so that no pipe or
//! device lies beside it under the name of its debug information.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::image;
use crate::system;
use flate2::read::ZlibDecoder;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Of a file that is copied, and of all that is compressed in one.
const MOST_BYTES: u64 = 1 << 30;
/// Of all that is compressed in a file of ours: there may be the debug information of a browser, and there may be one that was fetched.
const OURS_MOST_BYTES: u64 = 1 << 32;

pub struct Held {
    folder: TempDir,
    /// The file itself and its debug information in a package, where they are not copied.
    _open: Vec<File>,
    /// It names a file with its debug information, or may: whoever made it may have put that anywhere.
    pub has_link: bool,
}

impl Held {
    /// None of what is no regular file, or would take more memory than there may be.
    pub fn of(path: &Path) -> Option<Held> {
        let mut held = Held {
            folder: tempfile::tempdir().ok()?,
            _open: Vec::new(),
            has_link: false,
        };
        held.take(path, &held.path(), OURS_MOST_BYTES)?;
        held.has_link = image::debug_link(&held.path()) != Some(None);
        // Most have none.
        let _ = held.take(&package(path), &package(&held.path()), OURS_MOST_BYTES);
        Some(held)
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    fn take(&mut self, path: &Path, place: &Path, ours_most: u64) -> Option<()> {
        let file = image::open(path)?;
        if is_trusted(path, &file) {
            symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), place).ok()?;
            self._open.push(file);
            return unpacks_to(place, ours_most).then_some(());
        }
        let is_whole = copy(file, place).ok()? <= MOST_BYTES;
        (is_whole && unpacks_to(place, MOST_BYTES)).then_some(())
    }
}

/// Nobody but us and root can change it. Who is root in a container is a stranger, and its files are seen through the kernel's links.
fn is_trusted(path: &Path, file: &File) -> bool {
    let is_ours = |about: std::fs::Metadata| {
        [0, system::user_id()].contains(&about.uid()) && about.mode() & (libc::S_IWGRP | libc::S_IWOTH) == 0
    };
    !path.starts_with("/proc") && file.metadata().is_ok_and(is_ours)
}

fn package(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".dwp");
    name.into()
}

fn copy(from: File, place: &Path) -> io::Result<u64> {
    io::copy(&mut from.take(MOST_BYTES + 1), &mut File::create(place)?)
}

/// Whether what is compressed in a file comes to at most so many bytes: what it says of that need not be true.
fn unpacks_to(path: &Path, most: u64) -> bool {
    let unpacked = || {
        let data = image::Data::of(path)?;
        let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
        let endian = header.endian().ok()?;
        let mut bytes = 0;
        for section in header.sections(endian, &data).ok()?.iter() {
            if let Some((_, offset, size)) = section.compression(endian, &data).ok()? {
                let packed = object::ReadRef::read_bytes_at(&data, offset, size).ok()?;
                // What is cut short is found out by who reads it.
                let rest = ZlibDecoder::new(packed).take(most + 1 - bytes);
                bytes += count(rest);
                if bytes > most {
                    return None;
                }
            }
        }
        Some(())
    };
    unpacked().is_some()
}

fn count(mut from: impl Read) -> u64 {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        bytes += read as u64;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_others_may_write_is_copied() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::copy("/proc/self/exe", file.path()).unwrap();
        let is_link = |path: PathBuf| path.symlink_metadata().unwrap().is_symlink();
        for (mode, is_trusted) in [(0o644, true), (0o666, false), (0o620, false)] {
            file.as_file()
                .set_permissions(std::fs::Permissions::from_mode(mode))
                .unwrap();
            let held = Held::of(file.path()).unwrap();
            assert_eq!(is_link(held.path()), is_trusted, "{mode:o}");
            assert!(std::fs::read(held.path()).unwrap() == std::fs::read("/proc/self/exe").unwrap());
        }
    }

    /// A header, and two headers of sections, of which one is compressed: whatever its header says.
    fn packed(bytes: usize) -> Vec<u8> {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&vec![0; bytes]).unwrap();
        let packed = packer.finish().unwrap();
        let mut file = vec![0; 64 + 2 * 64 + 24];
        file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        let mut put = |at: usize, value: u64, size: usize| {
            file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        for (at, value, size) in [
            (16, 2, 2),
            (18, 62, 2),
            (20, 1, 4),
            (40, 64, 8),
            (52, 64, 2),
            (58, 64, 2),
            (60, 2, 2),
            (62, 1, 2),
        ] {
            put(at, value, size);
        }
        let section = 128;
        put(section + 4, 1, 4);
        put(section + 8, 0x800, 8);
        put(section + 24, 192, 8);
        put(section + 32, 24 + packed.len() as u64, 8);
        put(192, 1, 4);
        put(200, 100, 8);
        file.extend(packed);
        file
    }

    #[test]
    fn what_unpacks_without_end_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), packed(1 << 20)).unwrap();
        assert!(unpacks_to(file.path(), 1 << 20));
        assert!(!unpacks_to(file.path(), (1 << 20) - 1));
        // Our own, too.
        for (most, is_taken) in [(1 << 20, true), ((1 << 20) - 1, false)] {
            let mut held = Held::of(file.path()).unwrap();
            let place = held.folder.path().join("another");
            assert_eq!(held.take(file.path(), &place, most).is_some(), is_taken);
            assert!(place.is_symlink());
        }
    }
}
