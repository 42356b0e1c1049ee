//! The memory of another process, read through /proc/PID/mem: by the same user, and where the kernel lets processes look
//! into each other.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub struct Memory {
    file: File,
}

impl Memory {
    pub fn open(pid: i32) -> io::Result<Memory> {
        File::open(format!("/proc/{pid}/mem")).map(|file| Memory { file })
    }

    /// None where nothing is mapped.
    pub fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
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

    pub fn u64s(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, count * 8)?;
        Some((0..count).map(|index| u64_in(&bytes, index * 8)).collect())
    }
}

/// The number at an offset of bytes that are long enough.
pub fn u64_in(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

pub fn u32_in(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap())
}

pub fn u16_in(bytes: &[u8], offset: usize) -> u16 {
    u16::from_ne_bytes(bytes[offset..offset + 2].try_into().unwrap())
}
