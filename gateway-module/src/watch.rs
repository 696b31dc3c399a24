//! Files that the control plane replaces while requests run.
//!
//! One thread looks at all of them. A file that is missing or damaged leaves what was read before in force.

use std::any::Any;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);

/// Reader of a file's text, with what the file held before.
pub type Parse<T> = fn(&[u8], Option<&T>) -> Result<T, String>;

/// Receiver of a sentence about a file that was refused.
pub type Report = fn(&str);

static FAILURES: AtomicU64 = AtomicU64::new(0);

/// Return the number of files that were refused since the last call.
pub fn take_failures() -> u64 {
    // A read alone is cheap for all workers at once.
    if FAILURES.load(Ordering::Relaxed) == 0 { 0 } else { FAILURES.swap(0, Ordering::Relaxed) }
}

/// Identity of a file's content: what a rename, and almost every write in place, changes.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

/// Content of a file, up to date within a fraction of a second.
pub struct Watched<T> {
    path: PathBuf,
    parse: Parse<T>,
    current: RwLock<Arc<T>>,
    seen: Mutex<Stamp>,
}

impl<T: Send + Sync + 'static> Watched<T> {
    /// Read a file, and follow it if asked. All filters that open one path share its content.
    pub fn open(path: &str, parse: Parse<T>, follow: Option<Report>) -> Result<Arc<Self>, String> {
        let key = PathBuf::from(path);
        let mut open = registry().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = open.get(&key).and_then(|entry| entry.as_any.upgrade())
            && let Ok(watched) = shared.downcast::<Watched<T>>()
        {
            return Ok(watched);
        }
        let seen = stamp(&key);
        let current = read(&key, parse, None)?;
        let watched = Arc::new(Watched {
            path: key.clone(),
            parse,
            current: RwLock::new(Arc::new(current)),
            seen: Mutex::new(seen),
        });
        if let Some(report) = follow {
            open.retain(|_, entry| entry.file.strong_count() > 0);
            let shared: Arc<dyn Any + Send + Sync> = watched.clone();
            let file: Arc<dyn File> = watched.clone();
            open.insert(key, Entry { as_any: Arc::downgrade(&shared), file: Arc::downgrade(&file) });
            drop(open);
            start(report)?;
        }
        Ok(watched)
    }

    /// Read what the file holds. The content may be replaced meanwhile, and is freed by the thread.
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// File that the thread can look at.
trait File: Send + Sync {
    fn refresh(&self) -> Result<(), String>;
}

impl<T: Send + Sync + 'static> File for Watched<T> {
    fn refresh(&self) -> Result<(), String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.path);
        if *seen == now {
            return Ok(());
        }
        *seen = now;
        let before = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let after = Arc::new(read(&self.path, self.parse, Some(&before))?);
        // The old content is freed here, not by a worker.
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = after;
        Ok(())
    }
}

fn read<T>(path: &Path, parse: Parse<T>, before: Option<&T>) -> Result<T, String> {
    let text = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let parsed = catch_unwind(AssertUnwindSafe(|| parse(&text, before)));
    parsed
        .unwrap_or_else(|_| Err("the reader failed".into()))
        .map_err(|error| format!("{} is damaged: {error}", path.display()))
}

struct Entry {
    as_any: Weak<dyn Any + Send + Sync>,
    file: Weak<dyn File>,
}

fn registry() -> &'static Mutex<HashMap<PathBuf, Entry>> {
    static OPEN: OnceLock<Mutex<HashMap<PathBuf, Entry>>> = OnceLock::new();
    OPEN.get_or_init(Mutex::default)
}

fn start(report: Report) -> Result<(), String> {
    static ONCE: Once = Once::new();
    let mut started = Ok(());
    ONCE.call_once(|| {
        let thread = std::thread::Builder::new().name("modelplane-files".into());
        let spawned = thread.spawn(move || {
            loop {
                std::thread::sleep(EVERY);
                refresh_all(report);
            }
        });
        started = spawned.map(|_| ()).map_err(|error| format!("cannot start a thread: {error}"));
    });
    started
}

fn refresh_all(report: Report) {
    let files: Vec<Arc<dyn File>> = {
        let open = registry().lock().unwrap_or_else(PoisonError::into_inner);
        open.values().filter_map(|entry| entry.file.upgrade()).collect()
    };
    for file in files {
        if let Err(problem) = file.refresh() {
            FAILURES.fetch_add(1, Ordering::Relaxed);
            report(&format!("{problem}: the content before stays in force"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &[u8], _before: Option<&u64>) -> Result<u64, String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        text.trim().parse().map_err(|_| "not a number".to_string())
    }

    fn replace(path: &Path, text: &str) {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("modelplane-watch-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_damaged_or_missing_file_keeps_what_was_read_before() {
        let path = file("number", "1");
        let watched = Watched::open(path.to_str().unwrap(), number, None).unwrap();
        replace(&path, "2");
        watched.refresh().unwrap();
        assert_eq!(watched.with(|value| *value), 2);
        replace(&path, "two");
        assert!(watched.refresh().unwrap_err().ends_with("is damaged: not a number"));
        watched.refresh().unwrap(); // The same damage counts once.
        fs::remove_file(&path).unwrap();
        assert!(watched.refresh().unwrap_err().starts_with("cannot read "));
        assert_eq!(watched.with(|value| *value), 2);
        replace(&path, "3");
        watched.refresh().unwrap();
        assert_eq!(watched.with(|value| *value), 3);
    }

    #[test]
    fn a_missing_or_damaged_file_cannot_be_opened() {
        assert!(Watched::open("/nonexistent/number", number, None).is_err());
        let path = file("damaged", "x");
        assert!(Watched::open(path.to_str().unwrap(), number, None).is_err());
    }

    #[test]
    fn a_followed_file_is_shared_and_replaced_by_itself() {
        let path = file("followed", "1");
        let open = || Watched::open(path.to_str().unwrap(), number, Some(|_: &str| ())).unwrap();
        let (one, other) = (open(), open());
        assert!(Arc::ptr_eq(&one, &other));
        replace(&path, "2");
        while one.with(|value| *value) != 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
