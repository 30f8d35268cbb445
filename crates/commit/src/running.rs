//! Which attempts are running on this machine.
//!
//! Whoever removes files younger than a day wants to know whether somebody is writing them. An attempt therefore holds a
//! lock on a small file while it is at work; the system takes the lock away when the process ends, however it ends. Other
//! machines see nothing of it: there the age of files is the only protection, and it is what the guarantee rests on.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// How often a file is made anew that somebody took away before it was locked.
const ANNOUNCEMENTS: u32 = 10;

/// Says, while it lives, that an attempt is running.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
    // Locked.
    _file: File,
}

/// An attempt that is running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningAttempt {
    /// Its batch.
    pub batch: String,
    /// The attempt.
    pub attempt: String,
}

/// Says in `folder` that an attempt at a batch of a table is running. `None` where that cannot be said: it is no reason
/// not to work.
pub fn announce(folder: &Path, table: &str, batch: &str, attempt: &str) -> Option<Running> {
    fs::create_dir_all(folder).ok()?;
    share(folder);
    let path = folder.join(format!("{table}={batch}={attempt}"));
    for _ in 0..ANNOUNCEMENTS {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).ok()?;
        // Who looks at it holds it for a moment; and who took it for a dead process's has removed it.
        file.lock().ok()?;
        readable(&file);
        if is_at(&file, &path) {
            return Some(Running { path, _file: file });
        }
    }
    None
}

/// The attempts at batches of a table, or of any, that are running, as `folder` says it.
pub fn running(folder: &Path, table: Option<&str>) -> Vec<RunningAttempt> {
    let mut running = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let parts: Vec<&str> = name.to_str().unwrap_or_default().split('=').collect();
        let [of, batch, attempt] = parts[..] else { continue };
        if table.is_some_and(|table| table != of) {
            continue;
        }
        // A pipe would be waited for.
        if !entry.metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let locked = match File::open(entry.path()) {
            Ok(file) => file.try_lock_shared().map(|()| file).map_err(|_| ()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            // Somebody else's, who does not let us look.
            Err(_) => Err(()),
        };
        match locked {
            // Left by a process that was killed.
            Ok(_file) => drop(fs::remove_file(entry.path())),
            Err(()) => running.push(RunningAttempt { batch: batch.to_owned(), attempt: attempt.to_owned() }),
        }
    }
    running.sort();
    running
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

/// Everybody may see that it is locked.
fn readable(file: &File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        drop(file.set_permissions(fs::Permissions::from_mode(0o644)));
    }
    #[cfg(not(unix))]
    let _ = file;
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let same = |one: fs::Metadata, other: fs::Metadata| one.dev() == other.dev() && one.ino() == other.ino();
        file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(|(one, other)| same(one, other))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// Everybody on the machine may announce, and remove only what is his own.
fn share(folder: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Whose folder it is has done it already.
        drop(fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)));
    }
    #[cfg(not(unix))]
    let _ = folder;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_running_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("attempts");
        assert!(running(&folder, Some("ns.a")).is_empty());
        let one = announce(&folder, "ns.a", "b1", "x").unwrap();
        let _other = announce(&folder, "ns.ab", "b1", "y").unwrap();
        let expected = RunningAttempt { batch: "b1".to_owned(), attempt: "x".to_owned() };
        assert_eq!(running(&folder, Some("ns.a")), [expected]);
        drop(one);
        assert!(running(&folder, Some("ns.a")).is_empty());
        assert_eq!((running(&folder, Some("ns.ab")).len(), running(&folder, None).len()), (1, 1));
    }

    #[test]
    fn what_a_killed_process_left_is_not_running() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ns.a=b1=x"), "").unwrap();
        fs::write(folder.path().join("something else"), "").unwrap();
        assert!(running(folder.path(), Some("ns.a")).is_empty());
        assert!(!folder.path().join("ns.a=b1=x").exists());
    }

    #[test]
    fn where_nothing_can_be_written_work_goes_on() {
        assert!(announce(Path::new("/dev/null/attempts"), "ns.a", "b1", "x").is_none());
        assert!(running(Path::new("/dev/null/attempts"), None).is_empty());
    }
}
