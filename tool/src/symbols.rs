//! What return addresses are called: functions, inlined ones among them, with source lines where there is debug information.
//! SPDX-License-Identifier: BSD-2-Clause

mod held;
mod own;

use crate::debuginfod;
use crate::image;
use crate::output::in_line;
use crate::process::by_told_name;
use crate::profile::{MOST_DEPTH, Profile, RECORDED_DEPTH, own_path};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use cpp_demangle::DemangleOptions;
use held::Held;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

/// A function on a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled; of an address without a symbol: its file and the offset there.
    pub function: String,
    /// The file's name without its folders.
    pub module: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub inlined: bool,
}

const TRUNCATED: &str = "[truncated]";
const BEGINS_IN: [&str; 3] = ["libc.so", "libpthread", "ld-musl"];
/// Without the lines in front of the names.
const BEGINS: [&str; 9] = [
    "start",
    "main",
    "libc_start_main",
    "libc_start_main_impl",
    "libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "dl_init",
];
/// Of one address.
const INLINED_MOST: usize = 64;
/// Of a name: templates have them of some hundred letters, and a file may have any, which would be told again for each stack.
const NAME_MOST: usize = 4 << 10;

impl Frame {
    fn clean(&mut self) {
        let names = [Some(&mut self.function), Some(&mut self.module), self.file.as_mut()];
        for name in names.into_iter().flatten() {
            if name.len() > NAME_MOST {
                let end = (0..=NAME_MOST).rev().find(|at| name.is_char_boundary(*at));
                name.truncate(end.unwrap_or(0));
                name.push('…');
            }
            if name.contains(char::is_control) {
                *name = in_line(name);
            }
        }
    }

    /// Stands for the outermost functions of a stack, which were not recorded.
    fn truncated() -> Frame {
        Frame {
            function: TRUNCATED.to_string(),
            module: String::new(),
            file: None,
            line: None,
            inlined: false,
        }
    }

    pub fn is_truncated(&self) -> bool {
        self.function == TRUNCATED && self.module.is_empty()
    }

    /// Where a program or thread begins; also by its file alone, where that has no symbols.
    pub fn is_begin(&self) -> bool {
        BEGINS.contains(&self.function.trim_start_matches('_'))
            || (self.is_nameless() && BEGINS_IN.iter().any(|file| self.module.starts_with(file)))
    }

    /// Known by its place in a file alone.
    pub fn is_nameless(&self) -> bool {
        self.module == "?"
            || self
                .function
                .strip_prefix(&self.module)
                .is_some_and(|rest| rest.starts_with("+0x"))
    }
}

/// Stacks with names, the outermost function first; a frame of many stacks is there once.
#[derive(Debug, Default)]
pub struct Named {
    pub stacks: Vec<Vec<Arc<Frame>>>,
    /// Frames that no symbol was found for, and the files they are in.
    pub nameless: usize,
    pub nameless_in: Vec<String>,
    /// Those of these files that are other builds now than were recorded, and not of a bundle, which has what names there were.
    pub replaced: Vec<String>,
}

impl Named {
    /// In words; None: no file was.
    pub fn replaced_told(&self) -> Option<String> {
        let files = self.replaced.join(", ");
        (!files.is_empty()).then(|| format!("{files} was built anew since it was recorded, and has no names here"))
    }
}

pub fn name_stacks(profile: &Profile) -> Named {
    Names::default().name_stacks(profile)
}

/// Names that were found before; for profiles of one process that is looked at again and again.
#[derive(Default)]
pub struct Names {
    frames: HashMap<u64, Vec<Arc<Frame>>>,
}

impl Names {
    pub fn name_stacks(&mut self, profile: &Profile) -> Named {
        let addresses = profile.stacks.iter().flatten().copied();
        let unknown: HashSet<u64> = addresses.filter(|address| !self.frames.contains_key(address)).collect();
        if !unknown.is_empty() {
            let shared = |frames: Vec<Frame>| frames.into_iter().map(Arc::new).collect();
            let fresh = name_addresses(profile, unknown).into_iter();
            self.frames
                .extend(fresh.map(|(address, frames)| (address, shared(frames))));
        }
        named(profile, &self.frames)
    }
}

fn named(profile: &Profile, frames: &HashMap<u64, Vec<Arc<Frame>>>) -> Named {
    let mut named = Named::default();
    let truncated = Arc::new(Frame::truncated());
    let is_linked = !profile.mappings.iter().any(|map| own::is_library(&map.path));
    for stack in &profile.stacks {
        let mut frames: Vec<Arc<Frame>> = stack
            .iter()
            .flat_map(|address| frames[address].iter().cloned())
            .take(MOST_DEPTH)
            .collect();
        let has_begin = frames.last().is_some_and(|frame| frame.is_begin());
        let is_cut = frames.len() == MOST_DEPTH || (stack.len() == RECORDED_DEPTH && !has_begin);
        let own = own::count(frames.iter().map(Arc::as_ref), is_linked);
        frames.drain(..own.min(frames.len().saturating_sub(1)));
        if is_cut {
            frames.push(truncated.clone());
        }
        frames.reverse();
        named.stacks.push(frames);
    }
    let mut modules: Vec<String> = frames
        .values()
        .flatten()
        .filter(|frame| frame.is_nameless())
        .map(|frame| frame.module.clone())
        .collect();
    named.nameless = modules.len();
    modules.sort();
    modules.dedup();
    for module in modules.iter_mut().filter(|module| *module == "?") {
        *module = match profile.mappings_are_cut {
            true => "memory without a file, or in a file that the recording had no room to name",
            false => "memory without a file",
        }
        .to_string();
    }
    named.replaced = replaced(profile, &modules);
    for module in modules.iter_mut().filter(|module| named.replaced.contains(module)) {
        module.push_str(" (another build by now)");
    }
    named.nameless_in = modules;
    named
}

fn replaced(profile: &Profile, modules: &[String]) -> Vec<String> {
    let mut found: Vec<String> = profile
        .mappings
        .iter()
        .map(|map| (module_of(&map.path), map))
        .filter(|(module, map)| {
            modules.contains(module) && profile.bundled(&map.path).is_none() && profile.is_replaced(&map.path)
        })
        .map(|(module, _)| module)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The name of a file that was mapped, without its folder.
pub fn module_of(path: &str) -> String {
    let path = own_path(path);
    let name = Path::new(&path).file_name();
    name.map_or(path.clone(), |name| name.to_string_lossy().into())
}

/// Names alone, the innermost first.
pub fn functions(frames: &[Arc<Frame>]) -> Vec<&str> {
    frames.iter().rev().map(|frame| frame.function.as_str()).collect()
}

/// A stack without the innermost functions that do nothing but allocate for their callers: by their names, or because
/// they are the library of a language. The outermost function is the first.
pub fn callers(frames: &[Arc<Frame>]) -> &[Arc<Frame>] {
    let is_wrapper =
        |frame: &&Arc<Frame>| frame.function.to_ascii_lowercase().contains("alloc") || is_library(&frame.function);
    let count = frames.iter().rev().take_while(is_wrapper).count();
    if count < frames.len() {
        &frames[..frames.len() - count]
    } else {
        frames
    }
}

/// Of Rust and C++: "<alloc::vec::Vec<u8> as core::clone::Clone>::clone", "void std::vector<int>::push_back(int const&)".
fn is_library(function: &str) -> bool {
    const LIBRARIES: [&str; 6] = [
        "std::",
        "core::",
        "alloc::",
        "hashbrown::",
        "__gnu_cxx::",
        "operator new",
    ];
    let mut depth = 0;
    let head: String = function
        .chars()
        .take_while(|letter| *letter != '(')
        .filter(|letter| {
            depth += i32::from(*letter == '<');
            let outside = depth == 0;
            depth -= i32::from(*letter == '>');
            outside
        })
        .collect();
    let of_trait = function.strip_prefix('<').and_then(|rest| rest.split_once(" as "));
    let owner = match of_trait {
        Some((_, of_trait)) => of_trait,
        None if function.starts_with('<') => &function[1..],
        None => head.rsplit(' ').next().unwrap_or(&head),
    };
    LIBRARIES.iter().any(|library| owner.starts_with(library))
}

/// Frames of each address, innermost first: those that a bundle brought, or what the files that were mapped say. They come from anybody: a name
/// is one line, and what is inlined has an end.
pub fn name_addresses(profile: &Profile, addresses: HashSet<u64>) -> HashMap<u64, Vec<Frame>> {
    let mut by_file: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    let mut named = HashMap::new();
    let places = profile.places();
    for address in addresses {
        let bundled = profile.known.as_ref().and_then(|known| known.frames.get(&address));
        // The call is before the address to return to.
        match (bundled, places.locate(address.saturating_sub(1))) {
            (Some(frames), _) => drop(named.insert(address, frames.clone())),
            (None, Some((map, offset))) => by_file.entry(&map.path).or_default().push((address, offset)),
            (None, None) => drop(named.insert(address, vec![unknown("?", &format!("0x{address:x}"))])),
        }
    }
    for (path, places) in by_file {
        let offsets: Vec<u64> = places.iter().map(|(_, offset)| *offset).collect();
        let frames = name_offsets(profile, path, &offsets);
        named.extend(places.iter().map(|(address, _)| *address).zip(frames));
    }
    for frames in named.values_mut() {
        frames.truncate(INLINED_MOST);
        frames.iter_mut().for_each(Frame::clean);
    }
    named
}

/// Frames of each offset of a file. What it does not tell itself may be told by debug information of its own.
fn name_offsets(profile: &Profile, path: &str, offsets: &[u64]) -> Vec<Vec<Frame>> {
    let module = module_of(path);
    let found = match is_at_hand(profile, path) {
        true => symbolize(&by_told_name(path), &module, Input::FileOffset(offsets)),
        false => Vec::new(),
    };
    let mut found = found.into_iter();
    let mut frames: Vec<Vec<Frame>> = offsets
        .iter()
        .map(|offset| {
            let named = found.next().flatten();
            named.unwrap_or_else(|| vec![unknown(&module, &format!("{module}+0x{offset:x}"))])
        })
        .collect();
    if frames.iter().flatten().all(|frame| frame.line.is_some()) {
        return frames;
    }
    let Some(file) = profile.object_file(path) else {
        return frames;
    };
    let debug = || debug_file(&by_told_name(path), file.build_id.as_deref()?);
    if let Some(debug) = debug() {
        let addresses: Vec<u64> = offsets.iter().map(|offset| file.own_address(*offset)).collect();
        for (frames, better) in frames
            .iter_mut()
            .zip(symbolize(&debug, &module, Input::VirtOffset(&addresses)))
        {
            if let Some(better) = better {
                *frames = better;
            }
        }
    }
    frames
}

/// What a file says, as far as it can be read: damaged debug information has made its reader panic, and then the table of symbols has to do.
fn symbolize(file: &Path, module: &str, input: Input<&[u64]>) -> Vec<Option<Vec<Frame>>> {
    let Some(held) = Held::of(file) else {
        return Vec::new();
    };
    let read = |debug_syms| {
        let elf = Elf {
            debug_syms,
            ..Elf::new(held.path())
        };
        // A fresh one for each: it keeps what it read, and of a panic half of it.
        let symbolizer = Symbolizer::new();
        let found = symbolizer.symbolize(&Source::Elf(elf), input);
        let frames = |symbolized: &Symbolized| match symbolized {
            Symbolized::Sym(symbol) => Some(frames_of(symbol, module)),
            Symbolized::Unknown(_) => None,
        };
        found.unwrap_or_default().iter().map(frames).collect()
    };
    quietly(|| read(!held.has_link))
        .or_else(|| quietly(|| read(false)))
        .unwrap_or_default()
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// None: it panicked, of which nothing is said.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !IS_QUIET.get() {
                others(about);
            }
        }));
    });
    let was_quiet = IS_QUIET.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(was_quiet);
    done.ok()
}

/// Whether the file is the one that was mapped; that it is there is seen when it is read.
fn is_at_hand(profile: &Profile, path: &str) -> bool {
    path.starts_with('/') && !profile.is_replaced(path)
}

/// Debug information that lies apart: installed, where the file says, or of a server that may be asked.
fn debug_file(file: &Path, build_id: &str) -> Option<PathBuf> {
    // A bundle may say anything, and it becomes a path.
    let is_one = build_id.bytes().all(|letter| letter.is_ascii_hexdigit());
    let (first, rest) = build_id.split_at_checked(2).filter(|_| is_one)?;
    let installed = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    installed
        .is_file()
        .then_some(installed)
        .or_else(|| linked_file(file, build_id))
        .or_else(|| debuginfod::debug_file(build_id))
}

/// What .gnu_debuglink names, in the places where gdb looks, if it is of the same build.
fn linked_file(file: &Path, build_id: &str) -> Option<PathBuf> {
    let link = image::debug_link(file)??;
    let folder = file.parent()?;
    let global = Path::new("/usr/lib/debug").join(folder.strip_prefix("/").ok()?);
    let places = [
        folder.join(&link),
        folder.join(".debug").join(&link),
        global.join(&link),
    ];
    places
        .into_iter()
        .find(|place| image::build_id(place).as_deref() == Some(build_id))
}

/// blazesym names the outermost function first, and gives each inlined one the place of its call.
fn frames_of(symbol: &blazesym::symbolize::Sym, module: &str) -> Vec<Frame> {
    const STRING: &str = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
    let frame = |name: &str, code: Option<&CodeInfo>, inlined: bool| Frame {
        function: demangled(name).replace(STRING, "std::string"),
        module: module.to_string(),
        file: code.map(|code| code.to_path().display().to_string()),
        line: code.and_then(|code| code.line),
        inlined,
    };
    let mut frames = vec![frame(&symbol.name, symbol.code_info.as_deref(), false)];
    for inlined in &symbol.inlined {
        frames.push(frame(&inlined.name, inlined.code_info.as_ref(), true));
    }
    frames.reverse();
    frames
}

/// Only what begins as mangled names do: a function "i" of C is not "int".
fn demangled(name: &str) -> String {
    let is_mangled = ["_Z", "__Z", "_R", "__R"].iter().any(|begin| name.starts_with(begin));
    if !is_mangled {
        return name.to_string();
    }
    let rust = || short(|out| write!(out, "{:#}", rustc_demangle::try_demangle(name).map_err(|_| fmt::Error)?));
    let cpp = || {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        short(|out| {
            symbol
                .structured_demangle(out, &DemangleOptions::default())
                .map_err(|_| fmt::Error)
        })
    };
    rust().or_else(cpp).unwrap_or_else(|| name.to_string())
}

/// What is written, if it has an end: a mangled name may repeat its parts, and 400 bytes stand for gigabytes.
fn short(write: impl FnOnce(&mut Short) -> fmt::Result) -> Option<String> {
    let mut out = Short(String::new());
    write(&mut out).ok()?;
    Some(out.0)
}

struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        const MOST: usize = 1 << 16;
        if self.0.len() + more.len() > MOST {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

fn unknown(module: &str, name: &str) -> Frame {
    Frame {
        function: name.to_string(),
        module: module.to_string(),
        file: None,
        line: None,
        inlined: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::frame;

    #[test]
    fn names_are_demangled_that_are_mangled() {
        for (name, shown) in [
            ("i", "i"),
            ("Pc", "Pc"),
            ("_start", "_start"),
            ("_Z3fooi", "foo(int)"),
            ("_ZN4core3fmt5write17h01234567890abcdeE", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ] {
            assert_eq!(demangled(name), shown);
        }
    }

    /// Each pair is of two of the pair before.
    #[test]
    fn a_name_that_demangles_without_end_stays_as_it_is() {
        let pairs: String = (1..30).map(|part| format!("S_IS{0}_S{0}_E", base_36(part))).collect();
        let name = format!("_Z1fSt4pairIiiE{pairs}");
        assert!(name.len() < 500);
        assert_eq!(demangled(&name), name);
    }

    fn base_36(number: u32) -> char {
        char::from_digit(number, 36).unwrap().to_ascii_uppercase()
    }

    #[test]
    fn libraries_of_languages_are_known() {
        for function in [
            "alloc::vec::from_elem",
            "<alloc::alloc::Global>::alloc_impl",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "std::string::_M_construct(unsigned long, char)",
            "void std::vector<mine::A, std::allocator<mine::A> >::push_back(mine::A const&)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        ] {
            assert!(is_library(function), "{function}");
        }
        for function in [
            "remember(std::string)",
            "rs::fill",
            "std_like",
            "<mine::A as mine::B>::make",
            "mine::A<std::string>::f()",
        ] {
            assert!(!is_library(function), "{function}");
        }
    }

    #[test]
    fn a_build_id_leads_nowhere_else() {
        let file = Path::new("/bin/sh");
        assert_eq!(debug_file(file, "ab/../../../../../etc/passwd"), None);
        assert_eq!(debug_file(file, "é"), None);
    }

    /// Nobody ever writes into it.
    #[test]
    fn a_pipe_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mapping = crate::profile::Mapping {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            path: path.to_str().unwrap().to_string(),
            build_id: None,
        };
        let profile = Profile {
            stacks: vec![vec![0x1010]],
            mappings: vec![mapping],
            ..Profile::default()
        };
        assert!(name_stacks(&profile).stacks[0][0].is_nameless());
    }

    /// A pipe beside a program has the name that its debug information might have.
    #[test]
    fn what_lies_beside_a_program_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let pipe = folder.path().join("program.dwp");
        let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(made.success());
        let (symbol, offset) = ("main", image::symbol(&path, "main").unwrap());
        let named = symbolize(&path, "program", Input::VirtOffset(&[offset]));
        assert_eq!(named[0].as_ref().unwrap()[0].function, symbol);
    }

    #[test]
    fn names_of_a_bundle_are_lines_and_have_an_end() {
        let mut odd = frame("odd\nname");
        odd.module = "a\x1bb".to_string();
        let known = crate::bundle::Known {
            frames: HashMap::from([(0x10, vec![odd; 200_000])]),
            ..Default::default()
        };
        let profile = Profile {
            stacks: vec![vec![0x10], vec![0x10; 100]],
            known: Some(Arc::new(known)),
            ..Profile::default()
        };
        let stacks = name_stacks(&profile).stacks;
        assert_eq!((stacks[0].len(), stacks[1].len()), (INLINED_MOST, 1 + MOST_DEPTH));
        assert!(stacks[1][0].is_truncated() && !stacks[0][0].is_truncated());
        assert_eq!(
            (stacks[0][0].function.as_str(), stacks[0][0].module.as_str()),
            ("odd?name", "a?b")
        );
    }

    #[test]
    fn what_was_not_recorded_of_a_stack_is_told() {
        let known = crate::bundle::Known {
            frames: HashMap::from([(0x10, vec![frame("recurse")]), (0x20, vec![frame("_start")])]),
            ..Default::default()
        };
        let mut whole = vec![0x10; RECORDED_DEPTH];
        whole[RECORDED_DEPTH - 1] = 0x20;
        let profile = Profile {
            stacks: vec![vec![0x10; RECORDED_DEPTH], whole, vec![0x10; RECORDED_DEPTH - 1]],
            known: Some(Arc::new(known)),
            ..Profile::default()
        };
        let stacks = name_stacks(&profile).stacks;
        assert_eq!(stacks.iter().map(Vec::len).collect::<Vec<_>>(), [129, 128, 127]);
        assert_eq!(functions(&stacks[0])[126..], ["recurse", "recurse", "[truncated]"]);
        assert!(stacks[1..].iter().all(|stack| !stack[0].is_truncated()));
    }

    #[test]
    fn names_are_cut() {
        let mut long = frame(&"é".repeat(1 << 20));
        long.file = Some("x".repeat(NAME_MOST));
        long.clean();
        assert_eq!(long.function.len(), NAME_MOST + "…".len());
        assert_eq!(long.file.unwrap().len(), NAME_MOST);
    }

    #[test]
    fn a_reader_that_panics_says_nothing() {
        assert_eq!(quietly(|| 7), Some(7));
        assert_eq!(quietly(|| panic!("not seen")), None::<u32>);
    }

    #[test]
    fn who_allocates_is_not_the_library() {
        let stack = ["main", "keep", "std::vector<int>::push_back(int)", "xmalloc"]
            .map(frame)
            .map(Arc::new);
        assert_eq!(callers(&stack).last().unwrap().function, "keep");
        let library = ["std::rt::lang_start", "alloc::alloc::alloc"].map(frame).map(Arc::new);
        assert_eq!(callers(&library).len(), 2);
    }
}
