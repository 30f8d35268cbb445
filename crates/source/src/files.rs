//! The files of a source: finding them, recognising them again, and hashing them.
//!
//! A file is opened whenever it is needed and closed soon after, so a source of ten thousand files does not need ten thousand
//! descriptors. Each time, the open file is compared with what was found first (device, inode, size, time of modification): a
//! path that leads to another file by then is an error, and two files are never mixed. All reads are positioned, so handles
//! have no offset that threads could share.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hexfloe_batch::{FileFact, Sha256Hex};
use sha2::{Digest, Sha256};

use crate::companions;
use crate::error::Error;
use crate::remote::{self, Copied, RemoteFile, Remotes};
use crate::settings::Format;

/// How much is read at a time when a file is read from end to end.
pub(crate) const CHUNK: usize = 256 * 1024;

/// How patterns are matched, here and in stores: `*` passes over no folder, and no file whose name begins with a dot is matched.
pub(crate) const PATTERNS: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// One file of a source.
#[derive(Clone, Debug)]
pub struct InputFile {
    name: Arc<str>,
    path: PathBuf,
    identity: Identity,
    digest: Arc<OnceLock<Sha256Hex>>,
    companions: Arc<[InputFile]>,
    /// Where it was copied from, if it is a copy.
    origin: Option<Arc<RemoteFile>>,
}

/// What tells a file from the one that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    fn difference(self, now: Self) -> Option<&'static str> {
        if self == now {
            None
        } else if (self.device, self.inode) != (now.device, now.inode) {
            Some("another file is in its place")
        } else if self.size != now.size {
            Some("its size is another")
        } else {
            Some("it was modified")
        }
    }
}

impl InputFile {
    /// The path relative to the job file, with `/` between its parts; for a file outside of that folder, the path as the job
    /// gives it; for one across the network, its URL without query and credentials. This is the path that is part of the batch id.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.name
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// The files that belong to this one, such as the `.dbf` of a shapefile, by name.
    #[must_use]
    pub fn companions(&self) -> &[InputFile] {
        &self.companions
    }

    /// The companion with this extension.
    pub(crate) fn companion(&self, extension: &str) -> Option<&InputFile> {
        self.companions.iter().find(|companion| companions::has_extension(&companion.path, extension))
    }

    /// This file and its companions.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &InputFile> {
        std::iter::once(self).chain(self.companions.iter())
    }

    /// Where it lies, for libraries that open files themselves.
    pub(crate) fn location(&self) -> &Path {
        &self.path
    }

    /// A file by itself, under the name that its path gives it.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        inspect(&path.display().to_string(), path, Path::new(""))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Opens the file, if it is still the one that was found.
    pub(crate) fn open(&self) -> Result<File, Error> {
        let file = File::open(&self.path).map_err(Error::io(&self.name, "open"))?;
        let metadata = file.metadata().map_err(Error::io(&self.name, "look at"))?;
        self.same(&metadata)?;
        Ok(file)
    }

    /// Checks the file and its companions.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        self.parts().try_for_each(Self::check_this)
    }

    fn check_this(&self) -> Result<(), Error> {
        if let Some(origin) = &self.origin {
            origin.check_unchanged(&self.name)?;
        }
        match fs::metadata(&self.path) {
            Ok(metadata) => self.same(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.changed("it is gone")),
            Err(error) => Err(Error::io(&self.name, "look at")(error)),
        }
    }

    fn same(&self, metadata: &Metadata) -> Result<(), Error> {
        match self.identity.difference(Identity::of(metadata)) {
            None => Ok(()),
            Some(what) => Err(self.changed(what)),
        }
    }

    fn changed(&self, what: &'static str) -> Error {
        Error::Changed { file: self.name.to_string(), what }
    }

    /// The path, size and hash of the content. The bytes are read the first time only.
    pub(crate) fn fact(&self, on_bytes: &(dyn Fn(u64) + Sync)) -> Result<FileFact, Error> {
        let sha256 = match self.digest.get() {
            Some(digest) => {
                on_bytes(self.size());
                *digest
            }
            None => {
                let digest = self.hash(on_bytes)?;
                *self.digest.get_or_init(|| digest)
            }
        };
        Ok(FileFact { path: self.name.to_string(), size: self.size(), sha256 })
    }

    fn hash(&self, on_bytes: &(dyn Fn(u64) + Sync)) -> Result<Sha256Hex, Error> {
        let mut reader = Sequential::new(self)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            on_bytes(read as u64);
        }
        Ok(Sha256Hex::from_digest(hasher.finalize().into()))
    }
}

/// A file read from its beginning to the end it had when it was found.
pub(crate) struct Sequential {
    input: InputFile,
    file: File,
    position: u64,
}

impl Sequential {
    pub(crate) fn new(input: &InputFile) -> Result<Self, Error> {
        Ok(Self { input: input.clone(), file: input.open()?, position: 0 })
    }

    /// Passes over `bytes`, of which the file has as many.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.position = self.position.saturating_add(bytes).min(self.input.size());
    }

    /// Fills `buffer` as far as the file goes; less than the whole buffer means that the end has been reached.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let left = usize::try_from(self.input.size() - self.position).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let mut filled = 0;
        while filled < wanted {
            match self.file.read_at(&mut buffer[filled..wanted], self.position) {
                Ok(0) => return Err(self.input.changed("it is shorter than it was")),
                Ok(read) => {
                    filled += read;
                    self.position += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.input.name, "read")(error)),
            }
        }
        Ok(filled)
    }
}

impl TryFrom<Copied> for InputFile {
    type Error = Error;

    fn try_from(copied: Copied) -> Result<Self, Error> {
        let Copied { name, path, digest, origin } = copied;
        let metadata = fs::metadata(&path).map_err(Error::io(&name, "look at the copy of"))?;
        Ok(Self {
            name: name.into(),
            path,
            identity: Identity::of(&metadata),
            digest: Arc::new(OnceLock::from(digest)),
            companions: Arc::new([]),
            origin: Some(Arc::new(origin)),
        })
    }
}

/// Finds the files of a format that `patterns` mean, relative to `base`: sorted by name, each once, with its companions. Those that
/// are URLs are copied.
pub(crate) fn find(
    patterns: &[String],
    base: &Path,
    format: Format,
    remotes: Option<&Remotes>,
) -> Result<Vec<InputFile>, Error> {
    if patterns.is_empty() {
        return Err(Error::setting("source.paths", "no paths: name at least one file or pattern"));
    }
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    // Keyed by where the path really leads: one file behind two names (a link, two patterns) is read once, by the lesser name.
    let mut found: BTreeMap<PathBuf, InputFile> = BTreeMap::new();
    let (urls, patterns): (Vec<&str>, Vec<&str>) =
        patterns.iter().map(String::as_str).partition(|pattern| remote::is_url(pattern));
    for pattern in patterns {
        for path in matches(pattern, base, format)? {
            let mut file = inspect(pattern, &path, base)?;
            let beside = companions::of(format, &path).map_err(Error::io(&file.name, "look beside"))?;
            let beside = beside.iter().map(|path| inspect(pattern, path, base)).collect::<Result<Vec<_>, _>>()?;
            file.companions = beside.into();
            let real = fs::canonicalize(&path).map_err(Error::io(&file.name, "look at"))?;
            match found.get(&real) {
                Some(known) if known.name <= file.name => {}
                _ => {
                    found.insert(real, file);
                }
            }
        }
    }
    let mut files: Vec<InputFile> = found.into_values().collect();
    if let Some(first) = urls.first() {
        let Some(remotes) = remotes else {
            let path = first.split(['?', '#']).next().unwrap_or_default().to_owned();
            let problem = "is a URL: only local files can be read here, so fetch it first".to_owned();
            return Err(Error::Path { path, problem });
        };
        // The parts of a shapefile are several files, of which a URL names one.
        if let Some(url) =
            urls.iter().find(|url| format == Format::Shapefile && !url.to_ascii_lowercase().contains(".zip"))
        {
            let path = url.split(['?', '#']).next().unwrap_or_default().to_owned();
            let problem = "is one of several files: across the network, a shapefile has to be a zip archive".to_owned();
            return Err(Error::Path { path, problem });
        }
        let copies = remote::fetch(&urls, remotes)?.into_iter();
        files.extend(copies.map(InputFile::try_from).collect::<Result<Vec<_>, _>>()?);
    }
    files.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    Ok(files)
}

/// The paths that one pattern means.
fn matches(pattern: &str, base: &Path, format: Format) -> Result<Vec<PathBuf>, Error> {
    let refuse = |problem: String| Error::Path { path: pattern.to_owned(), problem };
    if pattern.is_empty() {
        return Err(refuse("is empty: name a file or a pattern".to_owned()));
    }
    let literal = base.join(pattern);
    if literal.is_dir()
        && let Some(paths) = companions::in_folder(format, &literal)
    {
        let paths = paths.map_err(Error::io(pattern, "list"))?;
        if paths.is_empty() {
            return Err(refuse(format!("is a folder without a {format}: check whether the input has arrived")));
        }
        return Ok(paths);
    }
    if literal.exists() || !pattern.contains(['*', '?', '[']) {
        return Ok(vec![literal]);
    }
    let base = base.to_str().ok_or_else(|| refuse("is relative to a folder whose name is not UTF-8".to_owned()))?;
    let full = if Path::new(pattern).is_absolute() {
        pattern.to_owned()
    } else {
        format!("{}/{pattern}", glob::Pattern::escape(base))
    };
    let entries =
        glob::glob_with(&full, PATTERNS).map_err(|error| refuse(format!("is not a pattern: {}", error.msg)))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| {
            let file = error.path().display().to_string();
            Error::io(&file, "list")(error.into())
        })?;
        // `**` and `*` match folders too. What is no folder and no file (a socket, a dangling link) is refused later.
        if !path.is_dir() && companions::is_input(format, &path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(refuse("matches no file: check the pattern, and whether the input has arrived".to_owned()));
    }
    Ok(paths)
}

fn inspect(pattern: &str, path: &Path, base: &Path) -> Result<InputFile, Error> {
    let name = name(pattern, path, base)?;
    let refuse = |problem: &str| Error::Path { path: name.clone(), problem: problem.to_owned() };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(refuse("does not exist: check the path, and whether the input has arrived"));
        }
        Err(error) => return Err(Error::io(&name, "look at")(error)),
    };
    if metadata.is_dir() {
        return Err(refuse("is a folder: name the files in it with a pattern, for example by adding `/*`"));
    }
    if !metadata.is_file() {
        return Err(refuse("is not a regular file: its content cannot be read twice"));
    }
    Ok(InputFile {
        name: name.into(),
        path: path.to_owned(),
        identity: Identity::of(&metadata),
        digest: Arc::new(OnceLock::new()),
        companions: Arc::new([]),
        origin: None,
    })
}

/// The name of a file in messages and in the batch id. It must not depend on the folder the program runs in.
fn name(pattern: &str, path: &Path, base: &Path) -> Result<String, Error> {
    let inside = match path.strip_prefix(base) {
        Ok(relative) => Some(relative.to_owned()),
        // An absolute pattern under a relative base, or the other way round.
        Err(_) => match (fs::canonicalize(base), path.parent().map(fs::canonicalize), path.file_name()) {
            (Ok(base), Some(Ok(folder)), Some(file)) => folder.strip_prefix(base).ok().map(|folder| folder.join(file)),
            _ => None,
        },
    };
    let relative = inside.as_deref().unwrap_or(path);
    let mut parts: Vec<&str> = Vec::new();
    for component in relative.components() {
        let part = match component {
            Component::CurDir => continue,
            Component::RootDir => "",
            Component::ParentDir if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                parts.pop();
                continue;
            }
            other => other.as_os_str().to_str().ok_or_else(|| Error::Path {
                path: pattern.to_owned(),
                problem: format!("leads to {path:?}, whose name is not UTF-8: rename it"),
            })?,
        };
        parts.push(part);
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use rstest::rstest;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};
    use tempfile::TempDir;

    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        for name in ["b.csv", "a.csv", "a10.csv", "a2.csv", ".hidden.csv", "sub/c.csv", "sub/deep/d.csv", "odd[1].csv"]
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        folder
    }

    fn names(patterns: &[&str], base: &Path) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        find(&patterns, base, Format::Csv, None).unwrap().iter().map(|file| file.path().to_owned()).collect()
    }

    #[rstest]
    #[case(&["*.csv"], &["a.csv", "a10.csv", "a2.csv", "b.csv", "odd[1].csv"])]
    #[case(&["b.csv", "a.csv"], &["a.csv", "b.csv"])]
    #[case(&["a*.csv", "./a.csv", "*.csv"], &["a.csv", "a10.csv", "a2.csv", "b.csv", "odd[1].csv"])]
    #[case(&["**/*.csv"], &["a.csv", "a10.csv", "a2.csv", "b.csv", "odd[1].csv", "sub/c.csv", "sub/deep/d.csv"])]
    #[case(&["sub/*"], &["sub/c.csv"])]
    #[case(&["odd[1].csv"], &["odd[1].csv"])]
    #[case(&["sub/../a.csv"], &["a.csv"])]
    #[case(&[".hidden.csv"], &[".hidden.csv"])]
    #[case(&["a?.csv"], &["a2.csv"])]
    fn patterns_become_sorted_names_each_once(#[case] patterns: &[&str], #[case] expected: &[&str]) {
        assert_eq!(names(patterns, folder().path()), expected);
    }

    #[test]
    fn a_base_with_pattern_characters_is_taken_literally() {
        let outer = TempDir::new().unwrap();
        let base = outer.path().join("run[1]*");
        fs::create_dir(&base).unwrap();
        fs::write(base.join("a.csv"), "x").unwrap();
        assert_eq!(names(&["*.csv"], &base), ["a.csv"]);
    }

    #[test]
    fn a_file_outside_the_base_keeps_the_path_of_the_job() {
        let folder = folder();
        assert_eq!(names(&["../a.csv"], &folder.path().join("sub")), ["../a.csv"]);
        let absolute = folder.path().join("a.csv");
        let absolute = absolute.to_str().unwrap();
        assert_eq!(names(&[absolute], &folder.path().join("sub")), [absolute]);
    }

    #[test]
    fn an_absolute_path_inside_the_base_is_the_same_file_as_a_relative_one() {
        let folder = folder();
        let absolute = folder.path().join("a.csv");
        assert_eq!(names(&[absolute.to_str().unwrap(), "a.csv"], folder.path()), ["a.csv"]);
    }

    #[test]
    fn a_link_to_a_file_that_is_named_too_is_read_once() {
        let folder = folder();
        symlink(folder.path().join("b.csv"), folder.path().join("0.csv")).unwrap();
        assert_eq!(names(&["b.csv", "0.csv"], folder.path()), ["0.csv"]);
    }

    #[rstest]
    #[case("none.csv", "does not exist")]
    #[case("none/none.csv", "does not exist")]
    #[case("b.csv/none.csv", "does not exist")]
    #[case("*.parquet", "matches no file")]
    #[case("sub", "is a folder")]
    #[case("s*b", "matches no file")]
    #[case(".hid*", "matches no file")]
    #[case("/dev/null", "is not a regular file")]
    #[case("s3://bucket/a.csv", "is a URL")]
    #[case("", "is empty")]
    #[case("a[", "does not exist")]
    fn what_cannot_be_read_is_refused_by_name(#[case] path: &str, #[case] problem: &str) {
        let folder = folder();
        let error = find(&[path.to_owned()], folder.path(), Format::Csv, None).unwrap_err();
        if path == "a[" {
            assert!(error.to_string().contains("is not a pattern"), "{error}");
        } else {
            assert!(error.to_string().contains(problem), "{error}");
        }
        assert!(error.to_string().contains(path));
        assert_eq!(error.kind(), ErrorKind::Input);
    }

    #[test]
    fn no_paths_at_all_is_a_configuration_error() {
        assert_eq!(find(&[], Path::new("."), Format::Csv, None).unwrap_err().kind(), ErrorKind::Configuration);
    }

    fn one(folder: &TempDir) -> InputFile {
        find(&["a.csv".to_owned()], folder.path(), Format::Csv, None).unwrap().remove(0)
    }

    #[test]
    fn the_fact_of_a_file_is_its_name_size_and_hash() {
        let folder = folder();
        let file = one(&folder);
        let fact = file.fact(&|_| {}).unwrap();
        assert_eq!((fact.path.as_str(), fact.size), ("a.csv", 5));
        assert_eq!(fact.sha256, Sha256Hex::of(b"a.csv"));
    }

    #[test]
    fn the_bytes_of_a_file_are_hashed_once() {
        let folder = folder();
        let file = one(&folder);
        let fact = file.fact(&|_| {}).unwrap();
        fs::remove_file(folder.path().join("a.csv")).unwrap();
        assert_eq!(file.fact(&|_| {}).unwrap().sha256, fact.sha256);
    }

    #[rstest]
    #[case::replaced(|path: &Path| { fs::write(path.with_extension("new"), "a.csv").unwrap(); fs::rename(path.with_extension("new"), path).unwrap(); }, "another file is in its place")]
    #[case::grown(|path: &Path| fs::write(path, "a.csv and more").unwrap(), "its size is another")]
    #[case::touched(|path: &Path| File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap(), "it was modified")]
    #[case::removed(|path: &Path| fs::remove_file(path).unwrap(), "it is gone")]
    fn a_file_that_changes_is_noticed(#[case] change: fn(&Path), #[case] what: &str) {
        let folder = folder();
        let file = one(&folder);
        file.check_unchanged().unwrap();
        change(&folder.path().join("a.csv"));
        let error = file.check_unchanged().unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.to_string().contains("a.csv changed while being read"), "{error}");
        assert!(file.open().is_err());
    }

    #[test]
    fn a_file_that_shrinks_under_the_reader_is_an_error_and_not_a_short_read() {
        let folder = folder();
        let mut reader = Sequential::new(&one(&folder)).unwrap();
        fs::write(folder.path().join("a.csv"), "a").unwrap();
        let error = reader.read(&mut [0; 64]).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
    }
}
