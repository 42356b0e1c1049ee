//! All that is found about a process's allocator, and what follows from it.
//! SPDX-License-Identifier: BSD-2-Clause

use super::bindings::{self, Binding, CORE, SYMBOLS, Target};
use super::limits::{self, Limit, Weight};
use super::objects::{Loaded, Object, Place};
use crate::error::Result;
use crate::explain::areas;
use crate::explain::memory::Memory;
use crate::explain::root::{self, Found};
use crate::option_rows::{self, OptionRow};
use crate::process;
use std::io;

/// Who serves the process's calls.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// vmag has all symbols, and no call is known to go elsewhere.
    Vmag,
    /// vmag has all symbols, but calls of some objects go elsewhere.
    VmagInPart,
    /// vmag is there, but another has the symbols.
    VmagWithoutEffect,
    /// Allocating and freeing are of different objects.
    Mixed,
    /// Its file is gone and cannot be read: it serves the process, but whether all of it cannot be told.
    VmagLost,
    /// So is a file that may have any malloc.
    Unknown,
    /// Another allocator, by the object that it is in.
    Other,
    /// Nothing can be preloaded; the allocator is in the program.
    Static,
}

pub struct Diagnosis {
    pub pid: i32,
    pub program: String,
    pub loaded: Loaded,
    pub bindings: Vec<Binding>,
    pub verdict: Verdict,
    /// The object that has vmag's root, and the version there, or why it cannot be told.
    pub vmag: Option<(usize, std::result::Result<String, String>)>,
    pub limits: Vec<Limit>,
    /// None: not told, or not vmag.
    pub options: Option<Vec<OptionRow>>,
    /// What the library said, or would say, about its options.
    pub warnings: Vec<String>,
    /// Where calls really go was read in the process.
    pub is_read: bool,
}

impl Diagnosis {
    pub fn of(pid: i32) -> Result<Diagnosis> {
        let cannot = |error: io::Error| process::cannot_look(pid, &error);
        let was_ours = option_rows::is_ours(pid);
        let areas = areas::read(pid).map_err(cannot)?;
        let loaded = Loaded::of(pid, &areas).map_err(cannot)?;
        let memory = Memory::open(pid).ok();
        let mut bindings = bindings::of(&loaded, memory.as_ref());
        let vmag = loaded.objects.iter().position(|object| object.symbols.has_vmag);
        let vmag = vmag.or_else(|| lost_vmag(pid, &areas, &loaded));
        let verdict = verdict(&loaded, &bindings, vmag);
        if [Verdict::VmagLost, Verdict::Unknown].contains(&verdict) {
            bindings.clear(); // without the definitions of one all would be taken for those of others
        }
        let mut diagnosis = Diagnosis {
            pid,
            program: process::name(pid),
            verdict,
            limits: limits::of(pid, &areas),
            vmag: vmag.map(|object| (object, version(pid, &areas))),
            options: None,
            warnings: Vec::new(),
            is_read: loaded.is_read && memory.is_some(),
            loaded,
            bindings,
        };
        diagnosis.add_own_limits();
        if let Some(object) = vmag {
            diagnosis.options = option_rows::of_process(pid).ok();
            let file = &diagnosis.loaded.objects[object].file;
            diagnosis.warnings = option_rows::warnings_of(pid, file, was_ours);
        }
        areas::check_there(pid, &areas)?;
        Ok(diagnosis)
    }

    fn add_own_limits(&mut self) {
        let (name, weight, meaning) = match &self.loaded.interpreter {
            None => (
                "none, the program is static".to_string(),
                Weight::Warning,
                "no library can be preloaded into it: link it dynamically, or link libvmag.a into it",
            ),
            Some(path) if path.contains("musl") => {
                (path.clone(), Weight::Note, "musl: the library must be built for it")
            }
            Some(path) => (path.clone(), Weight::Fine, ""),
        };
        self.limits
            .insert(0, Limit::new("dynamic loader", name, weight, meaning));
        if let Some(named) = limits::asked_to_preload(self.pid).filter(|_| self.vmag.is_none()) {
            let why = match self.loaded.interpreter {
                None => "no loader looked at it",
                Some(_) if process::is_secure(self.pid) => "the loader passes over it where privileges are raised",
                Some(_) => "the loader said why on standard error at the start",
            };
            let meaning = format!("LD_PRELOAD names it, but it is not loaded: {why}");
            self.limits
                .insert(0, Limit::new("preloading", named, Weight::Warning, meaning));
        }
        if let Some(gone) = self.gone() {
            let (value, meaning) = (
                gone.path.clone(),
                "it runs on with the old file; start it anew to have the new one",
            );
            self.limits
                .insert(0, Limit::new("file is gone", value, Weight::Warning, meaning));
        }
        if !self.is_read {
            let meaning =
                "who calls whom was worked out from files: run this as root, or lower kernel.yama.ptrace_scope";
            let value = "its memory cannot be read";
            self.limits
                .insert(0, Limit::new("this diagnosis", value, Weight::Note, meaning));
        }
    }

    pub fn object(&self, index: usize) -> &Object {
        &self.loaded.objects[index]
    }

    /// What matters and was removed or replaced since it was loaded: vmag, or what cannot be read and may be an allocator.
    pub fn gone(&self) -> Option<&Object> {
        let vmag = self.vmag.as_ref().map(|(vmag, _)| self.object(*vmag));
        let unknown = self.loaded.objects.iter().find(|object| object.is_lost);
        let unknown = unknown.filter(|_| self.verdict == Verdict::Unknown);
        vmag.filter(|vmag| vmag.is_removed).or(unknown)
    }

    /// The object whose malloc the process uses.
    pub fn allocator(&self) -> Option<&Object> {
        self.allocator_index().map(|winner| self.object(winner))
    }

    fn allocator_index(&self) -> Option<usize> {
        let malloc = self
            .bindings
            .iter()
            .find(|binding| SYMBOLS[binding.symbol].0 == "malloc")?;
        malloc.winner
    }

    /// Calls that reach another definition than all others do: the caller, whom they reach, which symbols.
    pub fn astray(&self) -> Vec<(usize, Target, Vec<usize>)> {
        let mut all: Vec<(usize, Target, Vec<usize>)> = Vec::new();
        for binding in &self.bindings {
            for (caller, target) in binding.astray() {
                match all.iter_mut().find(|(a, b, _)| (*a, *b) == (caller, target)) {
                    Some((_, _, symbols)) => symbols.push(binding.symbol),
                    None => all.push((caller, target, vec![binding.symbol])),
                }
            }
        }
        all
    }

    /// Objects with a malloc that nobody else reaches: static copies, and allocators under other names, but for those of the one that all reach.
    pub fn copies(&self) -> Vec<(usize, String)> {
        let (vmag, allocator) = (self.vmag.as_ref().map(|(object, _)| *object), self.allocator_index());
        let objects = self.loaded.objects.iter().enumerate();
        objects
            .filter(|(index, _)| Some(*index) != vmag)
            .filter_map(|(index, object)| Some((index, copy_in(object, Some(index) == allocator)?)))
            .collect()
    }
}

fn copy_in(object: &Object, is_allocator: bool) -> Option<String> {
    let symbols = &object.symbols;
    let names = symbols.carries.iter().filter(|_| !is_allocator);
    let mut words: Vec<String> = names.map(|what| what.to_string()).collect();
    if object.place != Place::Loader && symbols.private.iter().any(|number| *number < CORE) {
        let names: Vec<&str> = symbols.private.iter().map(|number| SYMBOLS[*number].1).collect();
        words.push(format!("its own {}", names.join(", ")));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

fn verdict(loaded: &Loaded, bindings: &[Binding], vmag: Option<usize>) -> Verdict {
    let core: Vec<&Binding> = bindings.iter().filter(|binding| binding.symbol < CORE).collect();
    if loaded.interpreter.is_none() {
        return if vmag == Some(0) {
            Verdict::Vmag
        } else {
            Verdict::Static
        };
    }
    match loaded
        .objects
        .iter()
        .position(|object| object.is_lost && object.is_global())
    {
        Some(lost) if vmag == Some(lost) => return Verdict::VmagLost,
        Some(_) if vmag.is_none() => return Verdict::Unknown,
        _ => {}
    }
    let winners: Vec<usize> = core.iter().filter_map(|binding| binding.winner).collect();
    if winners.windows(2).any(|two| two[0] != two[1]) {
        return Verdict::Mixed;
    }
    match (vmag, winners.first()) {
        (None, _) => Verdict::Other,
        (Some(vmag), Some(winner)) if vmag == *winner => {
            let others = bindings.iter().any(|binding| binding.astray().next().is_some());
            if others { Verdict::VmagInPart } else { Verdict::Vmag }
        }
        _ => Verdict::VmagWithoutEffect,
    }
}

/// The library, where its file cannot be read and its memory tells.
fn lost_vmag(pid: i32, areas: &[areas::Area], loaded: &Loaded) -> Option<usize> {
    let (file, found) = root::find_with_file(pid, areas)?;
    let is_it = |object: &Object| object.is_lost && object.file == file;
    let index = loaded.objects.iter().position(is_it);
    index.filter(|_| !matches!(found, Found::Unknown(_)))
}

fn version(pid: i32, areas: &[areas::Area]) -> std::result::Result<String, String> {
    match root::find(pid, areas) {
        Found::Root(root) => Ok(root.library_version),
        Found::Unreadable(why) | Found::Unknown(why) => Err(why),
        Found::Nothing => Err("its root was not found".to_string()),
    }
}
