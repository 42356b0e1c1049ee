//! Bundles: a recording with the names of its functions, to be looked at on another machine.
//!
//! A gzipped tar of three files: `manifest.json` says what it is and lists the program's files with their build ids,
//! `names.json` holds the functions and lines of each return address that had any, and `recording` is the profile, trace
//! or black box as it was. So a bundle is small however large the debug information was, and holds none of the
//! program's code; what had no name may still get one elsewhere, by its build id.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::image::ObjectFile;
use crate::output::destination::{FILES, New, permissions_as};
use crate::output::figures::counted;
use crate::output::plain;
use crate::process::by_told_name;
use crate::profile::Profile;
use crate::recorded::check_replaceable;
use crate::source::spoken;
use crate::symbols::{self, Frame};
use crate::trace::Trace;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const FORMAT: &str = "vmag-bundle-1";
const MANIFEST: &str = "manifest.json";
const NAMES: &str = "names.json";
const RECORDING: &str = "recording";
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a bundle knows of the machine that it was made on.
#[derive(Debug, Default)]
pub struct Known {
    /// Of return addresses that had names, innermost first.
    pub frames: HashMap<u64, Vec<Frame>>,
    /// By the path that was mapped.
    pub files: HashMap<String, ObjectFile>,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    format: String,
    made_by: String,
    /// Of the recording, before it was bundled.
    name: String,
    is_trace: bool,
    /// Of the recording; older bundles do not say.
    #[serde(default)]
    bytes: Option<u64>,
    addresses: usize,
    nameless: usize,
    files: BTreeMap<String, ObjectFile>,
}

/// A bundle that was unpacked to be read: into a file without name, of which nothing is left however we end.
pub struct Unpacked {
    file: File,
    pub known: Known,
}

impl Unpacked {
    pub fn recording(&self) -> PathBuf {
        PathBuf::from(format!("{FILES}/{}", self.file.as_raw_fd()))
    }
}

/// What went into a bundle.
#[derive(Serialize)]
pub struct Told {
    pub addresses: usize,
    pub nameless: usize,
    /// Files that addresses without a name are in.
    pub stripped: Vec<String>,
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.addresses - self.nameless;
        write!(
            out,
            "vmag: bundled with the names of {named} of {}",
            counted(self.addresses as u64, "address")
        )?;
        if self.nameless > 0 && !self.stripped.is_empty() {
            write!(out, "; without symbols: {}", plain(&self.stripped.join(", ")))?;
        }
        Ok(())
    }
}

/// Whether a file is a bundle; `Some(true)`: of a trace. One that is damaged is none of a trace, and who opens it is told why.
pub fn kind(path: &Path) -> Option<bool> {
    begins_as_one(path).then(|| manifest(path).is_ok_and(|manifest| manifest.is_trace))
}

/// Whether it is one, and of what cannot be told.
pub fn is_unreadable(path: &Path) -> bool {
    begins_as_one(path) && manifest(path).is_err()
}

fn begins_as_one(path: &Path) -> bool {
    File::open(path).is_ok_and(is_beginning)
}

/// Other files are gzipped, too.
pub fn is_beginning(mut of: impl Read) -> bool {
    let mut magic = [0; GZIP.len()];
    let mut name = [0; MANIFEST.len()];
    of.read_exact(&mut magic).is_ok()
        && magic == GZIP
        && GzDecoder::new((&magic[..]).chain(of)).read_exact(&mut name).is_ok()
        && name == MANIFEST.as_bytes()
}

/// A few bytes may stand for a thousand times as many: what is unpacked ends after `most`.
fn archive(path: &Path, most: u64) -> io::Result<tar::Archive<io::Take<GzDecoder<BufReader<File>>>>> {
    let unpacked = GzDecoder::new(BufReader::new(File::open(path)?));
    Ok(tar::Archive::new(unpacked.take(most)))
}

/// What the manifest, the names and all together may unpack to. A process has fewer than 2^16 mapped files, each of some hundred bytes here.
const MANIFEST_MOST: u64 = 1 << 26;
const NAMES_MOST: u64 = 1 << 28;
const HEADS_MOST: u64 = 1 << 16;
/// A recording with holes may be packed to a thousandth; of those of older bundles, which do not tell their size, few are to a hundredth.
fn all_most(path: &Path, manifest: &Manifest) -> io::Result<u64> {
    Ok(match manifest.bytes {
        Some(bytes) => bytes.saturating_add(MANIFEST_MOST + NAMES_MOST + HEADS_MOST),
        None => (1 << 26) + fs::metadata(path)?.len().saturating_mul(100),
    })
}

/// It is the first file, so that large ones need not be read for it.
fn manifest(path: &Path) -> io::Result<Manifest> {
    let mut archive = archive(path, MANIFEST_MOST)?;
    let first = archive.entries()?.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    if *first.path()? != *Path::new(MANIFEST) {
        return Err(io::Error::other("it is no bundle"));
    }
    let manifest: Manifest = serde_json::from_reader(BufReader::new(first))?;
    match manifest.format == FORMAT {
        true => Ok(manifest),
        false => Err(io::Error::other(format!(
            "its format is {}, not {FORMAT}",
            manifest.format
        ))),
    }
}

/// Unpacks the recording.
pub fn open(path: &Path) -> Result<Unpacked> {
    unpack(path).map_err(|error| {
        ToolError::new(
            format!("cannot read the bundle {}", spoken(path)),
            error,
            "copy it anew, or make it anew with `vmag export --bundle`",
        )
    })
}

/// What is wrong with the recording in a bundle, by the bundle's name: it has none itself.
pub fn named_by(path: &Path, error: ToolError) -> ToolError {
    ToolError {
        what: format!("cannot read the recording in the bundle {}", spoken(path)),
        ..error
    }
}

fn unpack(path: &Path) -> io::Result<Unpacked> {
    let mut file = tempfile::tempfile()?;
    let known = unpack_to(path, |entry| copy_with_holes(entry, &mut file))?;
    let unpacked = Unpacked { file, known };
    match kind(&unpacked.recording()) {
        Some(_) => Err(io::Error::other("it holds a bundle")),
        None => Ok(unpacked),
    }
}

/// Reads a bundle to its end, and hands on what its recording is.
fn unpack_to(path: &Path, mut recording: impl FnMut(&mut dyn Read) -> io::Result<()>) -> io::Result<Known> {
    let manifest = manifest(path)?;
    let (mut frames, mut has_recording) = (None, false);
    let mut archive = archive(path, all_most(path, &manifest)?)?;
    for entry in archive.entries()? {
        let mut entry = entry?;
        // A link would lead to a file of this machine.
        if !entry.header().entry_type().is_file() {
            return Err(io::Error::other("it holds what is no file"));
        }
        match entry.path()?.to_str() {
            Some(NAMES) => frames = Some(serde_json::from_reader(BufReader::new((&mut entry).take(NAMES_MOST)))?),
            Some(RECORDING) if has_recording => return Err(io::Error::other("it holds two recordings")),
            Some(RECORDING) => {
                recording(&mut entry)?;
                has_recording = true;
            }
            _ => {}
        }
    }
    // To the end, where the checksum of all is.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink())?;
    if rest.limit() == 0 {
        return Err(io::Error::other("it would unpack to more than a recording has"));
    }
    match (frames, has_recording) {
        (Some(frames), true) => Ok(Known {
            frames,
            files: manifest.files.into_iter().collect(),
        }),
        _ => Err(io::Error::other("it is cut off")),
    }
}

/// What is zero takes no room on the disk: the file of a trace is mostly holes when little of it was used.
fn copy_with_holes(from: &mut dyn Read, to: &mut File) -> io::Result<()> {
    const BLOCK: usize = 1 << 16;
    let mut block = Vec::with_capacity(BLOCK);
    let mut bytes = 0;
    loop {
        block.clear();
        from.take(BLOCK as u64).read_to_end(&mut block)?;
        match block.iter().all(|byte| *byte == 0) {
            true => drop(to.seek(SeekFrom::Current(block.len() as i64))?),
            false => to.write_all(&block)?,
        }
        bytes += block.len() as u64;
        if block.len() < BLOCK {
            return to.set_len(bytes);
        }
    }
}

/// Bundles a recording with what this machine knows of its addresses. `to` may be the recording itself.
pub fn make(recording: &Path, to: &Path) -> Result<Told> {
    if kind(recording).is_some() {
        return Err(ToolError::new(
            format!("{} is a bundle already", recording.display()),
            "it holds its names",
            "name the profile or trace that it was made of, or use it as it is",
        ));
    }
    let is_trace = Trace::is_one(recording);
    let profile = match is_trace {
        true => profile_of_trace(recording)?,
        false => Profile::read(recording)?,
    };
    let addresses: HashSet<u64> = profile.stacks.iter().flatten().copied().collect();
    let (known, stripped) = gather(&addresses, &profile);
    let nameless = addresses.len() - known.frames.len();
    // What came through a pipe, or was read of a process, has none.
    let named = if recording.starts_with(FILES) { to } else { recording };
    let manifest = Manifest {
        format: FORMAT.to_string(),
        made_by: format!("vmag {}", env!("CARGO_PKG_VERSION")),
        name: named
            .file_name()
            .map_or(String::new(), |name| name.to_string_lossy().into()),
        is_trace,
        // It may grow meanwhile.
        bytes: fs::metadata(recording).ok().map(|about| about.len()),
        addresses: addresses.len(),
        nameless,
        files: known.files.into_iter().collect(),
    };
    write(recording, to, &manifest, &known.frames).map_err(|error| {
        ToolError::new(
            format!("cannot write the bundle {}", to.display()),
            error,
            "name a file that can be written",
        )
    })?;
    Ok(Told {
        addresses: addresses.len(),
        nameless,
        stripped,
    })
}

/// What names are found by.
fn profile_of_trace(path: &Path) -> Result<Profile> {
    let facts = Trace::open(path)?.facts;
    Ok(Profile {
        stacks: facts.stacks,
        mappings: facts.mappings,
        ..Profile::default()
    })
}

/// And the files that addresses without a name are in: stripped, not there any more, or other builds now.
fn gather(addresses: &HashSet<u64>, profile: &Profile) -> (Known, Vec<String>) {
    let mut frames = symbols::name_addresses(profile, addresses.clone());
    frames.retain(|_, frames| !frames.iter().any(Frame::is_nameless));
    let places = profile.places();
    let path_of = |address: &u64| Some(places.locate(address.saturating_sub(1))?.0.path.as_str());
    let used: BTreeSet<&str> = addresses.iter().filter_map(path_of).collect();
    let read = |path: &str| ObjectFile::read(&by_told_name(path)).filter(|_| !profile.is_replaced(path));
    let files = used
        .iter()
        .filter_map(|path| Some((path.to_string(), read(path)?)))
        .collect();
    let nameless = addresses.iter().filter(|address| !frames.contains_key(address));
    let nameless_in: BTreeSet<&str> = nameless.filter_map(path_of).collect();
    let stripped = nameless_in.into_iter().map(str::to_string).collect();
    (Known { frames, files }, stripped)
}

fn write(recording: &Path, to: &Path, manifest: &Manifest, frames: &HashMap<u64, Vec<Frame>>) -> io::Result<()> {
    check_replaceable(to)?;
    // As of any file that is written, not of a temporary one.
    let permissions = permissions_as(recording)?;
    let mut new = New::beside(to)?;
    let mut archive = tar::Builder::new(GzEncoder::new(io::BufWriter::new(&new.file), Compression::fast()));
    add(&mut archive, MANIFEST, &serde_json::to_vec_pretty(manifest)?)?;
    add(&mut archive, NAMES, &serde_json::to_vec(frames)?)?;
    let file = File::open(recording)?;
    let bytes = manifest
        .bytes
        .map_or_else(|| file.metadata().map(|about| about.len()), Ok)?;
    archive.append_data(&mut head(bytes), RECORDING, file.take(bytes))?;
    archive.into_inner()?.finish()?.flush()?;
    // It may replace the recording, which nobody could make again.
    unpack_to(&new.own_path(), |entry| io::copy(entry, &mut io::sink()).map(drop))?;
    new.take_place(to, Some(permissions))
}

fn head(bytes: u64) -> tar::Header {
    let mut head = tar::Header::new_gnu();
    head.set_size(bytes);
    head.set_mode(0o644);
    head
}

fn add(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut head(bytes.len() as u64), name, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::HeapView;
    use std::os::unix::fs::PermissionsExt;

    /// A profile of this very program, as if taken in the function `address`.
    fn recording(folder: &Path) -> PathBuf {
        let program = std::env::current_exe().unwrap();
        let file = ObjectFile::read(&program).unwrap();
        let code = crate::image::symbol(&program, "main").unwrap() + 1;
        let holds =
            |segment: &&crate::image::Segment| (segment.address..segment.address + segment.size).contains(&code);
        let segment = file.segments.iter().find(holds).unwrap();
        let offset = code - segment.address + segment.offset;
        let path = folder.join("p.heap");
        let text = format!(
            "heap_v2/1\n@ 0x{0:x} 0x10\n\nMAPPED_LIBRARIES:\n100000000-200000000 r-xp 0 00:01 1 {1}\n\n\
             VMAG_PROFILE:\nlg_sample=0 pid=7\n1 1 0 64 0 2 2\n",
            0x1_0000_0001u64 + offset,
            program.display()
        );
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn names_travel_with_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        let direct = HeapView::new(Profile::read(&recording).unwrap());
        let bundle = folder.path().join("p.bundle");
        assert_eq!(kind(&recording), None);
        let told = make(&recording, &bundle).unwrap();
        assert_eq!((told.addresses, told.nameless), (2, 1));
        assert!(!told.to_string().contains("without symbols"), "{told}");
        assert_eq!(kind(&bundle), Some(false));
        let mut profile = Profile::read(&bundle).unwrap();
        // Elsewhere the program's file is not there.
        profile.mappings[0].path = "/nowhere".to_string();
        let bundled = HeapView::new(profile);
        assert_eq!(bundled.named.stacks, direct.named.stacks);
        assert!(make(&bundle, &bundle).is_err());
        fs::set_permissions(&recording, fs::Permissions::from_mode(0o640)).unwrap();
        make(&recording, &recording).unwrap();
        assert_eq!(kind(&recording), Some(false));
        assert_eq!(fs::metadata(&recording).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn who_may_not_read_the_recording_may_not_read_the_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        if !crate::system::set_access_list(&recording) {
            return; // the file system has none
        }
        let bundle = folder.path().join("p.bundle");
        make(&recording, &bundle).unwrap();
        assert_eq!(fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn files_that_are_gone_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        let program = std::env::current_exe().unwrap();
        let text = fs::read_to_string(&recording).unwrap();
        fs::write(&recording, text.replace(program.to_str().unwrap(), "/nowhere/program")).unwrap();
        let told = make(&recording, &folder.path().join("p.bundle")).unwrap();
        assert_eq!((told.addresses, told.nameless), (2, 2));
        assert!(
            told.to_string().ends_with("; without symbols: /nowhere/program"),
            "{told}"
        );
    }

    /// A bundle whose recording is what `add` puts in.
    fn made_up(to: &Path, add_recording: impl FnOnce(&mut tar::Builder<GzEncoder<File>>)) {
        let mut archive = tar::Builder::new(GzEncoder::new(File::create(to).unwrap(), Compression::fast()));
        let manifest = r#"{"format":"vmag-bundle-1","made_by":"","name":"","is_trace":false,"addresses":0,"nameless":0,"files":{}}"#;
        add(&mut archive, MANIFEST, manifest.as_bytes()).unwrap();
        add(&mut archive, NAMES, b"{}").unwrap();
        add_recording(&mut archive);
        archive.into_inner().unwrap().finish().unwrap();
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, outer) = (folder.path().join("inner"), folder.path().join("outer"));
        let why = |path: &Path| Profile::read(path).unwrap_err().why;
        made_up(&inner, |archive| {
            let mut head = head(0);
            head.set_entry_type(tar::EntryType::Symlink);
            archive.append_link(&mut head, RECORDING, "/etc/passwd").unwrap();
        });
        assert!(why(&inner).contains("no file"));
        made_up(&inner, |archive| add(archive, RECORDING, b"heap_v2/no\n").unwrap());
        let what = Profile::read(&inner).unwrap_err().what;
        assert!(what.contains("the bundle") && what.ends_with("/inner"), "{what}");
        made_up(&inner, |archive| add(archive, RECORDING, b"heap_v2/524288\n").unwrap());
        assert!(Profile::read(&inner).is_ok());
        made_up(&outer, |archive| {
            add(archive, RECORDING, &fs::read(&inner).unwrap()).unwrap()
        });
        assert!(why(&outer).contains("holds a bundle"));
    }

    #[test]
    fn what_unpacks_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bomb = folder.path().join("bomb");
        made_up(&bomb, |archive| {
            let zeros = 1 << 27;
            archive
                .append_data(&mut head(zeros), RECORDING, io::repeat(0).take(zeros))
                .unwrap();
        });
        assert!(all_most(&bomb, &manifest(&bomb).unwrap()).unwrap() < 1 << 27);
        assert!(Profile::read(&bomb).is_err());
    }

    fn empty_manifest(bytes: u64) -> Manifest {
        Manifest {
            format: FORMAT.to_string(),
            made_by: String::new(),
            name: String::new(),
            is_trace: false,
            bytes: Some(bytes),
            addresses: 0,
            nameless: 0,
            files: BTreeMap::new(),
        }
    }

    /// As of a trace that was given more room than it used.
    #[test]
    fn holes_may_pack_to_nothing() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        let bytes = 80 << 20;
        let file = File::options().write(true).open(&recording).unwrap();
        file.set_len(bytes).unwrap();
        let bundle = folder.path().join("p.bundle");
        write(&recording, &bundle, &empty_manifest(bytes), &HashMap::new()).unwrap();
        let unpacked = open(&bundle).unwrap();
        let about = fs::metadata(unpacked.recording()).unwrap();
        assert_eq!(about.len(), bytes);
        assert!(about.blocks() * 512 < 1 << 20, "{}", about.blocks());
        // Whoever ends us now leaves none of it behind.
        assert_eq!(about.nlink(), 0);
    }

    #[test]
    fn what_cannot_be_read_again_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        let before = fs::read(&recording).unwrap();
        // The file was cut short meanwhile.
        let manifest = empty_manifest(before.len() as u64 + 4096);
        assert!(write(&recording, &recording, &manifest, &HashMap::new()).is_err());
        assert_eq!(fs::read(&recording).unwrap(), before);
    }

    #[test]
    fn a_program_may_have_thousands_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        let mut manifest = empty_manifest(fs::metadata(&recording).unwrap().len());
        let file = ObjectFile::read(&std::env::current_exe().unwrap()).unwrap();
        let name = |number| format!("/opt/application/lib/plugins/lib{number:0200}.so");
        manifest.files = (0..3000).map(|number| (name(number), file.clone())).collect();
        let bundle = folder.path().join("p.bundle");
        write(&recording, &bundle, &manifest, &HashMap::new()).unwrap();
        assert_eq!(open(&bundle).unwrap().known.files.len(), 3000);
    }

    #[test]
    fn a_damaged_bundle_is_told_from_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        let mut archive = tar::Builder::new(GzEncoder::new(File::create(&path).unwrap(), Compression::fast()));
        add(&mut archive, MANIFEST, b"{}").unwrap();
        archive.into_inner().unwrap().finish().unwrap();
        let error = Profile::read(&path).unwrap_err();
        assert!(error.what.contains("cannot read the bundle"), "{error}");
        let error = Trace::open(&path).err().unwrap();
        assert!(error.why.contains("a bundle that cannot be read"), "{error}");
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(folder.path());
        make(&recording, &recording).unwrap();
        let bytes = fs::read(&recording).unwrap();
        for length in [2, bytes.len() / 2, bytes.len() - 9] {
            fs::write(&recording, &bytes[..length]).unwrap();
            assert!(Profile::read(&recording).is_err(), "{length}");
        }
    }
}
