//! The live heap profile of a process: its tallies and stacks, read in place.
//! SPDX-License-Identifier: BSD-2-Clause

use super::{Process, lives_elsewhere};
use crate::error::{Result, ToolError};
use crate::explain::areas::{self, Area};
use crate::explain::memory::{u16_in, u32_in, u64_in};
use crate::explain::root::ProfileRoot;
use crate::output::in_line;
use crate::profile::{Estimate, MOST_COUNT, MOST_DEPTH, Mapping, Profile, Sample, arena_or_cache};
use std::collections::HashMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// More are taken for a torn or foreign structure.
const MOST_TALLIES: usize = 1 << 22;
/// Of all stacks, which may all lie in the same few bytes.
const MOST_FRAMES: usize = 1 << 25;
const MOST_THREADS: usize = 1 << 20;
/// Of a thread's name; the library keeps 32.
const NAME_MOST: usize = 64;

/// A tally whose fields are possible ones.
struct Tally {
    number: u32,
    stack: u64,
    size: u64,
    thread: u32,
    arena: u16,
    lg_sample: u8,
    live: u64,
    total: u64,
}

/// A profile, and the number of the tally that each of its samples was.
pub struct NumberedProfile {
    pub profile: Profile,
    pub tallies: Vec<u32>,
}

impl Process {
    /// What is sampled and alive at this moment, and ever. Empty when the process was never profiled.
    pub fn profile(&self) -> Result<Profile> {
        let before = self.counters()?;
        let profile = self.profile_with(|_, live| live)?;
        let missing = self.not_in_profile(&profile, &before)?;
        Ok(Profile { missing, ..profile })
    }

    /// The same; refused where the process does not sample and never did.
    pub fn profile_if_any(&self) -> Result<Profile> {
        let profile = self.profile()?;
        match profile.samples.is_empty() && !self.sampling().is_some_and(|(active, _)| active) {
            true => Err(not_sampling(self.pid)),
            false => Ok(profile),
        }
    }

    /// The same for who meets the numbers of tallies in the heap.
    pub fn numbered_profile(&self) -> Result<NumberedProfile> {
        let root = self.profile_root()?;
        self.try_profile(root, |_, live| live).ok_or_else(|| self.ended())
    }

    /// The same with other counts of live samples: by the tally's number, and what it says itself.
    pub(super) fn profile_with(&self, live: impl Fn(u32, u64) -> u64) -> Result<Profile> {
        let root = self.profile_root()?;
        let numbered = self.try_profile(root, live).ok_or_else(|| self.ended())?;
        Ok(numbered.profile)
    }

    fn try_profile(&self, root: &ProfileRoot, live: impl Fn(u32, u64) -> u64) -> Option<NumberedProfile> {
        let mut tallies = Vec::new();
        let mut profile = Profile {
            mappings: mappings(self.pid),
            lg_sample: self
                .memory
                .bytes(root.lg_sample, 1)
                .map(|byte| byte[0].into())
                .filter(|lg| *lg < 64),
            lost: self.memory.u64(root.lost)?,
            pid: Some(self.pid.into()),
            time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .ok()
                .map(|time| time.as_secs() as i64),
            ..Profile::default()
        };
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        let mut room = MOST_FRAMES;
        for tally in self.tallies(root)? {
            let stack = match numbers.get(&tally.stack) {
                Some(number) => *number,
                None => {
                    let Some(frames) = self.frames(root, tally.stack, room) else {
                        continue;
                    };
                    room -= frames.len();
                    profile.stacks.push(frames);
                    numbers.insert(tally.stack, profile.stacks.len() - 1);
                    profile.stacks.len() - 1
                }
            };
            tallies.push(tally.number);
            let (arena, cache) = arena_or_cache(tally.arena.into());
            profile.samples.push(Sample {
                stack,
                thread: tally.thread,
                arena,
                cache,
                size: Some(tally.size),
                live: Estimate::of_samples(live(tally.number, tally.live), tally.size, tally.lg_sample.into()),
                total: Estimate::of_samples(tally.total, tally.size, tally.lg_sample.into()),
            });
        }
        profile.threads = self.thread_names(root).unwrap_or_default();
        profile.caches = self.cache_names().unwrap_or_default();
        self.is_there().then_some(NumberedProfile { profile, tallies })
    }

    /// Tallies that are written while they are read are read again.
    fn tallies(&self, root: &ProfileRoot) -> Option<Vec<Tally>> {
        let count = (self.memory.u32(root.tally_count)? as usize).min(MOST_TALLIES);
        let a_block = root.tallies_a_block.max(1);
        let mut tallies = Vec::new();
        for (index, block) in self
            .memory
            .u64s(root.tally_blocks, count.div_ceil(a_block))?
            .into_iter()
            .enumerate()
        {
            let used = (count - index * a_block).min(a_block);
            let Some(length) = used.checked_mul(root.tally_bytes) else {
                continue;
            };
            let Some(bytes) = self.memory.bytes(block, length) else {
                continue;
            };
            let again = self.memory.bytes(block, length)?;
            for (number, at) in (0..used).map(|number| (number, number * root.tally_bytes)) {
                let (first, second) = (parse(root, &bytes[at..]), parse(root, &again[at..]));
                // The same object both times, with what was counted last; a number that was given anew is left out.
                match (first, second) {
                    (Some(first), Some(second)) if first.stack == second.stack && first.size == second.size => {
                        tallies.push(Tally {
                            number: (index * a_block + number) as u32 + 1,
                            ..second
                        })
                    }
                    _ => {}
                }
            }
        }
        Some(tallies)
    }

    fn frames(&self, root: &ProfileRoot, stack: u64, room: usize) -> Option<Vec<u64>> {
        let depth = self.memory.u32(stack.wrapping_add(root.stack_depth as u64))? as usize;
        (depth <= MOST_DEPTH.min(room))
            .then(|| self.memory.u64s(stack.wrapping_add(root.stack_frames as u64), depth))
            .flatten()
    }

    fn thread_names(&self, root: &ProfileRoot) -> Option<HashMap<u32, String>> {
        let count = (self.memory.u32(root.thread_count)? as usize).min(MOST_THREADS);
        let a_block = root.names_a_block.max(1);
        let blocks = self.memory.u64s(root.thread_names, count / a_block + 1)?;
        let mut names = HashMap::new();
        for (index, block) in blocks.into_iter().enumerate().filter(|(_, block)| *block != 0) {
            let bytes = self.memory.bytes(block, a_block.checked_mul(root.name_bytes)?)?;
            for (number, name) in bytes.chunks_exact(root.name_bytes.max(1)).enumerate() {
                if let Some(name) = name_in(name) {
                    names.insert((index * a_block + number) as u32, name);
                }
            }
        }
        Some(names)
    }
}

/// Up to the first zero; None of a thread without a name.
fn name_in(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(NAME_MOST)];
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    (!name.is_empty()).then(|| in_line(&String::from_utf8_lossy(name)))
}

fn not_sampling(pid: i32) -> ToolError {
    ToolError::new(
        format!("process {pid} has no heap profile"),
        "its profiler is off",
        format!("`vmag attach --profile 512k {pid}` switches it on, or start the process with VMAG_CONF=prof:true"),
    )
}

fn parse(root: &ProfileRoot, bytes: &[u8]) -> Option<Tally> {
    let byte = |offset: usize| bytes.get(offset).copied().unwrap_or(0);
    let tally = Tally {
        number: 0,
        stack: u64_in(bytes, root.tally_stack),
        size: u64_in(bytes, root.tally_size),
        thread: u32_in(bytes, root.tally_thread),
        arena: u16_in(bytes, root.tally_arena),
        lg_sample: byte(root.tally_lg_sample),
        live: u64_in(bytes, root.tally_live),
        total: u64_in(bytes, root.tally_total),
    };
    let is_sound = tally.stack != 0 && tally.lg_sample < 64 && tally.live < MOST_COUNT && tally.total < MOST_COUNT;
    (is_sound && byte(root.tally_retired) == 0 && (tally.live > 0 || tally.total > 0)).then_some(tally)
}

/// What the process executes from.
fn mappings(pid: i32) -> Vec<Mapping> {
    let is_elsewhere = lives_elsewhere(pid);
    let areas = areas::read_maps(pid).unwrap_or_default();
    let executed = areas
        .into_iter()
        .filter(|area| area.executable && !area.path.is_empty());
    executed
        .map(|area| Mapping {
            start: area.start,
            end: area.end,
            offset: area.offset,
            path: name_here(&area, pid, is_elsewhere),
            build_id: None,
        })
        .collect()
}

/// Its own name where that is the same file for us; a way through the kernel where it was removed or replaced, or where the process lives elsewhere.
fn name_here(area: &Area, pid: i32, is_elsewhere: bool) -> String {
    match area.kept_by_kernel(pid) {
        Some(link) => link,
        None if is_elsewhere && area.path.starts_with('/') && !area.file_id.is_of(Path::new(&area.path)) => {
            area.file(pid).display().to_string()
        }
        None => area.path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::memory::Memory;
    use crate::explain::root;
    use crate::profile::own_path;
    use std::fs;
    use std::process::Command;

    /// What could not be read was passed over, as if nothing had been sampled.
    #[test]
    fn of_a_process_that_ended_meanwhile_there_is_no_profile() {
        let (mut bytes, zeros) = ([7; 1024], [0u64; 8]);
        let mut root = root::tests::root_in(&bytes);
        if let Some(profile) = &mut root.profile {
            let here = zeros.as_ptr() as u64;
            (profile.lost, profile.tally_count, profile.tally_blocks) = (here, here, here);
        }
        let pid = std::process::id() as i32;
        let process = Process {
            pid,
            program: String::new(),
            memory: Memory::open(pid).unwrap(),
            root: Box::new(root),
        };
        assert!(
            process
                .numbered_profile()
                .is_ok_and(|numbered| numbered.tallies.is_empty())
        );
        bytes[100] = 8;
        assert!(process.numbered_profile().is_err() && bytes[100] == 8);
    }

    /// There may be a million of them.
    #[test]
    fn names_of_threads_are_short() {
        assert_eq!(name_in(b"worker\0rest").as_deref(), Some("worker"));
        assert_eq!(name_in(&[0; 32]), None);
        assert_eq!(name_in(&[b'x'; 4096]).unwrap().len(), NAME_MOST);
    }

    #[test]
    fn a_program_that_was_replaced_is_read_from_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sleep");
        let copied = Command::new("cp").arg("/bin/sleep").arg(&path).status().unwrap();
        assert!(copied.success());
        let mut child = Command::new(&path).arg("60").spawn().unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        let pid = child.id() as i32;
        let is_program = |map: &Mapping| own_path(&map.path).starts_with(path.to_str().unwrap());
        // It is begun before the kernel has mapped it.
        let program = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            mappings(pid).into_iter().find(is_program)
        });
        let read = program.map(|map| fs::read(&map.path).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(read == fs::read("/bin/sleep").ok());
    }
}
