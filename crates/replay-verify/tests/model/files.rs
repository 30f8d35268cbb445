//! Who writes what: two writers, each with up to two runs of its job, each run with one data file and up to two attempts, each
//! attempt with its manifests. A path is never written twice, so that a file is known by who wrote it.

/// How many writers there are.
pub(crate) const WRITERS: usize = 2;
/// How many runs they have in all.
pub(crate) const RUNS: usize = 4;
/// How many attempts a run has.
pub(crate) const ATTEMPTS: usize = 2;
/// How many files there may be.
pub(crate) const FILES: usize = RUNS + RUNS * ATTEMPTS;

/// The number of a batch.
pub(crate) type Batch = u8;

/// One run of a writer's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Run(u8);

/// One attempt of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) run: Run,
    pub(crate) number: u8,
}

/// A file, by its place among all that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File(usize);

/// Some of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Files(u16);

impl Run {
    pub(crate) fn of(writer: usize, number: u8) -> Self {
        Self(if writer == 0 { number } else { 2 + number })
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..4).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn writer(self) -> usize {
        self.index() / 2
    }

    pub(crate) fn data_file(self) -> File {
        File(self.index())
    }

    /// Which of its writer's it is, counted from one.
    pub(crate) fn number(self) -> usize {
        self.index() % 2 + 1
    }

    pub(crate) fn attempt(self, number: u8) -> Attempt {
        Attempt { run: self, number }
    }
}

impl Attempt {
    pub(crate) fn manifests(self) -> File {
        File(RUNS + self.run.index() * ATTEMPTS + usize::from(self.number))
    }
}

impl File {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..FILES).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        self.0
    }
}

impl Files {
    pub(crate) fn insert(&mut self, file: File) {
        self.0 |= 1 << file.0;
    }

    pub(crate) fn contains(self, file: File) -> bool {
        self.0 & (1 << file.0) != 0
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = File> {
        File::all().filter(move |file| self.contains(*file))
    }
}

impl FromIterator<File> for Files {
    fn from_iter<T: IntoIterator<Item = File>>(files: T) -> Self {
        let mut all = Self::default();
        files.into_iter().for_each(|file| all.insert(file));
        all
    }
}
