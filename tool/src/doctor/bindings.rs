//! Which definition of malloc and its kin each object's calls go to.
//! SPDX-License-Identifier: BSD-2-Clause

use super::objects::Loaded;
use crate::explain::memory::Memory;
use crate::image;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol, ObjectSymbolTable, RelocationTarget, elf};
use std::collections::HashMap;
use std::path::Path;

/// Symbols of an allocator: as the linker knows them, and for people. The first five make an allocator.
pub const SYMBOLS: [(&str, &str); 27] = [
    ("malloc", "malloc"),
    ("calloc", "calloc"),
    ("realloc", "realloc"),
    ("free", "free"),
    ("posix_memalign", "posix_memalign"),
    ("aligned_alloc", "aligned_alloc"),
    ("memalign", "memalign"),
    ("valloc", "valloc"),
    ("pvalloc", "pvalloc"),
    ("reallocarray", "reallocarray"),
    ("malloc_usable_size", "malloc_usable_size"),
    ("_Znwm", "operator new"),
    ("_Znam", "operator new[]"),
    ("_ZnwmRKSt9nothrow_t", "operator new (nothrow)"),
    ("_ZnamRKSt9nothrow_t", "operator new[] (nothrow)"),
    ("_ZnwmSt11align_val_t", "operator new (aligned)"),
    ("_ZnamSt11align_val_t", "operator new[] (aligned)"),
    ("_ZdlPv", "operator delete"),
    ("_ZdaPv", "operator delete[]"),
    ("_ZdlPvm", "operator delete (sized)"),
    ("_ZdaPvm", "operator delete[] (sized)"),
    ("_ZdlPvSt11align_val_t", "operator delete (aligned)"),
    ("_ZdaPvSt11align_val_t", "operator delete[] (aligned)"),
    ("_ZdlPvmSt11align_val_t", "operator delete (sized, aligned)"),
    ("_ZdaPvmSt11align_val_t", "operator delete[] (sized, aligned)"),
    ("mallctl", "mallctl"),
    ("umem_alloc", "umem_alloc"),
];
pub const CORE: usize = 5;

/// Names by which known allocators are built into libraries, beside malloc.
const CARRIED: [(&str, &str); 9] = [
    ("_rjem_malloc", "jemalloc (Rust's, prefixed)"),
    ("je_malloc", "jemalloc"),
    ("jemalloc", "jemalloc (prefixed)"),
    ("mi_malloc", "mimalloc"),
    ("tc_malloc", "tcmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("sn_rust_alloc", "snmalloc"),
    ("scalable_malloc", "TBB's allocator"),
    ("PyObject_Malloc", "Python's own small-object allocator"),
];

/// What matters of a file's symbols. Addresses are the file's own.
#[derive(Debug, Default)]
pub struct Symbols {
    pub soname: Option<String>,
    pub needed: Vec<String>,
    /// By the number in SYMBOLS: where it is defined for others to bind to.
    pub defines: HashMap<usize, u64>,
    /// By the number in SYMBOLS: places that the linker fills with the address of a definition.
    pub slots: Vec<(usize, u64)>,
    /// Linked with -Bsymbolic: its calls of what it defines itself reach itself, past the linker.
    pub is_symbolic: bool,
    /// Definitions of SYMBOLS that only the file itself sees.
    pub private: Vec<usize>,
    pub carries: Vec<&'static str>,
    pub has_vmag: bool,
    /// There is a table with all names, not only with those of dynamic linking.
    pub has_all_names: bool,
}

fn number_of(name: &str) -> Option<usize> {
    SYMBOLS.iter().position(|(symbol, _)| *symbol == name)
}

impl Symbols {
    /// None when the file cannot be read or is no 64-bit ELF file.
    pub fn read(path: &Path) -> Option<Symbols> {
        let data = image::Data::of(path)?;
        let file = ElfFile64::<Endianness, _>::parse(&data).ok()?;
        let mut symbols = Symbols::default();
        symbols.read_dynamic(&file);
        let names: HashMap<_, _> = match file.dynamic_symbol_table() {
            Some(table) => table.symbols().map(|symbol| (symbol.index(), symbol)).collect(),
            None => HashMap::new(),
        };
        for symbol in names.values().filter(|symbol| symbol.is_definition()) {
            symbols.define(symbol.name().unwrap_or_default(), symbol.address());
        }
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                continue;
            };
            let name = names.get(&index).and_then(|symbol| symbol.name().ok());
            if let Some(number) = name.and_then(number_of) {
                symbols.slots.push((number, address));
            }
        }
        for symbol in file.symbols() {
            symbols.has_all_names = true;
            if symbol.is_definition() {
                symbols.see_private(symbol.name().unwrap_or_default());
            }
        }
        symbols.carries.sort_unstable();
        symbols.carries.dedup();
        Some(symbols)
    }

    fn read_dynamic<'a>(&mut self, file: &ElfFile64<'a, Endianness, &'a image::Data>) {
        let Ok(table) = file.elf_dynamic_table() else { return };
        for entry in table.iter() {
            let text = || {
                let bytes = table.string(entry).unwrap_or_default();
                String::from_utf8_lossy(bytes).into_owned()
            };
            match entry.tag {
                elf::DT_NEEDED => self.needed.push(text()),
                elf::DT_SONAME => self.soname = Some(text()),
                elf::DT_SYMBOLIC => self.is_symbolic = true,
                elf::DT_FLAGS => self.is_symbolic |= entry.val & elf::DF_SYMBOLIC.0 != 0,
                _ => {}
            }
        }
    }

    fn define(&mut self, name: &str, address: u64) {
        if let Some(number) = number_of(name) {
            self.defines.insert(number, address);
        }
        self.see_carried(name);
    }

    fn see_private(&mut self, name: &str) {
        if let Some(number) = number_of(name) {
            if !self.defines.contains_key(&number) && !self.private.contains(&number) {
                self.private.push(number);
            }
        }
        self.see_carried(name);
    }

    fn see_carried(&mut self, name: &str) {
        self.has_vmag |= name == "vmag_root";
        if let Some((_, what)) = CARRIED.iter().find(|(symbol, _)| *symbol == name) {
            self.carries.push(what);
        }
    }
}

/// Where the calls of one symbol from one object go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Object(usize),
    /// Not called yet: the linker will look for it at the first call.
    Unbound,
    /// Into memory of no object.
    Elsewhere,
    /// The process's memory could not be read.
    Unknown,
}

/// One symbol through the whole process. Objects are numbers in `Loaded::objects`.
#[derive(Debug)]
pub struct Binding {
    pub symbol: usize,
    /// First in the order of search.
    pub winner: Option<usize>,
    pub defined_by: Vec<usize>,
    /// Who calls it, and whom that reaches.
    pub callers: Vec<(usize, Target)>,
}

impl Binding {
    /// Those whose calls reach another than the winner.
    pub fn astray(&self) -> impl Iterator<Item = (usize, Target)> + '_ {
        let winner = self.winner;
        self.callers.iter().copied().filter(move |(_, target)| match target {
            Target::Object(object) => Some(*object) != winner,
            Target::Elsewhere => true,
            Target::Unbound | Target::Unknown => false,
        })
    }
}

/// All symbols that somebody defines or asks for.
pub fn of(loaded: &Loaded, memory: Option<&Memory>) -> Vec<Binding> {
    let all = (0..SYMBOLS.len()).map(|symbol| binding(loaded, memory, symbol));
    all.filter(|binding| !binding.defined_by.is_empty() || !binding.callers.is_empty())
        .collect()
}

fn binding(loaded: &Loaded, memory: Option<&Memory>, symbol: usize) -> Binding {
    let objects = loaded.objects.iter().enumerate();
    let defined_by: Vec<usize> = objects
        .clone()
        .filter(|(_, object)| object.symbols.defines.contains_key(&symbol))
        .map(|(index, _)| index)
        .collect();
    let winner = defined_by
        .iter()
        .copied()
        .find(|index| loaded.objects[*index].is_global());
    let mut callers: Vec<(usize, Target)> = Vec::new();
    for (index, object) in objects {
        if object.symbols.is_symbolic && defined_by.contains(&index) {
            callers.push((index, Target::Object(index)));
        }
        for (_, slot) in object.symbols.slots.iter().filter(|(number, _)| *number == symbol) {
            let target = target(loaded, memory, symbol, index, object.bias.wrapping_add(*slot));
            if !callers.contains(&(index, target)) {
                callers.push((index, target));
            }
        }
    }
    Binding {
        symbol,
        winner,
        defined_by,
        callers,
    }
}

fn target(loaded: &Loaded, memory: Option<&Memory>, symbol: usize, caller: usize, slot: u64) -> Target {
    let Some(address) = memory.and_then(|memory| memory.u64(slot)) else {
        return Target::Unknown;
    };
    let Some(found) = loaded.at(address) else {
        return if address == 0 {
            Target::Unbound
        } else {
            Target::Elsewhere
        };
    };
    let object = &loaded.objects[found];
    let defines = object.symbols.defines.get(&symbol);
    let is_definition = defines.is_some_and(|own| object.bias.wrapping_add(*own) == address);
    // A way back into the caller that is no definition, or into the program's own table, is a call not made yet.
    if !is_definition && (found == caller || defines.is_none()) {
        return Target::Unbound;
    }
    Target::Object(found)
}
