//! The memory of another process, read through /proc/PID/mem: by the same user, and where the kernel lets processes look
//! into each other.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// No structure of the library is larger.
const MOST_BYTES: usize = 256 << 20;

pub struct Memory {
    file: File,
}

impl Memory {
    pub fn open(pid: i32) -> io::Result<Memory> {
        File::open(format!("/proc/{pid}/mem")).map(|file| Memory { file })
    }

    pub fn open_for_writing(pid: i32) -> io::Result<Memory> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))?;
        Ok(Memory { file })
    }

    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    /// None where nothing is mapped.
    pub fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        if length > MOST_BYTES {
            return None;
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    pub fn u64(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8).map(|bytes| u64_in(&bytes, 0))
    }

    pub fn u32(&self, address: u64) -> Option<u32> {
        self.bytes(address, 4).map(|bytes| u32_in(&bytes, 0))
    }

    /// A C string, of which no more than so many bytes are read; empty where nothing is mapped.
    pub fn text(&self, address: u64, most: usize) -> String {
        let mut bytes = vec![0; most];
        let read = self.file.read_at(&mut bytes, address).unwrap_or(0);
        let text = bytes[..read].split(|byte| *byte == 0).next();
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }

    pub fn u64s(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, count.checked_mul(8)?)?;
        Some((0..count).map(|index| u64_in(&bytes, index * 8)).collect())
    }
}

/// The number at an offset; 0 beyond the end, for what another process tells of its memory need not be right.
pub fn u64_in(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(array_in(bytes, offset))
}

pub fn u32_in(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(array_in(bytes, offset))
}

pub fn u16_in(bytes: &[u8], offset: usize) -> u16 {
    u16::from_ne_bytes(array_in(bytes, offset))
}

fn array_in<const SIZE: usize>(bytes: &[u8], offset: usize) -> [u8; SIZE] {
    let rest = bytes.get(offset..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or([0; SIZE])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_end_is_zero() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(
            (u64_in(&bytes, 0), u32_in(&bytes, 4), u16_in(&bytes, 4)),
            (0x2_0000_0001, 2, 2)
        );
        assert_eq!(
            (u64_in(&bytes, 1), u32_in(&bytes, 5), u16_in(&bytes, usize::MAX)),
            (0, 0, 0)
        );
    }

    #[test]
    fn nobody_reads_without_bound() {
        let memory = Memory::open(std::process::id() as i32).unwrap();
        assert!(memory.bytes(0, usize::MAX).is_none());
        let here = 7u32;
        assert_eq!(memory.u32(&here as *const u32 as u64), Some(7));
    }
}
