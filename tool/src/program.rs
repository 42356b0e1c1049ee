//! Finds the program a command names, and tells before it starts whether a library can be preloaded into it.
//!
//! What can be seen beforehand: a program without a dynamic loader (static), one for another machine, one that
//! gains privileges (the loader then ignores LD_PRELOAD), one that brings its own malloc. A script stands for its
//! interpreter. What cannot be seen is left to the check after the run.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Result, ToolError};
use crate::image::Image;
use crate::system;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Scripts may name scripts as interpreters; the kernel gives up after this many.
const INTERPRETERS_MAX: usize = 5;
/// The kernel reads no more of a script's first line.
const FIRST_LINE_BYTES: u64 = 256;

/// The file that a shell would execute for this name.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let candidates = candidates(name);
    if let Some(path) = candidates
        .iter()
        .find(|path| path.is_file() && system::is_executable(path))
    {
        return Ok(path.clone());
    }
    match candidates.iter().find(|path| path.exists()) {
        Some(path) => Err(not_executable(path)),
        None => Err(not_found(name)),
    }
}

/// Fails when the library cannot come into the program, as far as that can be seen from the files.
pub fn check_can_preload(program: &Path, library: &Path) -> Result<()> {
    let Some(library_image) = Image::read(library) else {
        return Err(ToolError::new(
            format!("{} cannot be preloaded", library.display()),
            "it is not a readable ELF shared library",
            "give the path of libvmag.so with --lib",
        ));
    };
    let mut file = program.to_path_buf();
    for _ in 0..INTERPRETERS_MAX {
        match Image::read(&file) {
            Some(image) => return check_image(&file, &image, &library_image),
            None => match interpreter_of(&file)? {
                Some(interpreter) => file = interpreter,
                None => return Ok(()),
            },
        }
    }
    Ok(())
}

fn candidates(name: &OsStr) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    if name.is_empty() {
        return Vec::new();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&path)
        .map(|directory| in_directory(&directory, name))
        .collect()
}

/// An empty entry of PATH means the current directory.
fn in_directory(directory: &Path, name: &OsStr) -> PathBuf {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    directory.join(name)
}

fn not_executable(path: &Path) -> ToolError {
    let why = if path.is_dir() {
        "it is a directory"
    } else {
        "the file is not executable"
    };
    ToolError::new(
        format!("cannot execute {}", path.display()),
        why,
        "name a program, or make the file executable with chmod +x",
    )
    .exit_code(EXIT_NOT_EXECUTABLE)
}

fn not_found(name: &OsStr) -> ToolError {
    let why = if name.as_bytes().contains(&b'/') {
        "there is no such file"
    } else {
        "no directory of PATH has it"
    };
    ToolError::new(
        format!("command not found: {}", Path::new(name).display()),
        why,
        "check the spelling, or give the program's path",
    )
    .exit_code(EXIT_NOT_FOUND)
}

/// The interpreter that the kernel (or, for a file without `#!`, the shell's convention) starts for a script.
fn interpreter_of(script: &Path) -> Result<Option<PathBuf>> {
    let mut head = Vec::new();
    let read = File::open(script).and_then(|file| file.take(FIRST_LINE_BYTES).read_to_end(&mut head));
    if read.is_err() {
        return Ok(None);
    }
    let interpreter = PathBuf::from(OsString::from_vec(interpreter_named(&head).to_vec()));
    if interpreter.exists() {
        return Ok(Some(interpreter));
    }
    Err(ToolError::new(
        format!("cannot execute {}", script.display()),
        format!("its interpreter {} is not there", interpreter.display()),
        "correct the script's first line, or install the interpreter",
    )
    .exit_code(EXIT_NOT_FOUND))
}

fn interpreter_named(head: &[u8]) -> &[u8] {
    let Some(line) = head
        .strip_prefix(b"#!")
        .and_then(|rest| rest.split(|byte| *byte == b'\n').next())
    else {
        return b"/bin/sh";
    };
    let mut words = line
        .split(|byte| b" \t\r".contains(byte))
        .filter(|word| !word.is_empty());
    words.next().unwrap_or(b"/bin/sh")
}

fn check_image(program: &Path, image: &Image, library: &Image) -> Result<()> {
    match objection(program, image, library) {
        None => Ok(()),
        Some((why, next)) => Err(ToolError::new(
            format!("vmag cannot serve {}", program.display()),
            why,
            next,
        )),
    }
}

/// Why the library cannot come into the program, and what helps.
fn objection(program: &Path, image: &Image, library: &Image) -> Option<(String, &'static str)> {
    if (image.machine, image.is_64) != (library.machine, library.is_64) {
        let why = format!(
            "it is a program for {}, the library is for {}",
            image.kind(),
            library.kind()
        );
        return Some((why, "use a libvmag.so built for the program's machine (--lib)"));
    }
    if crate::image::symbol(program, "vmag_root").is_some() {
        let why = "vmag is a part of it already";
        return Some((
            why.to_string(),
            "start it as it is: for a profile with VMAG_CONF=prof:true,prof_final:true,prof_prefix:PREFIX, for a trace with trace:PREFIX",
        ));
    }
    if !image.has_loader {
        let why = "it is statically linked: no dynamic loader runs, so nothing can be preloaded";
        return Some((why.to_string(), "link it dynamically, or link libvmag.a into it"));
    }
    if let Some(gain) = privileges_gained(program) {
        let why = format!("{gain}, and for such programs the dynamic loader ignores LD_PRELOAD");
        return Some((
            why,
            "run it as the user it becomes, or run a copy without these privileges",
        ));
    }
    if image.has_own_malloc {
        let why = "it defines malloc itself, and its own definition comes before any preloaded one";
        return Some((why.to_string(), "build the program without its own malloc"));
    }
    None
}

/// Why the kernel would start this file with more privileges than ours; None when it would not.
fn privileges_gained(program: &Path) -> Option<&'static str> {
    let file = fs::metadata(program).ok()?;
    if !system::privileges_can_grow(program) {
        return None;
    }
    let grows = system::user_id() != 0 && system::has_file_capabilities(program);
    let (user, group) = (system::user_id(), system::group_id());
    identity_gained(file.mode(), (file.uid(), file.gid()), (user, group))
        .or_else(|| grows.then_some("it has file capabilities"))
}

/// Which bit makes somebody else of `runner`, a user and group, when a file of `owner` is executed.
fn identity_gained(mode: u32, owner: (u32, u32), runner: (u32, u32)) -> Option<&'static str> {
    if mode & libc::S_ISUID != 0 && owner.0 != runner.0 {
        return Some("it is setuid");
    }
    let setgid = libc::S_ISGID | libc::S_IXGRP;
    (mode & setgid == setgid && owner.1 != runner.1).then_some("it is setgid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_line_names_the_interpreter() {
        assert_eq!(interpreter_named(b"#!/usr/bin/env python3\nx"), b"/usr/bin/env");
        assert_eq!(interpreter_named(b"#! \t/bin/bash -e"), b"/bin/bash");
        assert_eq!(interpreter_named(b"echo x\n"), b"/bin/sh");
        assert_eq!(interpreter_named(b""), b"/bin/sh");
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/nowhere/interpreter\n").unwrap();
        let error = interpreter_of(&script).unwrap_err();
        assert!(error.why.contains("/nowhere/interpreter"));
        assert_eq!(error.exit_code, EXIT_NOT_FOUND);
    }

    #[test]
    fn finds_programs_as_a_shell_does() {
        assert!(find(OsStr::new("sh")).unwrap().ends_with("sh"));
        assert_eq!(
            find(OsStr::new("no-such-program-here")).unwrap_err().exit_code,
            EXIT_NOT_FOUND
        );
        assert_eq!(find(OsStr::new("/no/such/file")).unwrap_err().exit_code, EXIT_NOT_FOUND);
        assert_eq!(find(OsStr::new("/")).unwrap_err().exit_code, EXIT_NOT_EXECUTABLE);
        assert_eq!(find(OsStr::new("")).unwrap_err().exit_code, EXIT_NOT_FOUND);
    }

    #[test]
    fn a_file_without_the_execute_bit_is_not_executable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plain");
        fs::write(&file, "echo\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find(file.as_os_str()).unwrap_err().exit_code, EXIT_NOT_EXECUTABLE);
    }

    #[test]
    fn setuid_matters_only_where_it_makes_somebody_else() {
        assert!(
            identity_gained(0o4755, (0, 0), (1000, 1000))
                .unwrap()
                .contains("setuid")
        );
        assert_eq!(identity_gained(0o4755, (1000, 0), (1000, 1000)), None);
        assert!(identity_gained(0o2755, (0, 0), (0, 5)).unwrap().contains("setgid"));
        assert_eq!(identity_gained(0o2745, (0, 0), (0, 5)), None);
        assert_eq!(identity_gained(0o0755, (0, 0), (1000, 1000)), None);
    }
}
