//! The ledger: rows that sum to the resident memory of a process, as `vmag_ledger` has them within the library.
//! SPDX-License-Identifier: BSD-2-Clause

use super::areas::{self, Area, Page, Residency};
use super::cgroup::{self, Cgroup};
use super::heap::Heap;
use super::root::{self, Found};
use crate::error::Result;
use crate::process;
use std::io;

/// Where a resident byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    Live,
    Rounding,
    Cached,
    Holes,
    SlabEnds,
    Caches,
    Dirty,
    Magazines,
    Base,
    PageMap,
    Programs,
    Files,
    Shared,
    Stacks,
    Brk,
    Anonymous,
    Kernel,
}

pub const ROWS: usize = Row::Kernel as usize + 1;

/// How rows are put together for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Heap,
    Allocator,
    Rest,
}

pub struct Title {
    pub row: Row,
    pub key: &'static str,
    pub words: &'static str,
    pub group: Group,
}

const fn title(row: Row, key: &'static str, words: &'static str, group: Group) -> Title {
    Title { row, key, words, group }
}

/// In the order of `Row`; keys as in the library's own ledger.
pub const TITLES: [Title; ROWS] = [
    title(Row::Live, "live_bytes", "objects of the program", Group::Heap),
    title(
        Row::Rounding,
        "rounding_bytes",
        "rounded up by, an estimate",
        Group::Heap,
    ),
    title(Row::Cached, "cached_bytes", "free objects in magazines", Group::Heap),
    title(Row::Holes, "holes_bytes", "free buffers in slabs", Group::Heap),
    title(Row::SlabEnds, "slab_ends_bytes", "ends of slabs", Group::Heap),
    title(Row::Caches, "caches_bytes", "slabs of object caches", Group::Heap),
    title(Row::Dirty, "dirty_bytes", "unused pages, not given back", Group::Heap),
    title(
        Row::Magazines,
        "magazines_bytes",
        "magazines themselves",
        Group::Allocator,
    ),
    title(Row::Base, "base_bytes", "tags, slab headers, fronts", Group::Allocator),
    title(Row::PageMap, "page_map_bytes", "page map", Group::Allocator),
    title(Row::Programs, "programs_bytes", "program and libraries", Group::Rest),
    title(Row::Files, "files_bytes", "other files", Group::Rest),
    title(Row::Shared, "shared_bytes", "shared memory", Group::Rest),
    title(Row::Stacks, "stacks_bytes", "stacks", Group::Rest),
    title(Row::Brk, "brk_bytes", "the C library's heap", Group::Rest),
    title(Row::Anonymous, "anonymous_bytes", "other anonymous memory", Group::Rest),
    title(Row::Kernel, "kernel_bytes", "the kernel's own pages", Group::Rest),
];

/// Bytes by row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums(pub [u64; ROWS]);

impl Sums {
    pub fn add(&mut self, row: Row, bytes: u64) {
        self.0[row as usize] += bytes;
    }

    pub fn of(&self, row: Row) -> u64 {
        self.0[row as usize]
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Moves at most so many bytes from one row to another.
    pub fn shift(&mut self, from: Row, to: Row, bytes: u64) {
        let bytes = bytes.min(self.of(from));
        self.0[from as usize] -= bytes;
        self.0[to as usize] += bytes;
    }

    /// Adds `part`, spread over the rows as they are in `other`; what rounding leaves goes to its last row.
    fn add_spread(&mut self, other: &Sums, part: u64) {
        let whole = other.total();
        let mut left = part;
        let Some(last) = other.0.iter().rposition(|bytes| *bytes > 0) else {
            return;
        };
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            let share = (u128::from(theirs) * u128::from(part) / u128::from(whole)) as u64;
            *mine += share;
            left -= share;
        }
        self.0[last] += left;
    }
}

/// What was counted of one area, apart by how its pages are mapped.
#[derive(Default)]
pub struct Counted {
    exclusive: Sums,
    common: Sums,
}

impl Counted {
    pub fn add(&mut self, page: Page, row: Row, bytes: u64) {
        match page {
            Page::Absent => {}
            Page::Exclusive => self.exclusive.add(row, bytes),
            Page::Common => self.common.add(row, bytes),
        }
    }

    /// Brings the counts to what the kernel says is resident; what is left over has the row `rest`.
    fn settle(&self, resident: u64, rest: Row) -> Sums {
        let of_exclusive = self.exclusive.total().min(resident);
        let of_common = self.common.total().min(resident - of_exclusive);
        let mut settled = Sums::default();
        settled.add_spread(&self.exclusive, of_exclusive);
        settled.add_spread(&self.common, of_common);
        settled.add(rest, resident - of_exclusive - of_common);
        settled
    }
}

/// What is known of vmag in the process.
#[derive(Debug, Clone, PartialEq)]
pub enum Vmag {
    Absent,
    Unreadable(String),
    /// Whether it is there cannot be told: why.
    Unknown(String),
    Read(String),
    /// Loaded, but malloc is another's: in words.
    WithoutEffect(String),
}

pub struct Ledger {
    pub pid: i32,
    pub program: String,
    pub vmag: Vmag,
    pub resident: Sums,
    pub proportional: Sums,
    pub swapped_bytes: u64,
    pub huge_bytes: u64,
    pub cgroup: Option<Cgroup>,
    /// Structures that changed while they were read.
    pub torn: u64,
}

impl Ledger {
    pub fn of(pid: i32) -> Result<Ledger> {
        let cannot = |error: io::Error| process::cannot_look(pid, &error);
        let areas = areas::read(pid).map_err(cannot)?;
        let residency = Residency::open(pid).map_err(cannot)?;
        let (vmag, mut heap) = match root::find(pid, &areas) {
            Found::Nothing => (Vmag::Absent, None),
            Found::Unreadable(why) => (Vmag::Unreadable(why), None),
            Found::Unknown(why) => (Vmag::Unknown(why), None),
            Found::Root(root) => {
                let version = root.library_version.clone();
                match Heap::open(pid, *root) {
                    Some(heap) => (Vmag::Read(version), Some(heap)),
                    None => (Vmag::Unreadable("it was not used yet".to_string()), None),
                }
            }
        };
        let mut ledger = Ledger {
            pid,
            program: process::name(pid),
            vmag,
            resident: Sums::default(),
            proportional: Sums::default(),
            swapped_bytes: 0,
            huge_bytes: 0,
            cgroup: cgroup::of(pid),
            torn: 0,
        };
        for area in &areas {
            ledger.take(area, &residency, heap.as_mut());
        }
        if let Some(heap) = &heap {
            heap.divide_live(&mut ledger.resident);
            heap.divide_live(&mut ledger.proportional);
            ledger.torn = heap.torn;
        }
        areas::check_there(pid, &areas)?;
        Ok(ledger)
    }

    fn take(&mut self, area: &Area, residency: &Residency, heap: Option<&mut Heap>) {
        self.swapped_bytes += area.swapped;
        self.huge_bytes += area.huge;
        let mut counted = Counted::default();
        let mut rest = area.row;
        match heap {
            Some(heap) if heap.has(area) => {
                heap.count(area, residency, &mut counted);
                rest = Row::Dirty;
            }
            Some(heap) if area.resident > 0 => {
                for (start, end, row) in heap.own_parts(area) {
                    for page in residency.all_pages(start, end) {
                        counted.add(page, row, residency.page_bytes);
                    }
                }
            }
            _ => {}
        }
        let settled = counted.settle(area.resident, rest);
        self.resident.add_spread(&settled, area.resident);
        self.proportional.add_spread(&settled, area.proportional);
    }

    pub fn is_of_vmag(&self) -> bool {
        matches!(self.vmag, Vmag::Read(_))
    }

    pub fn group(&self, group: Group) -> u64 {
        let titles = TITLES.iter().filter(|title| title.group == group);
        titles.map(|title| self.resident.of(title.row)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_in_the_order_of_rows() {
        for (index, title) in TITLES.iter().enumerate() {
            assert_eq!(title.row as usize, index);
        }
    }

    #[test]
    fn a_spread_keeps_the_sum() {
        let (mut other, mut sums) = (Sums::default(), Sums::default());
        other.add(Row::Live, 7);
        other.add(Row::Dirty, 5);
        sums.add_spread(&other, 11);
        assert_eq!((sums.total(), sums.of(Row::Live), sums.of(Row::Dirty)), (11, 6, 5));
        sums.add_spread(&Sums::default(), 9);
        assert_eq!(sums.total(), 11);
    }

    #[test]
    fn an_area_is_settled_by_the_kernels_sum() {
        let mut counted = Counted::default();
        counted.add(Page::Exclusive, Row::Live, 4096);
        counted.add(Page::Common, Row::Dirty, 8192);
        counted.add(Page::Absent, Row::Dirty, 8192);
        // All common pages are the page of zeroes; half of them are; there is more than was counted.
        assert_eq!(counted.settle(4096, Row::Base).total(), 4096);
        assert_eq!(counted.settle(4096, Row::Base).of(Row::Live), 4096);
        assert_eq!(counted.settle(8192, Row::Base).of(Row::Dirty), 4096);
        let more = counted.settle(20480, Row::Base);
        assert_eq!((more.total(), more.of(Row::Base)), (20480, 8192));
    }

    #[test]
    fn the_ledger_of_a_process_without_vmag_sums() {
        let ledger = Ledger::of(std::process::id() as i32).unwrap();
        assert_eq!(ledger.vmag, Vmag::Absent);
        assert!(ledger.resident.total() > 100_000);
        assert_eq!(ledger.group(Group::Heap) + ledger.group(Group::Allocator), 0);
    }

    #[test]
    fn a_process_that_is_not_there_is_told() {
        let error = Ledger::of(i32::MAX).err().unwrap();
        assert!(error.why.contains("there is no process"), "{error}");
    }
}
