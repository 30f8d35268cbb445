//! The systems that are known: what `data/make.py` has made of the EPSG and ESRI registries, and measured.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A line of `data/systems.tsv.zst`.
#[derive(Debug)]
pub(crate) struct System {
    /// Such as `EPSG:27700`.
    pub(crate) code: &'static str,
    pub(crate) name: &'static str,
    pub(crate) standing: Standing,
    line: usize,
}

/// What can be done with a system.
#[derive(Debug, PartialEq)]
pub(crate) enum Standing {
    /// It can be brought to longitude and latitude.
    Done { operation: &'static str, accuracy_m: &'static str, reach: Reach },
    /// It cannot, for this reason.
    Refused(&'static str),
    /// It is deprecated; these codes replace it, if there are any.
    Deprecated(&'static str),
    /// Its points lie where those of this code do.
    Same(&'static str),
}

/// Where on WGS 84 the results of a system are believed: its area of use and a margin, in degrees. `west` is larger than `east` across
/// the antimeridian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

impl Reach {
    pub(crate) fn holds(&self, [lon, lat]: [f64; 2]) -> bool {
        let across = if self.west <= self.east {
            self.west <= lon && lon <= self.east
        } else {
            lon >= self.west || lon <= self.east
        };
        across && self.south <= lat && lat <= self.north
    }

    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(',').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { west: next()?, south: next()?, east: next()?, north: next()? })
    }
}

/// Empty if the file is damaged, which a test would tell.
fn unpacked(packed: &[u8]) -> String {
    zstd::decode_all(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

static TEXT: LazyLock<String> = LazyLock::new(|| unpacked(include_bytes!("../data/systems.tsv.zst")));
static PROJJSON: LazyLock<String> = LazyLock::new(|| unpacked(include_bytes!("../data/projjson.zst")));
static PROJJSON_LINES: LazyLock<Vec<&'static str>> = LazyLock::new(|| PROJJSON.split('\n').collect());
static KNOWN: LazyLock<Known> = LazyLock::new(Known::read);

#[derive(Default)]
struct Known {
    systems: Vec<System>,
    by_code: HashMap<&'static str, usize>,
    /// `None` where one text stands for systems that are not done alike.
    by_hash: HashMap<&'static str, Option<usize>>,
}

impl Known {
    fn read() -> Self {
        let mut known = Self::default();
        for (line, text) in TEXT.split('\n').enumerate() {
            if let Some((system, hashes)) = read(line, text) {
                known.add(system, hashes);
            }
        }
        known
    }

    fn add(&mut self, system: System, hashes: &'static str) {
        let number = self.systems.len();
        self.by_code.insert(system.code, number);
        for hash in hashes.split_whitespace() {
            let alike = |other: usize| {
                self.systems.get(other).is_some_and(|other| other.standing.is_done_like(&system.standing))
            };
            self.by_hash
                .entry(hash)
                .and_modify(|known| *known = known.filter(|other| alike(*other)))
                .or_insert(Some(number));
        }
        self.systems.push(system);
    }
}

impl Standing {
    fn is_done_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Done { operation, .. }, Self::Done { operation: other, .. }) => operation == other,
            (Self::Refused(_), Self::Refused(_)) => true,
            _ => false,
        }
    }
}

fn read(line: usize, text: &'static str) -> Option<(System, &'static str)> {
    let mut fields = text.split('\t');
    let (code, name, kind, what) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let (accuracy_m, reach, hashes) = (fields.next()?, fields.next()?, fields.next()?);
    let standing = match kind {
        "ok" => Standing::Done { operation: what, accuracy_m, reach: Reach::read(reach)? },
        "no" => Standing::Refused(what),
        "old" => Standing::Deprecated(what),
        _ => Standing::Same(what),
    };
    Some((System { code, name, standing, line }, hashes))
}

/// The codes, such as `EPSG:27700`, of the systems that can be brought to longitude and latitude, in the order of the table.
pub fn supported_codes() -> impl Iterator<Item = &'static str> {
    KNOWN.systems.iter().filter(|system| matches!(system.standing, Standing::Done { .. })).map(|system| system.code)
}

/// The system of a code such as `EPSG:27700`; of one that stands for another, that one.
pub(crate) fn of_code(code: &str) -> Option<&'static System> {
    let system = KNOWN.systems.get(*KNOWN.by_code.get(code)?)?;
    match system.standing {
        Standing::Same(other) => KNOWN.systems.get(*KNOWN.by_code.get(other)?),
        _ => Some(system),
    }
}

/// The system whose definition has this hash.
pub(crate) fn of_hash(hash: &str) -> Option<&'static System> {
    KNOWN.systems.get((*KNOWN.by_hash.get(hash)?)?)
}

/// The first system with this name; `_` is a blank, and case makes no difference.
pub(crate) fn of_name(name: &str) -> Option<&'static System> {
    let plain =
        |name: &str| name.to_uppercase().replace(['_', '/'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = plain(name);
    KNOWN.systems.iter().find(|system| !matches!(system.standing, Standing::Same(_)) && plain(system.name) == wanted)
}

/// Three codes of the same authority whose numbers are near one that is not known, or the same number of another authority.
pub(crate) fn near(authority: &str, code: &str) -> Vec<&'static str> {
    let others = KNOWN.systems.iter().filter_map(|system| Some((system.code, system.code.split_once(':')?)));
    let same: Vec<_> = others.clone().filter(|(_, (_, number))| *number == code).map(|(whole, _)| whole).collect();
    let Ok(wanted) = code.parse::<i64>() else { return same };
    if !same.is_empty() {
        return same;
    }
    let mut near: Vec<_> = others
        .filter(|(_, (other, _))| *other == authority)
        .filter_map(|(whole, (_, number))| Some((number.parse::<i64>().ok()?.abs_diff(wanted), whole)))
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, code)| code).collect()
}

impl System {
    /// Its PROJJSON, without blanks.
    pub(crate) fn projjson(&self) -> Option<&'static str> {
        PROJJSON_LINES.get(self.line).copied().filter(|text| !text.is_empty())
    }
}
